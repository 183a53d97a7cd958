"""What a run plan has for storage endpoints, which are no ranks; how often agents report."""

from dataclasses import replace

import pytest

from emulator.control.conversation import DomainPlace
from emulator.controller.assignment import Assignment
from emulator.controller.run_plan import REPORTS_PER_S, RunPlan, SessionPlan
from emulator.trace.meaning.storage import play_on_storage_hosts
from emulator.trace.meaning.workload import build_workload
from tests.support.plans import run_plan
from tests.support.traces import Node, coll, node, rank_trace, storage


def plan(nodes: list[Node], *, endpoints: int) -> RunPlan:
    traces = [rank_trace(rank, nodes) for rank in range(2)]
    workload = play_on_storage_hosts(build_workload(traces), traces, endpoints=endpoints)
    return replace(run_plan(traces, {}), workload=workload)


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
    job, other = (
        replace(plan([], endpoints=0), assignment=Assignment({f"a{n}": [n] for n in range(count)}, frozenset()))
        for count in (agents // 2 + 1, agents)
    )
    session = SessionPlan("s", [job, other])
    assert session.report_interval_ns == interval_ms * 1_000_000
    assert agents > 1000 or agents * 1_000_000_000 / session.report_interval_ns <= REPORTS_PER_S


def test_an_agent_is_told_its_part_of_each_job_that_it_plays() -> None:
    traces = [rank_trace(rank, [coll(1, "all_reduce", 8)]) for rank in range(3)]
    first = run_plan(traces, {"a": [0, 2], "b": [1]})
    domains = [DomainPlace((0, 2), 10**9, 5), DomainPlace((1,), 10**9, 5)]
    groups = [(0, 1, 2), (0, 2)]
    settings = replace(first.setup.settings, groups=groups)
    second = replace(
        first,
        setup=replace(first.setup, run_id="second", settings=settings, domains=domains),
        assignment=Assignment({"b": [1], "a": [0, 2]}, frozenset()),
    )
    only_a = replace(first, assignment=Assignment({"a": [0, 1, 2]}, frozenset()))
    session = SessionPlan("s", [only_a, second], networks={"b": ["192.0.2.0/24"]})
    a, b = session.setup_of("a"), session.setup_of("b")
    assert (sorted(a.jobs), sorted(b.jobs)) == ([0, 1], [1])
    assert [place.rank for place in a.ranks] == [0, 1, 2, 0, 2]
    assert [place.rank for place in b.ranks] == [1]
    assert list(b.jobs[1].settings.groups) == [(0, 1, 2), ()]
    assert (list(a.jobs[1].domains), list(b.jobs[1].domains)) == (domains[:1], domains[1:])
    assert (list(a.networks), list(b.networks)) == ([], ["192.0.2.0/24"])
