"""Whether this host can carry a lab at its rates."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.device.lab.capacity import judge, offered_load
from emulator.planner.network.header_overhead import roce_overhead
from emulator.topology.load import load_topology

TOPOLOGIES = Path(__file__).parents[4] / "topologies"


def shipped(name: str):
    return load_topology(TOPOLOGIES / f"{name}.yaml", ranks=0)


def test_what_hosts_offer_is_counted_in_packets() -> None:
    load = offered_load(shipped("eight-hosts-switch").network)
    packet = roce_overhead(1500, message_bytes=1024).wire_bytes
    assert load.packets_per_s == pytest.approx(8 * 10**8 / 8 / packet)


def test_a_host_carries_what_its_cores_can() -> None:
    assert judge(shipped("eight-hosts-switch").network, cores=2) is None
    assert judge(shipped("two-hosts-switch").network, cores=2) is None
    refused = judge(shipped("two-hosts-switch").network, cores=1)
    assert refused is not None
    assert "1 cores can handle about" in refused
