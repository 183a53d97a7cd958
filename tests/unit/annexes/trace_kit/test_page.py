import json
from dataclasses import replace

import pytest

from emulator.annexes.trace_kit.page import facts_to_json, lines, traffic, usage_of
from emulator.annexes.trace_kit.page_graph import TracePageFacts
from emulator.views.html.page.document import Bar, Chart, Table, Text
from tests.support.report import block_of, drawn, identifiers, records
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


def test_many_ranks_and_nodes_are_shown_in_part(facts: TracePageFacts) -> None:
    chart = block_of(lines(facts, lanes=1, intervals=3), "time-line", Chart)
    assert chart.about.endswith("1 of 2 ranks, spread evenly. Gaps shorter than 5.33 µs are not drawn.")
    assert {bar["rank"] for bar in drawn(chart, "bars")} == {"0"}


def test_too_large_a_set_has_no_time_line(facts: TracePageFacts) -> None:
    text = block_of(lines(replace(facts, line=None)), "no-line", Text).text
    assert text == "A set of 8 nodes is too large for a time line."


MINE = [node(1, duration=5), coll(2, "all_reduce", 1 << 20, deps=[1]), node(3, duration=20, deps=[1])]
FACTS = viewed(MINE, MINE)


def test_the_same_facts_as_json() -> None:
    found = json.loads(json.dumps(facts_to_json(FACTS)))
    assert found["ranks"] == 2
    assert (found["times"], found["time_line_ns"], found["critical_path_ns"]) == ("computed", 25_000, 25_000)
    assert found["usage"][1] == {"rank": 1, "compute_ns": 15_000, "both_ns": 10_000, "exposed_ns": 0, "idle_ns": 0}
    assert {(pair["src"], pair["dst"]) for pair in found["pairs"]} == {(0, 1), (1, 0)}


FEW_RANKS = viewed(
    [send(1, 1, 1000), coll(2, "all_reduce", 1 << 20), coll(3, "all_reduce", (1 << 20) + 8), coll(4, "barrier", 0)],
    [recv(1, 0, 1000), coll(2, "all_reduce", 1 << 20), coll(3, "all_reduce", (1 << 20) + 8), coll(4, "barrier", 0)],
)


def test_bytes_from_rank_to_rank() -> None:
    chart = block_of(traffic(FEW_RANKS), "matrix", Chart)
    cells = {(cell["src"], cell["dst"]): cell["value"] for cell in drawn(chart, "cells")}
    assert cells["0", "1"] - cells["1", "0"] == 1000
    assert chart.table is not None
    assert records(chart.table)[0]["payload, bytes"] == f"{int(cells['0', '1']):,}"


def test_each_operation_is_counted_once_in_its_range() -> None:
    chart = block_of(traffic(FEW_RANKS), "sizes", Chart)
    found = [(bar["kind"], bar["range"], bar["count"], bar["payload_bytes"]) for bar in drawn(chart, "sizes")]
    assert found == [
        ("barrier", "0", 1, 0),
        ("send + recv", "≥ 512 B", 1, 1000),
        ("all_reduce", "≥ 1 MiB", 2, (2 << 20) + 8),
    ]
    assert "n = 4." in chart.about


def test_what_is_too_large_or_not_there_is_said() -> None:
    section = traffic(replace(FEW_RANKS, pairs=None))
    assert "use `charkha plan`" in block_of(section, "no-matrix", Text).text
    assert identifiers(traffic(viewed([node(1)]))) == ["matrix"]
