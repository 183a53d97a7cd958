"""The timelines of all agents as one table."""

from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from emulator.control.conversation import Farewell
from emulator.control.observations import Timeline, TimelineFlow
from emulator.controller.clock_offset import ClockEstimate, Offset
from emulator.controller.recording.farewell_rows import timeline_rows
from emulator.controller.run_plan import AgentFacts, RunOutcome
from emulator.results.run_folder.schema import TIMELINE_SCHEMA, to_batch

FLOWS = (TimelineFlow(0, 1, 17), TimelineFlow(1, 0, 18), TimelineFlow(2, 0, 18))
ROWS = st.lists(st.tuples(*(st.integers(0, most) for most in (2, 10**7, 10**9, 9, 9))), max_size=40)


def timeline(bin_ns: int, *rows: tuple[int, ...]) -> Timeline:
    """Of (flow, time, bytes, retransmits, marks)."""
    columns = np.array(rows, np.int64).reshape(-1, 5).T
    return Timeline(bin_ns, FLOWS, *columns).in_bins_of(bin_ns)


def outcome(**timelines: Timeline | None) -> RunOutcome:
    hello: Any = SimpleNamespace()
    agents = {name: AgentFacts(hello, farewell=Farewell((), 0, 0, timeline=one)) for name, one in timelines.items()}
    return RunOutcome(agents=agents)


def table(of: RunOutcome) -> list[dict[str, int]]:
    return to_batch(TIMELINE_SCHEMA, timeline_rows(of)).to_pylist()


def test_without_timelines_there_is_no_table() -> None:
    assert timeline_rows(outcome(a=None)) == {}


def test_both_ends_of_a_flow_are_one_row_per_bin() -> None:
    rows = table(outcome(a=timeline(10, (0, 5, 0, 2, 0)), b=timeline(10, (0, 3, 70, 0, 1), (0, 12, 8, 0, 0))))
    flow = {"src": 0, "dst": 1, "qpn": 17, "bin_ns": 10}
    assert rows == [
        flow | {"start_ns": 0, "bytes": 70, "retransmits": 2, "ecn_marks": 1},
        flow | {"start_ns": 10, "bytes": 8, "retransmits": 0, "ecn_marks": 0},
    ]


@given(ROWS, ROWS, st.integers(1, 10**5), st.integers(0, 4))
def test_the_longest_bins_are_those_of_all_and_nothing_gets_lost(
    first: list[tuple[int, ...]], second: list[tuple[int, ...]], bin_ns: int, doublings: int
) -> None:
    rows = table(outcome(a=timeline(bin_ns, *first), b=timeline(bin_ns << doublings, *second)))
    for number, flow in enumerate(FLOWS):
        mine = [row for row in rows if (row["src"], row["dst"], row["qpn"]) == flow]
        for column, name in enumerate(("bytes", "retransmits", "ecn_marks"), start=2):
            assert sum(row[name] for row in mine) == sum(row[column] for row in first + second if row[0] == number)
        starts = [row["start_ns"] for row in mine]
        assert len(set(starts)) == len(starts)
    assert {row["bin_ns"] for row in rows} <= {bin_ns << doublings}
    assert all(row["start_ns"] % row["bin_ns"] == 0 for row in rows)


def test_bins_of_another_clock_are_at_most_half_a_bin_off() -> None:
    of = outcome(a=timeline(100, (0, 5_000, 7, 0, 0)))
    for ahead_ns, start_ns in ((0, 5_000), (1_049, 4_000), (1_051, 3_900), (-1_020, 6_000)):
        of.clocks = {"a": ClockEstimate((Offset(0, ahead_ns, 1),), 1)}
        assert [row["start_ns"] for row in table(of)] == [start_ns]
