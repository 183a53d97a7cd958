"""What a run plan has for storage endpoints, which are no ranks; how often agents report."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from emulator.controller.run_plan import REPORTS_PER_S, RunPlan, SessionPlan
from emulator.planner.algorithm_choice import AlgorithmChoice
from emulator.trace.meaning.storage import play_on_storage_hosts
from emulator.trace.meaning.workload import build_workload
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


@pytest.mark.parametrize(
    ("agents", "interval_ms"), [(1, 50), (100, 50), (101, 50.5), (512, 256), (1000, 500), (9999, 500)]
)
def test_the_more_agents_the_less_often_each_reports(agents: int, interval_ms: float) -> None:
    job = replace(plan([], endpoints=0), ranks_of={f"a{n}": [n] for n in range(agents // 2 + 1)})
    other = replace(job, ranks_of={f"a{n}": [n] for n in range(agents)})
    session = SessionPlan("s", [job, other], silence_timeout_s=1)
    assert session.report_interval_ns == interval_ms * 1_000_000
    assert agents > 1000 or agents * 1_000_000_000 / session.report_interval_ns <= REPORTS_PER_S
