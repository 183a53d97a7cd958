"""Whether this host can carry a lab at its rates."""

import pytest

from emulator.device.lab.capacity import judge, offered_load
from emulator.planner.network.header_overhead import roce_overhead
from tests.support.topologies import shipped_topology


def test_what_hosts_offer_is_counted_in_packets() -> None:
    load = offered_load(shipped_topology("eight-hosts-switch").network)
    packet = roce_overhead(1500, message_bytes=1024).wire_bytes
    assert load.packets_per_s == pytest.approx(8 * 10**8 / 8 / packet)


def test_a_host_carries_what_its_cores_can() -> None:
    assert judge(shipped_topology("eight-hosts-switch").network, cores=2) is None
    assert judge(shipped_topology("two-hosts-switch").network, cores=2) is None
    refused = judge(shipped_topology("two-hosts-switch").network, cores=1)
    assert refused is not None
    assert "1 cores can handle about" in refused
