"""What agents report of a job adds up, or the agent is named."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from emulator.control.conversation import Farewell
from emulator.control.observations import (
    Completions,
    ComputeSpans,
    FlowCounters,
    Medium,
    Migration,
    RankSummary,
    Timeline,
    TimelineFlow,
)
from emulator.controller.ledger import TOLERANCE_NS, Ledger, PossibleTimes, span_of
from emulator.errors import RemoteProtocolError
from emulator.roce.options import RoceOptions
from tests.support.plans import run_plan
from tests.support.traces import coll, rank_trace

SPAN = PossibleTimes(100, 200)
NODES = [7, 1 << 63, 9]


def ledger() -> Ledger:
    traces = [rank_trace(rank, [coll(node, "all_reduce", 8) for node in NODES]) for rank in range(3)]
    return Ledger(run_plan(traces, {"a": [0, 2], "b": [1], "c": []}, iterations=range(2)))


def done(*nodes: tuple[int, int], iteration: int = 0, **columns: int) -> Completions:
    """Of (rank, node)."""
    count = len(nodes)
    given: dict[str, Any] = {"post_ns": 110, "done_ns": 120, "arrival_ns": 0} | columns
    rank, node_id = np.array([one[0] for one in nodes], np.int64), np.array([one[1] for one in nodes], np.uint64)
    times = {name: np.full(count, value, np.int64) for name, value in given.items()}
    zeros = np.zeros(count, np.int64)
    return Completions(
        iteration,
        rank,
        node_id,
        **times,
        bytes_sent=zeros,
        bytes_received=zeros,
        early=zeros.astype(np.bool_),
        read_delay_ns=zeros,
        core_wait_ns=zeros,
    )


def summaries(*ranks: int, start_ns: int = 110, end_ns: int = 120) -> list[RankSummary]:
    return [RankSummary(rank, start_ns, end_ns, 0, 0, 0) for rank in ranks]


def test_every_communication_once_in_whatever_order_adds_up() -> None:
    found, every = ledger(), [(rank, node) for rank in (2, 0) for node in reversed(NODES)]
    for iteration in range(2):
        for part in (every[:1], every[1:], []):
            found.completed("a", done(*part, iteration=iteration), SPAN)
        found.finished("a", iteration, summaries(2, 0), SPAN)
        found.finished("c", iteration, [], SPAN)
    found.check()


def test_a_missing_completion_is_found_later_and_nobody_waited_for_it() -> None:
    found, every = ledger(), [(rank, node) for rank in (0, 2) for node in NODES]
    found.completed("a", done(*every[:-1]), SPAN)
    found.finished("a", 0, summaries(0, 2), SPAN)
    with pytest.raises(
        RemoteProtocolError, match=r"agent a ended iteration 0, but 1 of 6 .* missing, among them node 9 of rank 2"
    ):
        found.check()


def test_one_twice_in_place_of_another_is_found() -> None:
    found = ledger()
    found.completed("b", done((1, 7), (1, 7), (1, 9)), SPAN)
    found.finished("b", 0, summaries(1), SPAN)
    with pytest.raises(RemoteProtocolError, match=f"agent b .* among them node {1 << 63} of rank 1"):
        found.check()


@pytest.mark.parametrize(
    ("agent", "completions", "problem"),
    [
        ("a", done((1, 7)), "completions of rank 1, which it does not play"),
        ("a", done((3, 7)), "completions of rank 3, which it does not play"),
        ("a", done((-1, 7)), "completions of rank -1, which it does not play"),
        ("c", done((0, 7)), "completions of rank 0, which it does not play"),
        ("b", done((1, 8)), "node 8 of rank 1, which is not a communication"),
        ("b", done((1, 2**64 - 1)), f"node {2**64 - 1} of rank 1, which is not a communication"),
        ("b", done(*[(1, 7)] * 4), "more completions of iteration 0 than its ranks have"),
        ("b", done((1, 7), post_ns=130), "ended before they were posted"),
        ("b", done((1, 7), post_ns=99), "before the iteration began"),
        ("b", done((1, 7), done_ns=201), "in the future"),
        ("b", done((1, 7), arrival_ns=201), "in the future"),
        ("b", done((1, 7), arrival_ns=1), "before the iteration began"),
    ],
)
def test_what_cannot_be_is_refused_as_it_comes(agent: str, completions: Completions, problem: str) -> None:
    with pytest.raises(RemoteProtocolError, match=f"agent {agent} sent .*{problem}"):
        ledger().completed(agent, completions, SPAN)


def test_nothing_comes_after_the_end_of_an_iteration() -> None:
    found = ledger()
    found.completed("b", done(*[(1, node) for node in NODES]), SPAN)
    found.finished("b", 0, summaries(1), SPAN)
    with pytest.raises(RemoteProtocolError, match="agent b sent completions of iteration 0 after it had ended there"):
        found.completed("b", done((1, 7)), SPAN)


@pytest.mark.parametrize("ended", [[], [0], [0, 1], [0, 2, 2], [0, 2, 3]])
def test_an_iteration_ends_for_exactly_the_ranks_of_the_agent(ended: list[int]) -> None:
    with pytest.raises(RemoteProtocolError, match="agent a ended iteration 0 for other ranks than it plays"):
        ledger().finished("a", 0, summaries(*ended), SPAN)


@pytest.mark.parametrize(("start_ns", "end_ns"), [(99, 120), (110, 201)])
def test_summaries_and_compute_are_of_their_time(start_ns: int, end_ns: int) -> None:
    column = np.array([1], np.int64)
    with pytest.raises(RemoteProtocolError, match="agent b sent summaries with times"):
        ledger().finished("b", 0, summaries(1, start_ns=start_ns, end_ns=end_ns), SPAN)
    with pytest.raises(RemoteProtocolError, match="agent b sent compute spans with times"):
        ledger().computed("b", ComputeSpans(0, column, column * start_ns, column * end_ns), SPAN)


def test_nothing_ends_before_it_begins_or_lasts_longer_than_the_iteration() -> None:
    column = np.array([1], np.int64)
    with pytest.raises(RemoteProtocolError, match="agent b sent compute spans that ended before they began"):
        ledger().computed("b", ComputeSpans(0, column, column * 130, column * 120), SPAN)
    with pytest.raises(RemoteProtocolError, match="agent b sent summaries that ended before they began"):
        ledger().finished("b", 0, summaries(1, start_ns=130), SPAN)
    for name in ("compute_ns", "communication_ns", "overlap_ns"):
        with pytest.raises(RemoteProtocolError, match=r"agent b sent summaries with 1\.01e-07 s, longer than"):
            ledger().finished("b", 0, [replace(one, **{name: 101}) for one in summaries(1)], SPAN)


@pytest.mark.parametrize(("src", "dst"), [(0, 2), (1, 3), (3, 1)])
def test_an_agent_has_an_end_of_every_flow_that_it_counts(src: int, dst: int) -> None:
    ledger().flows("b", [FlowCounters(0, 1), FlowCounters(1, 2)])
    with pytest.raises(RemoteProtocolError, match=f"agent b sent counters of a flow from rank {src} to rank {dst}"):
        ledger().flows("b", [FlowCounters(src, dst)])


def test_each_end_of_a_flow_counts_once() -> None:
    found, both, one = ledger(), FlowCounters(0, 2, qpn=17), FlowCounters(0, 1, qpn=17)
    found.flows("a", [both, both, one, replace(one, qpn=18)])  # both ends of the first flow are of this agent
    for flows in ([both] * 3, [one] * 2):
        with pytest.raises(RemoteProtocolError, match=r"agent a sent counters of the flow from rank 0 to rank . twice"):
            found.flows("a", flows)


def surviving(survive: bool = True) -> Ledger:
    plan = run_plan([rank_trace(rank, [coll(7, "all_reduce", 8)]) for rank in range(2)], {"a": [0], "b": [1]})
    return Ledger(replace(plan, setup=replace(plan.setup, options=RoceOptions(survive=survive))))


def test_an_agent_says_when_traffic_of_its_ranks_moved() -> None:
    moved = Migration(0, 1, 17, 150, is_back=False)
    surviving().migrated("a", [moved, replace(moved, at_ns=160, is_back=True)], SPAN)
    for wrong in (replace(moved, rank=1), replace(moved, peer=2)):
        with pytest.raises(RemoteProtocolError, match="agent a sent a migration from rank"):
            surviving().migrated("a", [moved, wrong], SPAN)
    with pytest.raises(RemoteProtocolError, match="agent a sent a migration"):
        surviving(survive=False).migrated("a", [moved], SPAN)
    for at_ns in (99, 201):
        with pytest.raises(RemoteProtocolError, match="agent a sent migrations with times"):
            surviving().migrated("a", [moved, replace(moved, at_ns=at_ns)], SPAN)


def test_times_may_be_off_by_the_error_of_the_clock() -> None:
    assert span_of(1000, 2000, error_ns=30) == PossibleTimes(970 - TOLERANCE_NS, 2030 + TOLERANCE_NS)


# --- what flows carried by time -----------------------------------------------------------------------------------

A_TO_B, B_TO_A = TimelineFlow(0, 1, 17), TimelineFlow(1, 0, 18)


def timed() -> Ledger:
    traces = [rank_trace(rank, [coll(7, "all_reduce", 8)]) for rank in range(2)]
    plan = run_plan(traces, {"a": [0], "b": [1]}, transport="roce")
    return Ledger(replace(plan, setup=replace(plan.setup, options=RoceOptions(timeline="1ms"))))


def timeline(*rows: tuple[TimelineFlow, int, int, int, int]) -> Timeline:
    """Of (flow, start, bytes, retransmits, marks)."""
    flows = list(dict.fromkeys(one[0] for one in rows))
    columns = np.array([(flows.index(flow), *rest) for flow, *rest in rows], np.int64).reshape(-1, 5).T
    return Timeline(10, flows, *columns)


def farewells(size: int = 30, again: int = 2, marks: int = 3) -> dict[str, Farewell]:
    """Rank 0 sent 30 bytes, two packets of them again; three came marked."""
    sent = [FlowCounters(*A_TO_B[:2], bytes=30, retransmits=2, qpn=17), FlowCounters(0, 1, 9, medium=Medium.DOMAIN)]
    received = [FlowCounters(*A_TO_B[:2], ecn_marks=3, qpn=17)]
    return {
        "a": Farewell(sent, 0, 0, timeline=timeline((A_TO_B, 110, 0, again, 0))),
        "b": Farewell(received, 0, 0, timeline=timeline((A_TO_B, 110, 10, 0, marks), (A_TO_B, 120, size - 10, 0, 0))),
    }


def test_a_timeline_adds_up_to_the_counters_of_its_flows() -> None:
    timed().add_up(farewells())


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"size": 29},
            r"agent b sent a timeline of the flow from rank 0 to rank 1 .*17\) in which 1 bytes are missing",
        ),
        ({"size": 31}, "agent b .* in which 1 bytes are too many"),
        ({"again": 1}, "agent a .* in which 1 retransmits are missing"),
        ({"marks": 4}, "agent b .* in which 1 ecn_marks are too many"),
    ],
)
def test_what_does_not_add_up_has_the_name_of_who_counted_it_by_time(changes: dict[str, int], problem: str) -> None:
    with pytest.raises(RemoteProtocolError, match=problem):
        timed().add_up(farewells(**changes))


def test_every_agent_has_a_timeline_if_one_was_asked_for() -> None:
    said = farewells()
    without = said | {"b": replace(said["b"], timeline=None)}
    with pytest.raises(RemoteProtocolError, match="agent b sent no timeline"):
        timed().add_up(without)
    ledger().add_up(without)


@pytest.mark.parametrize("row", [(A_TO_B, 110, 5, 0, 0), (A_TO_B, 110, 0, 0, 1), (B_TO_A, 110, 0, 1, 0)])
def test_an_agent_counts_by_time_what_its_end_can_count(row: tuple[TimelineFlow, int, int, int, int]) -> None:
    timed().recorded("b", timeline((A_TO_B, 110, 5, 0, 1), (B_TO_A, 110, 0, 1, 0)), SPAN)
    with pytest.raises(RemoteProtocolError, match=r"agent a sent a timeline of the flow .* which it cannot count"):
        timed().recorded("a", timeline(row), SPAN)


@pytest.mark.parametrize(("start_ns", "problem"), [(80, "before the iteration began"), (201, "in the future")])
def test_a_timeline_is_of_its_time(start_ns: int, problem: str) -> None:
    with pytest.raises(RemoteProtocolError, match=f"agent b sent a timeline with times .* {problem}"):
        timed().recorded("b", timeline((A_TO_B, start_ns, 5, 0, 0)), SPAN)
