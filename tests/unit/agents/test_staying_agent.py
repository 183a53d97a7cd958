"""An agent that stays: run after run, until it is refused or interrupted."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from typing import Any

import pytest

from agents.staying_agent import StayingAgent
from emulator.errors import ControllerRefusal, HostError, InputError, RunAborted, RunInterrupted


class Runs:
    """Stands for Agent: each run ends as the next outcome says; after the last one the process is interrupted."""

    def __init__(self, outcomes: Sequence[Exception | None]) -> None:
        self.outcomes, self.settings = list(outcomes), list[dict[str, Any]]()

    def __call__(self, target: str, **settings: Any) -> Runs:
        self.settings.append({"target": target, **settings})
        return self

    async def run(self) -> None:
        if not self.outcomes:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(60)
        outcome = self.outcomes.pop(0)
        if outcome is not None:
            raise outcome


class Metrics:
    """Counts the runs that ended."""

    def __init__(self) -> None:
        self.runs = 0

    def ended(self) -> None:
        self.runs += 1


def serve(*outcomes: Exception | None) -> tuple[list[str], Runs, Metrics, BaseException]:
    """What the agent said, its runs, and how it ended."""
    runs, said, metrics = Runs(outcomes), list[str](), Metrics()
    staying = StayingAgent(
        "192.0.2.1:4790", "nic0", "secret", report=said.append, metrics=metrics, pause_s=0, make=runs
    )  # type: ignore[arg-type]
    with pytest.raises((RunInterrupted, ControllerRefusal)) as ended:
        asyncio.run(staying.serve())
    return said, runs, metrics, ended.value


def test_it_plays_one_run_after_another_until_it_is_interrupted() -> None:
    said, runs, metrics, ended = serve(None, RunAborted("rank 3 is gone"), HostError("no such interface"))
    waiting = "waiting for a run at 192.0.2.1:4790"
    assert said == [
        waiting, "the run is over", waiting, "the run is over: rank 3 is gone", waiting, "no such interface", waiting
    ]  # fmt: skip
    assert isinstance(ended, RunInterrupted)
    assert metrics.runs == len(runs.settings) == 4
    assert {key: runs.settings[0][key] for key in ("target", "token", "name", "stays")} == {
        "target": "192.0.2.1:4790",
        "token": "secret",
        "name": "nic0",
        "stays": True,
    }


def test_what_is_refused_again_and_again_is_said_once() -> None:
    hostile = [HostError("rank 0 is at 1.1.1.1")] * 5
    said, runs, _, _ = serve(*hostile)
    waiting = "waiting for a run at 192.0.2.1:4790"
    assert said == [waiting, "rank 0 is at 1.1.1.1", waiting]
    assert len(runs.settings) == 6


def test_a_controller_that_refuses_it_ends_it() -> None:
    said, runs, _, ended = serve(None, ControllerRefusal("the token is not the controller's"))
    assert isinstance(ended, ControllerRefusal)
    assert (len(runs.settings), said[-1]) == (2, "waiting for a run at 192.0.2.1:4790")


def test_certificates_that_cannot_be_used_end_it_before_the_first_run() -> None:
    class Unusable:
        def channel_credentials(self) -> None:
            raise InputError("--tls-cert cert.pem: not a certificate")

    runs = Runs([])
    with pytest.raises(InputError, match="not a certificate"):
        asyncio.run(StayingAgent("192.0.2.1:4790", "nic0", "secret", tls=Unusable(), make=runs).serve())  # type: ignore[arg-type]
    assert runs.settings == []


def test_the_token_is_not_shown() -> None:
    assert "secret" not in repr(StayingAgent("192.0.2.1:4790", "nic0", "secret"))
