from __future__ import annotations

import asyncio

import pytest

from emulator.control.conversation import Progress
from emulator.controller import watchdog
from emulator.controller.watchdog import SILENT_AGENT_S, Watchdog, check_periodically
from emulator.errors import AgentLost, EmulatorError, RunTimeout
from emulator.host.core_wait import CoreTime

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


def after(
    seconds: float, limits: Watchdog, clock: Clock, *, moving: bool = False, is_under_way: bool = True
) -> EmulatorError | None:
    """What the watchdog, which checks all the time, says first; None if nothing within this time."""
    for step in range(round(4 * seconds)):
        clock.s += 0.25
        if moving:
            limits.note("b", progress(1 + step + len(limits.progress)))
        error = playing(limits, is_under_way=is_under_way)
        if error is not None:
            return error
    return None


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
    assert after(5.0, limits, clock) is None


def test_an_agent_that_sends_nothing_is_lost(limits: Watchdog, clock: Clock) -> None:
    limits.heard("a")
    assert after(SILENT_AGENT_S, limits, clock, moving=True) is None
    error = after(0.25, limits, clock, moving=True)
    assert isinstance(error, AgentLost)
    assert error.agent == "a"
    assert "it has sent nothing for 10 s" in str(error)


def test_an_agent_that_works_or_waits_for_a_core_is_not_lost(limits: Watchdog, clock: Clock) -> None:
    limits.core_time_of = lambda agent: CoreTime(ran=round(2e8 * clock.s), waited=round(2e8 * clock.s))
    limits.heard("a")
    assert after(4 * SILENT_AGENT_S, limits, clock, moving=True) is None
    stopped = limits.core_time_of("a")
    limits.core_time_of = lambda agent: stopped
    assert isinstance(after(2 * SILENT_AGENT_S, limits, clock, moving=True), AgentLost)


def test_a_process_that_does_nothing_is_lost_at_once(limits: Watchdog, clock: Clock) -> None:
    limits.core_time_of = lambda agent: CoreTime(10**9, 0)
    limits.heard("a")
    assert isinstance(after(SILENT_AGENT_S + 0.25, limits, clock, moving=True), AgentLost)


def test_time_in_which_the_controller_did_not_run_is_nobodys_silence(limits: Watchdog, clock: Clock) -> None:
    limits.heard("a")
    assert after(3.0, limits, clock) is None
    clock.s += 60
    assert playing(limits) is None
    assert after(2.0, limits, clock) is None
    assert isinstance(after(0.25, limits, clock), RunTimeout)


def test_an_agent_may_be_silent_while_nothing_is_under_way(limits: Watchdog, clock: Clock) -> None:
    limits.heard("a")
    assert after(SILENT_AGENT_S + 1, limits, clock, moving=True, is_under_way=False) is None


def test_a_run_in_which_nothing_moves_ends_with_what_it_waits_for(limits: Watchdog, clock: Clock) -> None:
    limits.note("a", progress(1, waiting_on="rank 0: all_reduce 7"))
    assert after(5.0, limits, clock) is None
    limits.note("a", progress(1, waiting_on="rank 0: all_reduce 7"))  # reported, but nothing has moved
    error = after(0.25, limits, clock)
    assert isinstance(error, RunTimeout)
    assert "rank 0: all_reduce 7" in str(error)


def test_progress_puts_the_standstill_off(limits: Watchdog, clock: Clock) -> None:
    limits.note("a", progress(1))
    assert after(4.0, limits, clock) is None
    limits.note("a", progress(2))
    assert after(4.0, limits, clock) is None


def test_a_standstill_names_the_ranks_between_which_it_has_been_silent_for_longest(
    limits: Watchdog, clock: Clock
) -> None:
    limits.note("a", progress(1, waiting_on="x", silence=(0, 1), silence_ns=2_000_000_000))
    limits.note("b", progress(1, waiting_on="y", silence=(1, 0), silence_ns=3_000_000_000))
    error = after(5.25, limits, clock)
    assert isinstance(error, RunTimeout)
    assert error.between == (1, 0)
    assert error.silent_s == 3.0


def test_without_reports_a_standstill_names_the_agents(limits: Watchdog, clock: Clock) -> None:
    assert "agents b" in str(after(5.25, limits, clock))


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
