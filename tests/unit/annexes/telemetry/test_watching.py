"""What `charkha runs watch` shows."""

import json

import pytest
from rich.console import Console

from emulator.annexes.telemetry.messages import TopicKind
from emulator.annexes.telemetry.watching import EXPLAIN, FINAL_STATES, ObservedRun, render
from emulator.views.columns.figures import NONE

ENVELOPE = {"schema": 1, "run_id": "r1", "sequence": 1}
PROGRESS = {"iteration": 2, "nodes": 10, "nodes_done": 5, "bytes_sent": 2 << 20, "bits_per_second": 2.5e9, "dropped": 0}


def payload_of(**facts: object) -> bytes:
    return json.dumps(ENVELOPE | facts).encode()


def state(run: ObservedRun, run_id: str, name: str, **facts: object) -> bool:
    return run.receive(f"{run_id}/state", payload_of(state=name, **facts))


@pytest.mark.parametrize("old", FINAL_STATES)
def test_the_first_run_that_has_not_ended_is_observed(old: str) -> None:
    run = ObservedRun()
    assert not state(run, "r1", old)
    assert not run.receive("r2/progress", payload_of(**PROGRESS))
    assert (run.run_id, run.state) == (None, "")
    assert state(run, "r2", "playing")
    assert (run.run_id, run.state, run.is_over) == ("r2", "playing", False)
    assert not state(run, "r1", "playing")


def test_a_run_that_was_named_may_have_ended() -> None:
    run = ObservedRun("r1")
    assert not state(run, "r2", "playing")
    assert state(run, "r1", "aborted", reason="agent a is lost")
    assert (run.is_over, run.reason) == (True, "agent a is lost")


def test_facts_of_earlier_states_stay() -> None:
    run = ObservedRun("r1")
    state(run, "r1", "playing", trace="t", ranks=8)
    state(run, "r1", "complete")
    assert run.facts(TopicKind.STATE) == ENVELOPE | {"state": "complete", "trace": "t", "ranks": 8}
    assert run.latest == ENVELOPE | {"state": "complete"}


def test_later_progress_replaces_earlier_progress() -> None:
    run = ObservedRun("r1")
    run.receive("r1/progress", payload_of(**PROGRESS, old=True))
    run.receive("r1/progress", payload_of(**PROGRESS))
    assert run.facts(TopicKind.PROGRESS) == ENVELOPE | PROGRESS
    assert run.facts(TopicKind.COMPLETIONS) == {}


def test_agents_that_wait_are_listed_by_name() -> None:
    run = ObservedRun("r1")
    for agent, waiting in (("b", "rank 1"), ("a", "rank 2"), ("c", "")):
        assert run.receive(f"r1/agents/{agent}", payload_of(agent=agent, state="playing", waiting_on=waiting))
    assert run.waiting == [("a", "rank 2"), ("b", "rank 1")]
    run.receive("r1/agents/a", payload_of(agent="a", state="playing"))
    assert run.waiting == [("b", "rank 1")]


STRANGE = [
    b"[" * 100_000,
    b'{"a":' * 100_000,
    json.dumps({"state": "playing"}).encode(),
    *(
        payload_of(**{"state": "playing", name: value})
        for name, value in (("ranks", -1), ("reason", []), ("state", "x"))
    ),
    payload_of(state="playing", ranks=8).replace(b"8", b"1e999"),
]


@pytest.mark.parametrize("payload", [b"", b"\xff", b"no JSON", b"[1]", b"3", None, 7, *STRANGE])
def test_payloads_that_cannot_be_read_change_nothing(payload: object) -> None:
    run = ObservedRun("r1")
    assert not run.receive("r1/state", payload)
    assert (run.state, run.latest) == ("", {})


@pytest.mark.parametrize("topic", ["", "r1", "r1/weather", "state"])
def test_other_topics_are_ignored(topic: str) -> None:
    assert not ObservedRun("r1").receive(topic, payload_of(state="playing"))


ROW = {
    "collective": "all_reduce",
    "group_size": 8,
    "size_bytes": 1 << 20,
    "algorithm": "ring",
    "count": 3,
    "busbw_bytes_per_s": None,
}


def shown(run: ObservedRun) -> str:
    console = Console(width=100, file=None, force_terminal=False)
    with console.capture() as capture:
        console.print(render(run))
    return capture.get()


def observed(**payloads: dict[str, object]) -> ObservedRun:
    run = ObservedRun("r1")
    for kind, payload in payloads.items():
        assert run.receive(f"r1/{kind}", payload_of(**payload))
    return run


def test_before_a_run_there_is_one_line() -> None:
    assert shown(ObservedRun()).strip() == "waiting for a run"


def test_the_headline_names_run_trace_ranks_and_state() -> None:
    run = observed(state={"state": "playing", "trace": "gpt", "ranks": 8})
    assert shown(run).split() == ["r1", "gpt", "8", "ranks", "playing"]


def test_names_cannot_control_the_terminal() -> None:
    assert "\x1b" not in shown(observed(state={"state": "playing", "trace": "\x1b[2J"}))


def test_progress_is_in_bytes_and_bits_per_second() -> None:
    text = shown(observed(state={"state": "playing"}, progress=PROGRESS))
    assert "iteration 2, 2 MiB sent, 2.50 Gbit/s payload" in text


def test_waiting_agents_name_what_they_wait_for() -> None:
    run = observed(state={"state": "playing"})
    run.receive("r1/agents/a0", payload_of(agent="a0", state="playing", waiting_on="rank 3"))
    assert "a0: waiting for rank 3" in shown(run)


@pytest.mark.parametrize(
    ("kind", "facts"),
    [
        ("progress", {}),
        ("progress", PROGRESS | {"nodes": "x"}),
        ("completions", {"iteration": 1, "classes": 7}),
        ("completions", {"iteration": 1, "classes": [{}]}),
        ("completions", {"iteration": 1, "classes": [{**ROW, "cct_p50_ns": "x", "cct_max_ns": None}]}),
    ],
)
def test_what_cannot_be_shown_is_not_taken(kind: str, facts: dict[str, object]) -> None:
    run = observed(state={"state": "playing"})
    assert not run.receive(f"r1/{kind}", payload_of(**facts))
    assert shown(run).split() == ["r1", "?", "ranks", "playing"]


def test_classes_of_the_last_iteration_are_a_table() -> None:
    rows = [
        {**ROW, "cct_p50_ns": 1500, "cct_max_ns": 2_000_000},
        {**ROW, "collective": "send", "cct_p50_ns": None, "cct_max_ns": None},
    ]
    lines = shown(observed(state={"state": "playing"}, completions={"iteration": 4, "classes": rows})).splitlines()
    assert lines[1] == "iteration 4"
    assert lines[4].split() == ["all_reduce", "8", "1", "MiB", "ring", "3", "1.5", "µs", "2", "ms"]
    assert lines[5].split()[-2:] == [NONE, NONE]
    for title in ("collective", "ranks", "size", "algorithm", "count", "cct p50", "cct max"):
        assert title in lines[2]
        assert f"\n  {title} " in EXPLAIN
