"""Background traffic of a run spec: what it may say, and both ends of every flow on a topology."""

import json
from pathlib import Path
from typing import Any

import pytest

from emulator.errors import PlanError
from emulator.experiment.settle.background import plan_background
from emulator.experiment.settle.flows import FreeAddresses, PlannedFlow, flow_parameters
from emulator.experiment.spec.flow_spec import Background, parse_background
from emulator.flows.background import BackgroundTask
from emulator.roce.options import RoceOptions
from emulator.schema import SchemaProblem, decode
from emulator.topology.load import load_topology
from emulator.topology.model import Topology, default_loopback

HOSTS = """
hosts:
  - {name: h0, per_rank: 198.18.0.0/24}
  - {name: h1, per_rank: 198.18.1.0/24}
  - {name: h2, addresses: [198.18.2.1], slots: 1}
  - {name: nic, address: 198.18.9.1, peer: {}}
switches: [{name: sw0}]
links:
  - {endpoints: ["h0:eth0", "sw0:p0"], rate: 1Gbit, mtu: 1500}
  - {endpoints: ["h1:eth0", "sw0:p1"], rate: 1Gbit, mtu: 1500}
  - {endpoints: ["h2:eth0", "sw0:p2"], rate: 1Gbit, mtu: 1500}
  - {endpoints: ["nic:eth0", "sw0:p3"], rate: 1Gbit, mtu: 1500}
placement: {0: h0, 1: h1, 2: h2}
"""


@pytest.fixture
def topology(tmp_path: Path) -> Topology:
    (tmp_path / "t.yaml").write_text(HOSTS)
    return load_topology(tmp_path / "t.yaml", ranks=3)


def plan(topology: Topology, *specs: dict[str, Any]) -> list[PlannedFlow]:
    background = [decode({"from": "h0", "to": "h1", "rate": "100Mbit", **spec}, Background) for spec in specs]
    free, options = FreeAddresses(topology, is_rocev2=True), RoceOptions(dscp=34)
    return list(plan_background(background, topology, free, first=3, mtu=1500, options=options, seed=7))


def document(flow: PlannedFlow) -> BackgroundTask:
    return decode(json.loads(flow.task.document), BackgroundTask)


def test_a_flow_has_two_ends_at_addresses_that_no_rank_uses(topology: Topology) -> None:
    sender, receiver = plan(topology, {})
    sends, receives = document(sender), document(receiver)
    assert (sends.is_sender, receives.is_sender) == (True, False)
    assert (sends.address, sends.peer_address) == (receives.peer_address, receives.address)
    assert (sends.address, receives.address) == ("198.18.0.254", "198.18.1.254")
    assert (sends.tag, sends.schedule) == (receives.tag, receives.schedule)
    assert (sends.options.path_mtu, sends.options.dscp, sends.options.congestion) == (1024, 34, "dcqcn")
    assert [one.task.number for one in (sender, receiver)] == [3, 4]
    assert sender.task.title == "background 0 (h0 to h1, sender)"
    assert flow_parameters([sender, receiver])["background.0"].value == (
        "h0 to h1 over roce, 100 Mbit/s on the wire, poisson, fixed sizes of 64 KiB in the mean, DSCP 34"
    )


@pytest.mark.parametrize(
    ("transport", "packet_bytes", "per_packet", "per_message"),
    [("roce", 1024, 82, 20), ("tcp", 1448, 90, 16), ("udp", 1440, 98, 0)],
)
def test_the_rate_counts_all_headers(
    topology: Topology, transport: str, packet_bytes: int, per_packet: int, per_message: int
) -> None:
    """38 bytes of Ethernet, 20 of IPv4; UDP 8, BTH 12 and ICRC 4; RETH 16, ImmDt 4; TCP 32; and our own."""
    wire = document(plan(topology, {"transport": transport})[0]).schedule.wire
    assert (wire.packet_bytes, wire.per_packet, wire.per_message) == (packet_bytes, per_packet, per_message)


def test_many_to_one_are_flows_with_seeds_of_their_own(topology: Topology) -> None:
    flows = plan(topology, {"from": ["h0", "h1"], "to": "h2", "pattern": "incast", "transport": "tcp"}, {})
    assert [(flow.row["flow"], flow.host) for flow in flows] == [
        (0, "h0"), (0, "h2"), (1, "h1"), (1, "h2"), (2, "h0"), (2, "h1"),
    ]  # fmt: skip
    assert [document(flow).schedule.seed for flow in flows[::2]] == [(7, 0), (7, 1), (7, 2)]
    assert [document(flow).port for flow in flows] == [20_000, 20_000, 20_001, 20_001, 20_002, 20_002]
    assert flows[1].task.host == flows[3].task.host == "198.18.2.1"  # its only address, beside its rank


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"from": "h9"}, r"background\[0\]: there is no host 'h9' in .*; there are h0, h1, h2"),
        ({"to": "nic"}, "there is no host 'nic'"),
        ({"to": "h2"}, r"background\[0\]: h2: .* has no address left"),
        ({"pattern": "on-off", "peak": "50Mbit"}, "peak must be above rate"),
        ({"from": "rank 3"}, "there is no rank 3; the last one is rank 2"),
        ({"from": "h0", "to": "h0"}, "h0 and h0 are the same host: the traffic would not leave it"),
    ],
)
def test_what_the_topology_cannot_do_is_refused(topology: Topology, spec: dict[str, Any], problem: str) -> None:
    with pytest.raises(PlanError, match=problem):
        plan(topology, spec)


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"rate": "100"}, "'100' is not a rate"),
        ({"rate": 10}, "rate: 10 bit/s is outside 1 kbit/s to 10 Tbit/s"),
        ({"size": "1K", "sizes": "hadoop"}, "size is for sizes: fixed, not for hadoop"),
        ({"size": "2G"}, "outside 1 byte to 1 GiB"),
        ({"sizes": "cache"}, "is not one of"),
        ({"pattern": "burst"}, "is not one of"),
        ({"peak": "1Gbit"}, "peak and on_time are for pattern: on-off, not for poisson"),
        ({"rate": "0 %"}, "'0 %' is not above 0% and below 100%"),
        ({"from": ["h0", "h1"], "to": []}, "needs a host in from and a different one in to"),
        ({"form": "h0"}, "unknown key 'form'; did you mean 'from'"),
        ({"dscp": 64}, "<= 63"),
    ],
)
def test_a_spec_that_makes_no_sense_is_refused(spec: dict[str, Any], problem: str) -> None:
    with pytest.raises(SchemaProblem, match=problem):
        decode({"from": "h0", "to": "h1", "rate": "100Mbit", **spec}, Background)


def test_text_of_the_command_line_says_the_same() -> None:
    text = "from=h0+h1,to=h2,rate=200Mbit,pattern=on-off,peak=1Gbit,on_time=5ms,sizes=web-search,dscp=10,transport=tcp"
    spec = decode(parse_background(text), Background)
    assert spec.pairs == [("h0", "h2"), ("h1", "h2")]
    assert (spec.rates_bps(None), spec.on_ns, spec.dscp) == ((200_000_000, 10**9), 5_000_000, 10)
    for wrong in ("from=h0,to", "h0", "from=,to=h1"):
        with pytest.raises(ValueError, match="write from=HOST,to=HOST,rate=200Mbit"):
            parse_background(wrong)


def test_ranks_and_shares_of_a_port_need_no_names_of_a_topology(topology: Topology) -> None:
    sender, receiver = plan(topology, {"from": "rank 1", "to": "rank 0", "rate": "10 %"})
    assert (sender.host, receiver.host, sender.row["rate_bps"]) == ("h1", "h0", 100_000_000)
    loopback = default_loopback(2)
    sender, receiver = plan(loopback, {"from": "rank 1", "to": "rank 0"})
    assert (sender.task.host, receiver.task.host) == ("127.1.0.3", "127.1.0.4")  # the next ones after those of ranks
    with pytest.raises(PlanError, match="10 % of the sender's port has no rate in the topology"):
        plan(loopback, {"from": "rank 1", "to": "rank 0", "rate": "10 %"})
    with pytest.raises(
        PlanError, match="without --topology there are no hosts: give a rank such as 'rank 0', not 'h0'"
    ):
        plan(loopback, {})
