"""What a run plan has for storage endpoints, which are no ranks."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.controller.run_plan import RunPlan
from emulator.planner.algorithm_choice import AlgorithmChoice
from emulator.trace.storage import play_on_storage_hosts
from emulator.trace.workload import build_workload
from tests.support.traces import Node, node, rank_trace, storage


def plan(nodes: list[Node], *, endpoints: int) -> RunPlan:
    traces = [rank_trace(rank, nodes) for rank in range(2)]
    workload = play_on_storage_hosts(build_workload(traces), traces, endpoints=endpoints)
    rest: dict[str, Any] = {"run_id": "r", "hosts": [], "ranks_of": {}, "iterations": [0], "transport": "zmq"}
    rest |= {"message_bytes": 1, "credits": True, "seed": 0, "silence_timeout_s": 1}
    ids = [trace.node_id for trace in traces]
    return RunPlan(workload=workload, node_ids=ids, choice=AlgorithmChoice(workload, {}), **rest)


def test_a_storage_endpoint_has_the_reads_of_its_ranks() -> None:
    made = plan([storage(7, "read", 5), storage(8, "write", 5)], endpoints=1)
    assert [made.is_storage(endpoint) for endpoint in range(3)] == [False, False, True]
    assert [len(made.program_of(endpoint)) for endpoint in range(3)] == [2, 2, 2]
    assert [one.peer for one in made.program_of(2).communications.values()] == [0, 1]
    assert made.node_ids_of(0).tolist() == [7, 8]
    assert len(made.node_ids_of(2)) == 2


@pytest.mark.parametrize("nodes", [[node(1)], [storage(1, "write", 5)]])
def test_one_that_nobody_reads_from_has_nothing_to_send(nodes: list[Node]) -> None:
    made = plan(nodes, endpoints=3)
    for endpoint in (2, 3, 4):
        assert len(made.program_of(endpoint)) == len(made.node_ids_of(endpoint)) == 0
