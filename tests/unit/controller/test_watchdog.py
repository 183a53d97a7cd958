import asyncio

import pytest

from emulator.control.conversation import Progress
from emulator.controller.watchdog import SILENT_AGENT_S, Standstill, Watchdog, check_periodically
from emulator.errors import AgentLost, EmulatorError, RunTimeout
from emulator.host.core_wait import CoreTime


class Clock:
    def __init__(self) -> None:
        self.s = 100.0

    def __call__(self) -> float:
        return self.s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def agents(clock: Clock) -> Watchdog:
    return Watchdog(join_timeout_s=3.0, now=clock)


@pytest.fixture
def job(clock: Clock) -> Standstill:
    return Standstill(5.0, now=clock)


def gathering(agents: Watchdog, *missing: str) -> EmulatorError | None:
    return agents.overdue(missing=missing, is_gathering=True, is_under_way=False)


def silence_after(seconds: float, agents: Watchdog, clock: Clock, *, is_under_way: bool = True) -> EmulatorError | None:
    """What the watchdog, which checks all the time, says first; None if nothing within this time."""
    for _ in range(round(4 * seconds)):
        clock.s += 0.25
        agents.excused_s()
        error = agents.overdue(missing=(), is_gathering=False, is_under_way=is_under_way)
        if error is not None:
            return error
    return None


def standstill_after(seconds: float, job: Standstill, clock: Clock) -> EmulatorError | None:
    clock.s += seconds
    return job.overdue(["b"])


def progress(events: int, *, waiting_on: str = "", silence: tuple[int, ...] = (), silence_ns: int = 0) -> Progress:
    return Progress(
        events=events, bytes_sent=0, computing=False, waiting_on=waiting_on, silence=silence, silence_ns=silence_ns
    )


def test_agents_have_until_the_join_timeout(agents: Watchdog, clock: Clock) -> None:
    clock.s += 3.0
    assert gathering(agents, "b") is None
    clock.s += 0.1
    error = gathering(agents, "a", "b")
    assert isinstance(error, RunTimeout)
    assert "agents to join: a, b" in str(error)


def test_an_agent_that_sends_nothing_is_lost(agents: Watchdog, clock: Clock) -> None:
    agents.heard("a")
    assert silence_after(SILENT_AGENT_S, agents, clock) is None
    error = silence_after(0.25, agents, clock)
    assert isinstance(error, AgentLost)
    assert error.agent == "a"
    assert "it has sent nothing for 10 s" in str(error)


def test_an_agent_that_works_or_waits_for_a_core_is_not_lost(agents: Watchdog, clock: Clock) -> None:
    agents.core_time_of = lambda agent: CoreTime(ran=round(2e8 * clock.s), waited=round(2e8 * clock.s))
    agents.heard("a")
    assert silence_after(4 * SILENT_AGENT_S, agents, clock) is None
    stopped = agents.core_time_of("a")
    agents.core_time_of = lambda agent: stopped
    assert isinstance(silence_after(2 * SILENT_AGENT_S, agents, clock), AgentLost)


def test_a_process_that_does_nothing_is_lost_at_once(agents: Watchdog, clock: Clock) -> None:
    agents.core_time_of = lambda agent: CoreTime(10**9, 0)
    agents.heard("a")
    assert isinstance(silence_after(SILENT_AGENT_S + 0.25, agents, clock), AgentLost)


def test_time_in_which_the_controller_did_not_run_is_nobodys_silence(
    agents: Watchdog, job: Standstill, clock: Clock
) -> None:
    agents.heard("a")
    clock.s += 3.0
    assert agents.excused_s() == 0
    clock.s += 60
    job.excuse(agents.excused_s())
    assert job.overdue(["b"]) is None
    assert gathering(agents, "b") is None
    assert silence_after(SILENT_AGENT_S - 3, agents, clock) is None
    assert isinstance(job.overdue(["b"]), RunTimeout)
    assert isinstance(silence_after(0.25, agents, clock), AgentLost)


def test_an_agent_may_be_silent_while_nothing_is_under_way_and_after_it_has_left(
    agents: Watchdog, clock: Clock
) -> None:
    agents.heard("a")
    assert silence_after(SILENT_AGENT_S + 1, agents, clock, is_under_way=False) is None
    agents.forget("a")
    assert silence_after(SILENT_AGENT_S + 1, agents, clock) is None


def test_a_job_in_which_nothing_moves_is_told_with_what_it_waits_for(job: Standstill, clock: Clock) -> None:
    job.note("a", progress(1, waiting_on="rank 0: all_reduce 7"))
    assert standstill_after(5.0, job, clock) is None
    job.note("a", progress(1, waiting_on="rank 0: all_reduce 7"))  # reported, but nothing has moved
    error = standstill_after(0.25, job, clock)
    assert isinstance(error, RunTimeout)
    assert "rank 0: all_reduce 7" in str(error)


def test_progress_puts_the_standstill_off(job: Standstill, clock: Clock) -> None:
    job.note("a", progress(1))
    assert standstill_after(4.0, job, clock) is None
    job.note("a", progress(2))
    assert standstill_after(4.0, job, clock) is None


def test_a_standstill_begins_after_what_excuses_it(job: Standstill, clock: Clock) -> None:
    clock.s += 100
    job.excuse()
    assert standstill_after(5.0, job, clock) is None
    assert isinstance(standstill_after(0.25, job, clock), RunTimeout)


def test_a_standstill_names_the_ranks_between_which_it_has_been_silent_for_longest(
    job: Standstill, clock: Clock
) -> None:
    job.note("a", progress(1, waiting_on="x", silence=(0, 1), silence_ns=2_000_000_000))
    job.note("b", progress(1, waiting_on="y", silence=(1, 0), silence_ns=3_000_000_000))
    error = standstill_after(5.25, job, clock)
    assert isinstance(error, RunTimeout)
    assert error.between == (1, 0)
    assert error.silent_s == 3.0


def test_without_reports_a_standstill_names_the_agents(job: Standstill, clock: Clock) -> None:
    assert "agents b" in str(standstill_after(5.25, job, clock))


def test_a_check_that_raises_is_reported_and_ends_the_watch() -> None:
    failures: list[BaseException] = []
    checks: list[int] = []

    def check() -> None:
        checks.append(1)
        if len(checks) == 3:
            raise KeyError("ranks")

    asyncio.run(check_periodically(check, failed=failures.append, period_s=0))
    assert len(checks) == 3
    assert [type(one) for one in failures] == [KeyError]
