"""The numbers of a trace set, and how they are shown."""

import json

from emulator.trace.analysis.summary import OperationClass, Spread, StorageUse, summarise
from emulator.trace.meaning.workload import build_workload
from emulator.views.as_json import trace_to_json
from tests.support.traces import coll, example_summary, node, rank_trace, shown_summary, storage


def test_nodes_operations_groups_and_times_are_counted() -> None:
    summary = example_summary()
    assert (summary.ranks, summary.nodes) == (3, 10)
    assert summary.nodes_by_type == {"METADATA": 1, "COMP": 2, "COMM_SEND": 1, "COMM_RECV": 1, "COMM_COLL": 5}
    assert summary.communication_nodes == {"all_reduce": 3, "all_gather": 2, "send": 1, "recv": 1}
    assert summary.operations == [
        OperationClass("all_reduce", 3, operations=1, nodes=3, payload_bytes=8, payload_bytes_all_ranks=24),
        OperationClass("all_gather", 2, operations=1, nodes=2, payload_bytes=100, payload_bytes_all_ranks=200),
        OperationClass("send", 2, operations=1, nodes=2, payload_bytes=30, payload_bytes_all_ranks=30),
    ]
    assert [(group.name, len(group)) for group in summary.groups] == [("", 3), ("tp", 2)]
    assert summary.groups_defined == 3
    assert summary.cpu_ns == Spread(0, 0, 7_000)
    assert summary.device_ns == Spread(0, 0, 5_000)
    assert summary.traced_communication_ns == Spread(4_000, 45_000, 51_000)
    assert summary.critical_path_compute_ns == 7_000
    assert summary.critical_path_traced_ns == 7_000 + 40_000 + 3_000 + 1_000


def test_storage_is_counted_and_named() -> None:
    nodes = [storage(1, "write", 1 << 20), storage(2, "write", 3 << 20), storage(3, "read", 5), storage(4)]
    traces = [rank_trace(0, nodes)]
    summary = summarise(build_workload(traces), traces)
    assert summary.nodes_by_type == {"STORAGE": 4}
    assert summary.storage == {"read": StorageUse(1, 5), "write": StorageUse(2, 4 << 20)}
    assert "1 read of 5 B in all, 2 writes of 4 MiB in all" in shown_summary(summary)
    assert trace_to_json(summary)["storage"]["write"] == {"operations": 2, "size_bytes": 4 << 20}
    assert example_summary().storage == {}


def test_without_recorded_communication_there_is_no_such_time() -> None:
    traces = [rank_trace(0, [node(1, duration=2), coll(2, "barrier", None)])]
    summary = summarise(build_workload(traces), traces)
    assert (summary.traced_communication_ns, summary.critical_path_traced_ns) == (None, None)
    assert "traced" not in shown_summary(summary)


def test_uneven_all_to_all_counts_its_largest_member_once() -> None:
    traces = [
        rank_trace(0, [coll(1, "all_to_all", 10, in_splits=(3, 7))]),
        rank_trace(1, [coll(1, "all_to_all", 6, in_splits=(1, 5))]),
    ]
    [operation] = summarise(build_workload(traces), traces).operations
    assert (operation.payload_bytes, operation.payload_bytes_all_ranks) == (10, 16)


def test_json_has_every_field() -> None:
    content = json.loads(json.dumps(trace_to_json(example_summary())))
    assert content["groups"][1] == {"name": "tp", "ranks": [0, 1]}
    assert content["cpu_ns"] == {"least": 0, "middle": 0, "most": 7_000}
    assert content["operations"][0]["payload_bytes_all_ranks"] == 24
    assert content["communication_nodes"]["send"] == 1
