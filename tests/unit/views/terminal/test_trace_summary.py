"""The summary of a trace set in the terminal."""

from __future__ import annotations

import io

from rich.console import Console

from emulator.trace.summary import Summary, summarise
from emulator.trace.workload import TraceOptions, build_workload
from emulator.views.terminal.trace_summary import render
from tests.support.traces import COMP, METADATA, coll, node, rank_trace, recv, send

GROUPS = {"tp": (0, 1), "spare": (2,)}


def example() -> Summary:
    """Three ranks: tensor parallel on two, a message to the third, an all-reduce of all."""
    gather = {"deps": [1], "pg": "tp"}
    last = coll(9, "all_reduce", 8, deps=[2], duration=1)
    traces = [
        rank_trace(0, [node(1, COMP, duration=5), coll(2, "all_gather", 100, duration=50, **gather), last]),
        rank_trace(
            1,
            [
                node(1, COMP, duration=7, cpu=True),
                coll(2, "all_gather", 100, duration=40, **gather),
                send(8, 2, 30, deps=[2], duration=4),
                last,
            ],
        ),
        rank_trace(2, [node(1, METADATA), recv(2, 1, 30, duration=3), last], groups={"mine": (1, 2), "0": ()}),
    ]
    return summarise(build_workload(traces, groups=GROUPS), traces, groups=GROUPS)


def shown(summary: Summary) -> str:
    stream = io.StringIO()
    Console(file=stream, width=120, no_color=True).print(render(summary))
    return stream.getvalue()


def test_report_shows_what_a_user_looks_for() -> None:
    traces = [rank_trace(0, [node(1, deps=[7]), coll(2, "all_reduce", 1 << 20)])]
    workload = build_workload(traces, options=TraceOptions(lenient=True))
    text = shown(summarise(workload, traces))
    for part in ("dropped", "1 dangling", "rank without durations", "1 MiB", "window of 4,096", "world (1)"):
        assert part in text
    assert "send + recv" in shown(example())
    assert "7 µs of compute, 51 µs with traced communication" in shown(example())


def test_names_from_a_trace_are_never_markup() -> None:
    trace = rank_trace(0, [coll(1, "barrier", None, "[red]")], attributes={"[bold]x": 1})
    text = shown(summarise(build_workload([trace]), [trace]))
    assert "[red] (1)" in text
    assert "unknown communication attribute [bold]x" in text
