"""What both ends of a flow counted becomes one row, and the rows one line."""

from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.control.observations import FlowCounters, Medium, join_ends
from emulator.control.parameter import Parameter
from emulator.results.run_folder.manifest import HostFacts
from emulator.results.run_folder.schema import FLOWS_SCHEMA
from emulator.results.statistics.summary import summarise
from emulator.results.statistics.traffic.flow_counters import (
    domain_share,
    lost_packets,
    media,
    receiver_drops,
    sum_flow_counters,
    unexplained,
    wire_flows,
)
from tests.support.runs import collective, write_run
from tests.support.runs import manifest as make_manifest

SENT = FlowCounters(
    0, 1, bytes=5000, messages=2, packets=3, retransmits=1, timeouts=1, naks=0, qpn=17, source_port=50_000
)
RECEIVED = FlowCounters(0, 1, qpn=17, duplicates=1, ecn_marks=0, out_of_order=2, largest_displacement=2, cnps_sent=0)


@pytest.mark.parametrize("ends", [[SENT, RECEIVED], [RECEIVED, SENT]], ids=["sender first", "receiver first"])
def test_both_ends_of_a_flow_make_one_row(ends: list[FlowCounters]) -> None:
    (flow,) = join_ends(ends)
    assert (flow.bytes, flow.messages, flow.packets, flow.retransmits, flow.source_port) == (5000, 2, 3, 1, 50_000)
    assert (flow.duplicates, flow.out_of_order, flow.largest_displacement, flow.ecn_marks) == (1, 2, 2, 0)
    assert flow.dropped_icrc is None


def test_directions_and_queue_pairs_stay_apart_and_flows_that_carried_nothing_go() -> None:
    other = FlowCounters(0, 1, bytes=1, messages=1, qpn=18)
    back = FlowCounters(1, 0, bytes=1, messages=1, qpn=17)
    idle = FlowCounters(1, 0, qpn=18, packets=0, rtt_ns=None, source_port=50_001)
    flows = join_ends([other, back, RECEIVED, idle, SENT])
    assert [(flow.src, flow.dst, flow.qpn) for flow in flows] == [(0, 1, 17), (0, 1, 18), (1, 0, 17)]


def test_what_came_to_a_flow_that_sent_nothing_is_kept() -> None:
    """As where a stranger writes to its port."""
    (flow,) = join_ends([FlowCounters(0, 1, qpn=17, dropped_icrc=4)])
    assert (flow.messages, flow.dropped_icrc) == (0, 4)


@pytest.mark.parametrize(
    ("counted", "copies", "resends"),
    [
        ({"retransmits": 0, "duplicates": 113}, 113, 0),
        ({"retransmits": 5, "duplicates": 7, "copies": 4}, 6, 5),
        ({"retransmits": 5, "duplicates": 5, "copies": 4}, 4, 5),
        ({"retransmits": 5, "duplicates": 5}, None, 5),
        ({"duplicates": 5}, None, 5),
        ({"retransmits": 30, "duplicates": 5, "copies": 24, "timeouts": 1}, 0, 29),
        ({"retransmits": 20, "duplicates": 5, "copies": 24, "timeouts": 1}, 9, 20),
        ({"retransmits": 5, "duplicates": 7, "copies": 4, "timeouts": 1}, 6, 5),
    ],
    ids=[
        "an older run",
        "both",
        "told apart",
        "unknown",
        "the sender is unknown",
        "a late reader",
        "a late reader and the network",
        "a timeout beside the network",
    ],
)
def test_more_duplicates_than_resends_were_made_by_the_network(
    counted: dict[str, int], copies: int | None, resends: int
) -> None:
    flow = asdict(FlowCounters(0, 1, messages=1)) | counted
    counters = sum_flow_counters(pa.Table.from_pylist([flow], schema=FLOWS_SCHEMA))
    assert (counters.get("copies"), counters["duplicates"]) == (copies, resends)


def test_counters_are_summed_and_displacements_are_not() -> None:
    rows = [
        asdict(one) for one in (*join_ends([SENT, RECEIVED]), FlowCounters(1, 0, packets=4, largest_displacement=9))
    ]
    counters = sum_flow_counters(pa.Table.from_pylist(rows, schema=FLOWS_SCHEMA))
    assert counters["packets"] == 7
    assert counters["largest_displacement"] == 9
    assert "dropped_icrc" not in counters, "nobody knows it, which is not 0"


def test_what_goes_through_a_domain_is_apart_from_what_goes_over_the_wire() -> None:
    old = asdict(FlowCounters(1, 0, bytes=100)) | {"medium": None}  # of a version without domains
    rows = [asdict(SENT), old, asdict(FlowCounters(0, 2, bytes=4900, messages=1, medium=Medium.DOMAIN))]
    flows = pa.Table.from_pylist(rows, schema=FLOWS_SCHEMA)
    assert media(flows) == ["wire", "wire", "domain"]
    assert wire_flows(flows)["bytes"].to_pylist() == [5000, 100]
    assert (domain_share(flows), domain_share(flows.slice(0, 0))) == (0.49, 0.0)


def test_a_loss_is_found_beside_flows_that_count_no_packets(tmp_path: Path) -> None:
    """Nothing of a domain is compared with what the device counted."""
    ports = [{"name": f"h{n}", "interfaces": [{"name": "eth0"}]} for n in range(2)]
    placed = {"hosts": ports, "host_index": [0, 0, 1], "addresses": [f"198.18.0.{n}" for n in range(1, 4)]}
    wire = FlowCounters(0, 2, bytes=900, messages=9, packets=9, retransmits=3, duplicates=0, out_of_order=0)
    inside = FlowCounters(0, 1, bytes=2700, messages=3, medium=Medium.DOMAIN)
    samples = collective([0] * 3, [100] * 3)
    run = write_run(tmp_path / "run", samples, flows=[wire, inside], topology=placed)
    summary = summarise(run)
    (focus,) = summary.loss_foci
    assert (focus.source, focus.destination, focus.lost) == ("h0:eth0", "h1:eth0", 3)
    (worst,) = summary.worst_flows
    assert (worst.dst, worst.lost) == (2, 3)
    assert summary.totals.domain_bytes == 2250  # three quarters of 3,000
    assert summary.totals.network.payload_bytes == 750


COUNTERS = {"retransmits": 100, "duplicates": 30, "out_of_order": 60}


def test_what_no_receiver_reported_was_lost() -> None:
    assert lost_packets(COUNTERS, make_manifest()) == 10


def test_a_receiver_that_keeps_early_packets_discards_none() -> None:
    for parameters in ({"roce.receiver": Parameter("ooo")}, {"roce.multipath": Parameter(4)}):
        assert lost_packets(COUNTERS, make_manifest(parameters=parameters)) == 70


def test_loss_is_unknown_for_a_transport_without_these_counters() -> None:
    assert lost_packets({"packets": 5}, make_manifest()) is None


@given(st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 1000))
def test_loss_is_never_negative(retransmits: int, duplicates: int, early: int) -> None:
    counters = {"retransmits": retransmits, "duplicates": duplicates, "out_of_order": early}
    lost = lost_packets(counters, make_manifest())
    assert 0 <= lost <= retransmits


def test_drops_of_receiving_hosts_are_summed_and_unknown_without_facts() -> None:
    facts = {"window": Parameter(1, "bytes")}
    hosts = (HostFacts("a", transport=facts | {"dropped.queue": Parameter(3)}), HostFacts("b", transport=facts))
    assert receiver_drops(make_manifest(hosts=hosts)) == 3
    assert receiver_drops(make_manifest(hosts=hosts[1:])) == 0
    assert receiver_drops(make_manifest(hosts=(HostFacts("c"),))) is None


def test_loss_is_explained_by_the_device_or_by_a_receiver() -> None:
    assert unexplained(10, COUNTERS, device=10, receivers=0) == 0
    assert unexplained(10, COUNTERS, device=4, receivers=0) == 6
    assert unexplained(10, COUNTERS, device=0, receivers=1) == 0
    assert unexplained(10, COUNTERS | {"dropped_icrc": 7}, device=0, receivers=0) == 3


def test_loss_at_a_device_that_nobody_monitored_stays_open() -> None:
    assert unexplained(10, COUNTERS, device=None, receivers=0) is None
    assert unexplained(0, COUNTERS, device=None, receivers=0) == 0
    assert unexplained(None, {}, device=0, receivers=0) is None
