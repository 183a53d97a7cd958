"""The summary of a trace set in the terminal."""

from emulator.trace.analysis.summary import summarise
from emulator.trace.meaning.meaning import TraceOptions
from emulator.trace.meaning.workload import build_workload
from tests.support.traces import coll, example_summary, node, rank_trace, shown_summary


def test_report_shows_what_a_user_looks_for() -> None:
    traces = [rank_trace(0, [node(1, deps=[7]), coll(2, "all_reduce", 1 << 20)])]
    workload = build_workload(traces, options=TraceOptions(lenient=True))
    text = shown_summary(summarise(workload, traces))
    for part in ("dropped", "1 dangling", "rank without durations", "1 MiB", "window of 4,096", "world (1)"):
        assert part in text
    assert "send + recv" in shown_summary(example_summary())
    assert "7 µs of compute, 51 µs with traced communication" in shown_summary(example_summary())


def test_names_from_a_trace_are_never_markup() -> None:
    trace = rank_trace(0, [coll(1, "barrier", None, "[red]")], attributes={"[bold]x": 1})
    text = shown_summary(summarise(build_workload([trace]), [trace]))
    assert "[red] (1)" in text
    assert "unknown communication attribute [bold]x" in text
