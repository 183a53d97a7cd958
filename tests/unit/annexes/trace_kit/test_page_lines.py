from dataclasses import replace

import pytest

from emulator.annexes.trace_kit import page_lines as module
from emulator.annexes.trace_kit.page_facts import TracePageFacts
from emulator.annexes.trace_kit.page_lines import lines, usage_of
from emulator.views.html.page.document import Bar, Chart, Table, Text
from tests.support.report import block_of, drawn, records
from tests.support.traces import coll, node, recv, send
from tests.support.viewed import viewed


@pytest.fixture
def facts() -> TracePageFacts:
    """Compute 5 µs, all-reduce 10 µs while compute of 4 µs runs, then compute 1 µs."""
    mine = [
        node(1, duration=5),
        coll(2, "all_reduce", deps=[1]),
        node(3, duration=4, deps=[1]),
        node(4, duration=1, deps=[2]),
    ]
    return viewed(mine, mine)


def test_a_rank_computes_communicates_or_does_both(facts: TracePageFacts) -> None:
    bars = drawn(block_of(lines(facts), "time-line", Chart), "bars")
    assert [(bar["state"], bar["begin_ns"], bar["end_ns"]) for bar in bars if bar["rank"] == "1"] == [
        ("compute", 0, 5_000),
        ("both", 5_000, 9_000),
        ("exposed communication", 9_000, 15_000),
        ("compute", 15_000, 16_000),
    ]


def test_the_time_of_a_rank_adds_up(facts: TracePageFacts) -> None:
    assert facts.line is not None
    one = usage_of(facts.workload.programs, facts.line)[0]
    assert (one.compute_ns, one.both_ns, one.exposed_ns, one.idle_ns) == (6_000, 4_000, 6_000, 0)
    assert one.covered == 0.4
    section = lines(facts)
    assert [part.share for part in block_of(section, "overlap", Bar).parts] == [6 / 16, 4 / 16, 6 / 16, 0]
    assert block_of(section, "overlap", Bar).about.endswith("40 % of communication is covered.")
    assert records(block_of(section, "overlap-by-rank", Table))[0]["overlap"] == "40.0 %"


def test_bars_by_kind_end_where_the_time_line_does(facts: TracePageFacts) -> None:
    bars = drawn(block_of(lines(facts), "communication-line", Chart), "bars")
    assert [(bar["kind"], bar["begin_ns"], bar["end_ns"]) for bar in bars if bar["rank"] == "0"] == [
        ("all_reduce", 5_000, 15_000),
        ("all_reduce", 16_000, 16_000),
    ]


def test_receives_are_drawn_below_all_else() -> None:
    facts = viewed([send(1, 1), coll(2, "barrier", 0)], [recv(1, 0), coll(2, "barrier", 0)])
    bars = drawn(block_of(lines(facts), "communication-line", Chart), "bars")
    assert [bar["kind"] for bar in bars if bar["rank"] == "1"] == ["recv", "barrier"]


def test_the_page_says_whether_times_are_recorded(facts: TracePageFacts) -> None:
    recorded = viewed([node(1, start=5, duration=5), coll(2, "barrier", 0, start=10, duration=3)])
    assert lines(recorded).about.startswith("Times as recorded")
    assert "computed as in a run" in lines(facts).about
    assert "communication 10 µs" in lines(facts).about


def test_many_ranks_and_nodes_are_shown_in_part(facts: TracePageFacts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LANES", 1)
    monkeypatch.setattr(module, "INTERVALS", 3)
    chart = block_of(lines(facts), "time-line", Chart)
    assert chart.about.endswith("1 of 2 ranks, spread evenly. Gaps shorter than 5.33 µs are not drawn.")
    assert {bar["rank"] for bar in drawn(chart, "bars")} == {"0"}


def test_too_large_a_set_has_no_time_line(facts: TracePageFacts) -> None:
    text = block_of(lines(replace(facts, line=None)), "no-line", Text).text
    assert text == "A set of 8 nodes is too large for a time line."
