from __future__ import annotations

import asyncio

import pytest

from emulator.control.conversation import Progress
from emulator.controller import watchdog
from emulator.controller.watchdog import SILENT_AGENT_S, Watchdog, check_periodically
from emulator.errors import AgentLost, EmulatorError, RunTimeout

RANKS = {"a": [0], "b": [1]}


class Clock:
    def __init__(self) -> None:
        self.s = 100.0

    def __call__(self) -> float:
        return self.s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def limits(clock: Clock) -> Watchdog:
    return Watchdog(RANKS, standstill_s=5.0, join_timeout_s=3.0, now=clock)


def gathering(limits: Watchdog, *missing: str) -> EmulatorError | None:
    return limits.overdue(missing=missing, is_gathering=True, is_under_way=False)


def playing(limits: Watchdog, *, is_under_way: bool = True) -> EmulatorError | None:
    return limits.overdue(missing=["b"], is_gathering=False, is_under_way=is_under_way)


def progress(events: int, *, waiting_on: str = "", silence: tuple[int, ...] = (), silence_ns: int = 0) -> Progress:
    return Progress(
        events=events, bytes_sent=0, computing=False, waiting_on=waiting_on, silence=silence, silence_ns=silence_ns
    )


def test_agents_have_until_the_join_timeout(limits: Watchdog, clock: Clock) -> None:
    clock.s += 3.0
    assert gathering(limits, "b") is None
    clock.s += 0.1
    error = gathering(limits, "a", "b")
    assert isinstance(error, RunTimeout)
    assert "agents to join: a, b" in str(error)


def test_waiting_for_agents_is_not_a_standstill(limits: Watchdog, clock: Clock) -> None:
    clock.s += 2.9
    assert gathering(limits, "b") is None
    clock.s += 4.9
    assert playing(limits) is None


def test_an_agent_that_sends_nothing_is_lost(limits: Watchdog, clock: Clock) -> None:
    limits.heard("a")
    clock.s += SILENT_AGENT_S - 5
    limits.heard("b")
    limits.note("b", progress(1))
    clock.s += 5.0
    assert playing(limits) is None
    clock.s += 0.1
    limits.note("b", progress(2))
    error = playing(limits)
    assert isinstance(error, AgentLost)
    assert error.agent == "a"
    assert "it has sent nothing for 10 s" in str(error)


def test_an_agent_may_be_silent_while_nothing_is_under_way(limits: Watchdog, clock: Clock) -> None:
    limits.heard("a")
    clock.s += SILENT_AGENT_S + 1
    limits.note("b", progress(1))
    assert playing(limits, is_under_way=False) is None


def test_a_run_in_which_nothing_moves_ends_with_what_it_waits_for(limits: Watchdog, clock: Clock) -> None:
    limits.note("a", progress(1, waiting_on="rank 0: all_reduce 7"))
    clock.s += 5.0
    assert playing(limits) is None
    clock.s += 0.1
    limits.note("a", progress(1, waiting_on="rank 0: all_reduce 7"))  # reported, but nothing has moved
    error = playing(limits)
    assert isinstance(error, RunTimeout)
    assert "rank 0: all_reduce 7" in str(error)


def test_progress_puts_the_standstill_off(limits: Watchdog, clock: Clock) -> None:
    limits.note("a", progress(1))
    clock.s += 4.0
    limits.note("a", progress(2))
    clock.s += 4.0
    assert playing(limits) is None


def test_a_standstill_names_the_ranks_between_which_it_has_been_silent_for_longest(
    limits: Watchdog, clock: Clock
) -> None:
    limits.note("a", progress(1, waiting_on="x", silence=(0, 1), silence_ns=2_000_000_000))
    limits.note("b", progress(1, waiting_on="y", silence=(1, 0), silence_ns=3_000_000_000))
    clock.s += 5.1
    error = playing(limits)
    assert isinstance(error, RunTimeout)
    assert error.between == (1, 0)
    assert error.silent_s == 3.0


def test_without_reports_a_standstill_names_the_agents(limits: Watchdog, clock: Clock) -> None:
    clock.s += 5.1
    error = playing(limits)
    assert error is not None
    assert "agents b" in str(error)


def test_a_check_that_raises_is_reported_and_ends_the_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "PERIOD_S", 0)
    failures: list[BaseException] = []
    checks: list[int] = []

    def check() -> None:
        checks.append(1)
        if len(checks) == 3:
            raise KeyError("ranks")

    asyncio.run(check_periodically(check, failed=failures.append))
    assert len(checks) == 3
    assert [type(one) for one in failures] == [KeyError]
