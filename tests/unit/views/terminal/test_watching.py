"""What `charkha runs watch` shows."""

from __future__ import annotations

import json

from rich.console import Console

from emulator.annexes.telemetry.observed_run import ObservedRun
from emulator.annexes.telemetry.watching import EXPLAIN, render
from emulator.views.columns.figures import NONE

ROW = {"collective": "all_reduce", "group_size": 8, "size_bytes": 1 << 20, "algorithm": "ring", "count": 3}


def shown(run: ObservedRun) -> str:
    console = Console(width=100, file=None, force_terminal=False)
    with console.capture() as capture:
        console.print(render(run))
    return capture.get()


def observed(**payloads: dict[str, object]) -> ObservedRun:
    run = ObservedRun("r1")
    for kind, payload in payloads.items():
        assert run.receive(f"r1/{kind}", json.dumps(payload))
    return run


def test_before_a_run_there_is_one_line() -> None:
    assert shown(ObservedRun()).strip() == "waiting for a run"


def test_the_headline_names_run_trace_ranks_and_state() -> None:
    run = observed(state={"state": "running", "trace": "gpt", "ranks": 8})
    assert shown(run).split() == ["r1", "gpt", "8", "ranks", "running"]


def test_names_cannot_control_the_terminal() -> None:
    assert "\x1b" not in shown(observed(state={"state": "running", "trace": "\x1b[2J"}))


def test_progress_is_in_bytes_and_bits_per_second() -> None:
    progress = {"iteration": 2, "nodes": 10, "nodes_done": 5, "bytes_sent": 2 << 20, "bits_per_second": 2.5e9}
    text = shown(observed(state={"state": "running"}, progress=progress))
    assert "iteration 2, 2 MiB sent, 2.50 Gbit/s payload" in text


def test_waiting_agents_name_what_they_wait_for() -> None:
    run = observed(state={"state": "running"})
    run.receive("r1/agents/a0", '{"agent": "a0", "waiting_on": "rank 3"}')
    assert "a0: waiting for rank 3" in shown(run)


def test_classes_of_the_last_iteration_are_a_table() -> None:
    rows = [
        {**ROW, "cct_p50_ns": 1500, "cct_max_ns": 2_000_000},
        {**ROW, "collective": "send", "cct_p50_ns": None, "cct_max_ns": None},
    ]
    lines = shown(observed(state={"state": "running"}, completions={"iteration": 4, "classes": rows})).splitlines()
    assert lines[1] == "iteration 4"
    assert lines[4].split() == ["all_reduce", "8", "1", "MiB", "ring", "3", "1.5", "µs", "2", "ms"]
    assert lines[5].split()[-2:] == [NONE, NONE]
    for title in ("collective", "ranks", "size", "algorithm", "count", "cct p50", "cct max"):
        assert title in lines[2]
        assert f"\n  {title} " in EXPLAIN
