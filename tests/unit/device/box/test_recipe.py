"""What is taken from a machine is given back."""

from __future__ import annotations

from emulator.device.box.model import Box, BoxPort
from emulator.device.box.recipe import bring_up, give_back

PORTS = (BoxPort("eth1", "m", 1500), BoxPort("eth2", "m", 1500, is_up=False, merged=False))


def text(batches: object) -> list[str]:
    return [" ".join([*one.command, *one.lines]) for one in batches]  # type: ignore[attr-defined]


def test_ports_move_into_a_namespace_before_they_are_bridged() -> None:
    lines = text(bring_up(Box("a", PORTS, 1, "")))
    assert lines[0] == "ip netns add charkha-box-a"
    moved = next(number for number, line in enumerate(lines) if "link set dev eth1 netns charkha-box-a" in line)
    bridged = next(number for number, line in enumerate(lines) if "link set dev eth2 master br0 up" in line)
    assert moved < bridged == len(lines) - 1
    assert any(line.endswith("ethtool -K eth2 gro off") for line in lines)


def test_a_rate_shapes_both_ports() -> None:
    shaped = text(bring_up(Box("a", PORTS, 1, "", rate_bps=10**9)))[-1]
    assert shaped.count("tbf rate 1000000000bit") == 2


def test_a_port_is_left_down_if_it_was_down() -> None:
    lines = text(give_back(Box("a", PORTS, 1, "")))
    assert "ip link set dev eth1 up" in lines
    assert "ethtool -K eth1 gro on" in lines
    assert not any(line.startswith(("ip link set dev eth2", "ethtool -K eth2")) for line in lines)
