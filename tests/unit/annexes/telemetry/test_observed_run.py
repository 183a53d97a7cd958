"""A run as it looks from its messages."""

from __future__ import annotations

import json

import pytest

from emulator.annexes.telemetry.observed_run import FINAL_STATES, ObservedRun
from emulator.annexes.telemetry.payloads import TopicKind


def state(run: ObservedRun, run_id: str, name: str, **facts: object) -> bool:
    return run.receive(f"{run_id}/state", json.dumps({"state": name, **facts}))


@pytest.mark.parametrize("old", FINAL_STATES)
def test_the_first_run_that_has_not_ended_is_observed(old: str) -> None:
    run = ObservedRun()
    assert not state(run, "r1", old)
    assert not run.receive("r2/progress", '{"nodes": 1}')
    assert (run.run_id, run.state) == (None, "")
    assert state(run, "r2", "running")
    assert (run.run_id, run.state, run.is_over) == ("r2", "running", False)
    assert not state(run, "r1", "running")


def test_a_run_that_was_named_may_have_ended() -> None:
    run = ObservedRun("r1")
    assert not state(run, "r2", "running")
    assert state(run, "r1", "aborted", reason="agent a is lost")
    assert (run.is_over, run.reason) == (True, "agent a is lost")


def test_facts_of_earlier_states_stay() -> None:
    run = ObservedRun("r1")
    state(run, "r1", "running", trace="t", ranks=8)
    state(run, "r1", "complete")
    assert run.facts(TopicKind.STATE) == {"state": "complete", "trace": "t", "ranks": 8}
    assert run.latest == {"state": "complete"}


def test_later_progress_replaces_earlier_progress() -> None:
    run = ObservedRun("r1")
    run.receive("r1/progress", b'{"nodes": 4, "old": true}')
    run.receive("r1/progress", b'{"nodes": 4}')
    assert run.facts(TopicKind.PROGRESS) == {"nodes": 4}
    assert run.facts(TopicKind.COMPLETIONS) == {}


def test_agents_that_wait_are_listed_by_name() -> None:
    run = ObservedRun("r1")
    for agent, waiting in (("b", "rank 1"), ("a", "rank 2"), ("c", None)):
        assert run.receive(f"r1/agents/{agent}", json.dumps({"agent": agent, "waiting_on": waiting}))
    assert run.waiting == [("a", "rank 2"), ("b", "rank 1")]
    run.receive("r1/agents/a", '{"agent": "a", "waiting_on": null}')
    assert run.waiting == [("b", "rank 1")]


@pytest.mark.parametrize("payload", [b"", b"\xff", "no JSON", "[1]", "3", None, 7])
def test_payloads_that_cannot_be_read_change_nothing(payload: object) -> None:
    run = ObservedRun("r1")
    assert not run.receive("r1/state", payload)
    assert (run.state, run.latest) == ("", {})


@pytest.mark.parametrize("topic", ["", "r1", "r1/weather", "state"])
def test_other_topics_are_ignored(topic: str) -> None:
    assert not ObservedRun("r1").receive(topic, '{"state": "running"}')
