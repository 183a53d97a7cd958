"""A box is a lab of one switch, which profiles apply to."""

from __future__ import annotations

from emulator.device.box.model import Box, BoxPort

PORTS = (BoxPort("eth1", "02:00:00:00:00:01", 1500), BoxPort("eth2", "02:00:00:00:00:02", 1500))


def test_its_switch_is_a_bridge_with_the_ports_of_the_machine() -> None:
    node = Box("a", PORTS, network=1, created="").node
    assert (node.name, node.kind, node.namespace) == ("box", "bridge", "charkha-box-a")
    assert [(port.name, port.device, port.shaping) for port in node.ports] == [
        ("eth1", "eth1", None),
        ("eth2", "eth2", None),
    ]


def test_its_ports_have_the_rate_it_limits_them_to() -> None:
    rates = [port.shaping and port.shaping.rate_bps for port in Box("a", PORTS, 1, "", rate_bps=10**9).node.ports]
    assert rates == [10**9, 10**9]
