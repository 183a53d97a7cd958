"""The worst flows of a run: order, names, attribution of losses."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from emulator.results.run_folder.manifest import Manifest
from emulator.results.run_folder.schema import COUNTERS_SCHEMA, FLOW_EVENTS_SCHEMA, FLOWS_SCHEMA, to_batch
from emulator.results.statistics.worst.worst_flows import LossFocus, WorstFlow, endpoint_names, loss_foci, worst_flows
from tests.support.runs import manifest

NETWORK = {"switches": [{"name": "sw0"}], "links": [{"ends": ["h0:eth0", "sw0:p0"]}, {"ends": ["h1:eth0", "sw0:p1"]}]}
HOSTS = [{"name": f"h{n}", "interfaces": [{"name": "eth0"}]} for n in range(2)]
TOPOLOGY = {"hosts": HOSTS, "host_index": [0, 1, 1], "interface_index": [0, 0, 0], "network": NETWORK}
RUN: Manifest = replace(manifest(), topology=TOPOLOGY)


def test_ends_of_flows_are_ranks_and_then_interfaces_of_storage_hosts() -> None:
    assert endpoint_names(RUN) == ["0", "1", "h1:eth0"]
    assert endpoint_names(replace(RUN, topology={})) == ["0", "1"]
    assert endpoint_names(replace(RUN, topology={"host_index": [0, 0, 1, 1]})) == ["0", "1", "storage 0", "storage 1"]


def flows(*rows: dict[str, Any]) -> pa.Table:
    """Flows; counters that a row does not name are 0."""
    names = [name for name in FLOWS_SCHEMA.names if name not in ("rtt_ns", "qpn", "source_port", "medium")]
    columns = {name: [row.get(name, 0) for row in rows] for name in names}
    columns |= {name: [row.get(name) for row in rows] for name in ("qpn", "source_port")}
    return pa.Table.from_batches([to_batch(FLOWS_SCHEMA, columns)], FLOWS_SCHEMA)


def counters(*rows: tuple[str, str, int], device: str = "sw0") -> pa.Table:
    """Counters of a device that grow from 0: (interface, counter, value)."""
    listed = [(at, device, port, name, value * at) for port, name, value in rows for at in (0, 1)]
    columns = {name: [row[place] for row in listed] for place, name in enumerate(COUNTERS_SCHEMA.names)}
    return pa.Table.from_batches([to_batch(COUNTERS_SCHEMA, columns)] if rows else [], COUNTERS_SCHEMA)


def found(*rows: dict[str, Any], drops: pa.Table | None = None, most: int = 5) -> tuple[WorstFlow, ...]:
    return worst_flows(flows(*rows), counters() if drops is None else drops, RUN, most=most)


def test_retransmissions_come_first_then_timeouts_and_quiet_flows_never() -> None:
    rows = (
        {"src": 0, "dst": 1, "packets": 9},
        {"src": 1, "dst": 0, "timeouts": 3},
        {"src": 2, "dst": 0, "retransmits": 5},
        {"src": 0, "dst": 2, "retransmits": 5, "timeouts": 1},
        {"src": 2, "dst": 1, "ecn_marks": 1},
    )
    assert [(one.src, one.dst) for one in found(*rows)] == [(0, 2), (2, 0), (1, 0), (2, 1)]
    assert len(found(*rows, most=2)) == 2
    assert found(rows[0]) == ()


def test_a_flow_names_both_ports_its_queue_pair_and_its_path() -> None:
    (one,) = found({"src": 0, "dst": 2, "retransmits": 1, "qpn": 17, "source_port": 49509})
    assert (one.source, one.destination, one.qpn, one.source_port) == ("h0:eth0", "h1:eth0", 17, 49509)


def test_lost_packets_are_those_that_no_receiver_reported() -> None:
    (one,) = found({"src": 0, "dst": 1, "retransmits": 20, "duplicates": 5, "out_of_order": 12})
    assert (one.lost, one.spurious) == (3, 5)
    table = flows({"src": 0, "dst": 1, "retransmits": 20})
    unknown = table.set_column(table.schema.get_field_index("duplicates"), "duplicates", pa.array([None], pa.int64()))
    assert worst_flows(unknown, counters(), RUN, most=1)[0].lost is None


@pytest.mark.parametrize(
    ("rows", "drops"),
    [
        ((("p1", "qdisc_drops", 7), ("p0", "rx_dropped", 1), ("p0", "rx_packets", 50)), 8),
        ((("p1", "qdisc_drops", 7), ("", "profile_drops", 2)), None),
        ((("p1", "tx_packets", 7),), 0),
        ((), None),
    ],
    ids=["at both ports", "of the whole device", "none", "not monitored"],
)
def test_drops_of_the_device_are_those_next_to_the_flow(rows: Any, drops: int | None) -> None:
    (one,) = found({"src": 0, "dst": 1, "retransmits": 1}, drops=counters(*rows))
    assert one.device_drops == drops


def test_runs_that_do_not_name_ports_have_ranks() -> None:
    (one,) = worst_flows(flows({"src": 0, "dst": 1, "naks": 2, "rnr_naks": 1}), counters(), manifest(), most=3)
    assert (one.source, one.destination, one.naks) == ("", "", 3)


THREE: Manifest = replace(
    RUN,
    topology=TOPOLOGY | {"hosts": [*HOSTS, {"name": "h2", "interfaces": [{"name": "eth0"}]}], "host_index": [0, 1, 2]},
)


@pytest.mark.parametrize(
    ("lost", "focus"),
    [
        ({(0, 1): 90, (1, 2): 10}, LossFocus("h0:eth0", "h1:eth0", 90, 100)),
        ({(0, 2): 50, (1, 2): 40, (2, 0): 10}, LossFocus("", "h2:eth0", 90, 100)),
        ({(1, 0): 50, (1, 2): 35, (2, 0): 15}, LossFocus("h1:eth0", "", 85, 100)),
        ({(0, 1): 30, (1, 2): 40, (2, 0): 30}, None),
        ({(0, 1): 0}, None),
    ],
    ids=["a pair", "to a port", "from a port", "everywhere", "nothing"],
)
def test_the_port_with_most_losses_is_named(lost: dict[tuple[int, int], int], focus: LossFocus | None) -> None:
    rows = [
        {"src": src, "dst": dst, "retransmits": 3 * count, "out_of_order": 2 * count}
        for (src, dst), count in lost.items()
    ]
    assert loss_foci(flows(*rows), counters(), THREE) == ((focus,) if focus else ())


def test_without_ports_or_counters_nothing_is_named() -> None:
    table = flows({"src": 0, "dst": 1, "retransmits": 5})
    assert loss_foci(table, counters(), manifest()) == ()
    unknown = table.set_column(table.schema.get_field_index("duplicates"), "duplicates", pa.array([None], pa.int64()))
    assert loss_foci(unknown, counters(), RUN) == ()


@pytest.mark.parametrize(
    ("drops", "focus"),
    [
        ([("p1", "profile_drops", 9), ("p0", "qdisc_drops", 1)], LossFocus("", "h1:eth0", 9, 10, "sw0:p1")),
        (
            [("p1", "profile_drops", 5), ("p1", "tx_dropped", 4), ("", "profile_drops", 1)],
            LossFocus("", "h1:eth0", 9, 10, "sw0:p1"),
        ),
        ([("p1", "profile_drops", 7), ("p0", "profile_drops", 3)], None),
        (
            [("p1", "profile_drops", 7), ("p0", "qdisc_drops", 30), ("p1", "qdisc_drops", 30)],
            LossFocus("", "h1:eth0", 7, 7, "sw0:p1", "by its profile"),
        ),
        ([("", "profile_drops", 9), ("p0", "qdisc_drops", 1), ("p1", "qdisc_drops", 1)], None),
        ([("p1", "profile_drops", 5), ("p1", "tx_dropped", 3)], LossFocus("", "h1:eth0", 8, 8, "sw0:p1")),
        ([("p7", "profile_drops", 4)], LossFocus("", "sw0:p7", 4, 4, "sw0:p7")),
        ([("p1", "rx_packets", 9)], None),
    ],
    ids=[
        "a port",
        "a port and unknown ones",
        "both ports",
        "one way of dropping",
        "no port",
        "two counters",
        "not of a host",
        "nothing dropped",
    ],
)
def test_acks_that_a_device_dropped_are_at_its_port(drops: list[tuple[str, str, int]], focus: LossFocus | None) -> None:
    row = {"src": 0, "dst": 1, "retransmits": 5, "duplicates": 5}
    assert loss_foci(flows(row), counters(*drops), RUN)[:1] == ((focus,) if focus else ())


def test_a_pair_is_more_than_a_port_of_a_device() -> None:
    table = flows({"src": 0, "dst": 1, "retransmits": 5})
    assert loss_foci(table, counters(("p1", "profile_drops", 5)), RUN) == (LossFocus("h0:eth0", "h1:eth0", 5, 5),)


def test_what_a_host_dropped_is_not_at_a_port_of_the_device() -> None:
    row = {"src": 0, "dst": 1, "retransmits": 5, "duplicates": 5}
    assert loss_foci(flows(row), counters(("eth0", "rx_dropped", 5), device="h1"), RUN) == ()


def test_where_a_host_is_the_device_its_own_port_is_named() -> None:
    row = {"src": 0, "dst": 1, "retransmits": 5, "duplicates": 5}
    run = replace(RUN, dut={"nodes": ["h1"]})
    (focus,) = loss_foci(flows(row), counters(("eth0", "rx_dropped", 5), device="h1"), run)
    assert focus == LossFocus("", "h1:eth0", 5, 5, "h1:eth0")


def test_a_frame_that_a_rule_dropped_is_named_beside_many_that_overflowed_elsewhere() -> None:
    drops = counters(("p1", "profile_drops", 1), ("p0", "qdisc_drops", 30))
    rule = LossFocus("", "h1:eth0", 1, 1, "sw0:p1", "by its profile")
    spurious = flows({"src": 0, "dst": 1, "retransmits": 5, "duplicates": 5})
    assert loss_foci(spurious, drops, RUN) == (LossFocus("", "h0:eth0", 30, 31, "sw0:p0"), rule)
    three = flows({"src": 0, "dst": 2, "retransmits": 30})
    everywhere = counters(("p0", "profile_drops", 9), ("p0", "qdisc_drops", 16), ("p1", "qdisc_drops", 16))
    at_p0 = LossFocus("", "h0:eth0", 9, 9, "sw0:p0", "by its profile")
    assert loss_foci(three, everywhere, THREE) == (LossFocus("h0:eth0", "h2:eth0", 30, 30), at_p0)
    queues = LossFocus("", "h0:eth0", 30, 30, "sw0:p0", "in queues")
    assert loss_foci(three, drops, THREE) == (LossFocus("h0:eth0", "h2:eth0", 30, 30), rule, queues)


def test_a_flow_names_the_iterations_with_events_by_queue_pair() -> None:
    rows = [
        {"src": 0, "dst": 1, "qpn": 17, "retransmits": 3},
        {"src": 0, "dst": 1, "qpn": 18, "retransmits": 1},
        {"src": 1, "dst": 0, "qpn": 16, "retransmits": 1},
    ]
    listed = {"iteration": [4, -1, 2], "src": [0, 0, 0], "dst": [1, 1, 1], "qpn": [17, 17, 18]}
    events = pa.Table.from_batches([to_batch(FLOW_EVENTS_SCHEMA, listed)])
    named = worst_flows(flows(*rows), counters(), RUN, most=3, flow_events=events)
    assert [(one.qpn, one.iterations) for one in named] == [(17, (-1, 4)), (18, (2,)), (16, ())]
