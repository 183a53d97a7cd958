"""The offset of another clock: never further off than the error says, whatever the delays were."""

import random
import time

import numpy as np
import pytest

from emulator.control import conversation as control
from emulator.controller.clock_offset import (
    FIRST_BURST,
    LOOKS,
    NEXT_BURST,
    AgentClocks,
    ClockEstimate,
    ClockExchange,
    ClockWatch,
    difference_error_ns,
)


class Agent:
    """A clock that is `offset_ns` ahead at 0 and drifts, behind a network with random delays."""

    def __init__(self, offset_ns: int, *, drift_ppm: float = 0, seed: int = 0) -> None:
        self.now_ns, self._offset_ns, self._drift_ppm = 10**9, offset_ns, drift_ppm
        self._random = random.Random(seed)

    def clock(self, at_ns: float) -> int:
        return int(at_ns + self._offset_ns + at_ns * self._drift_ppm / 1e6)

    def exchange(self, *, delay_ns: int) -> ClockExchange:
        there, held, back = (self._random.randrange(100_000, delay_ns) for _ in range(3))
        sent, self.now_ns = self.now_ns, self.now_ns + there + held + back
        return ClockExchange(sent, self.clock(sent + there), self.clock(sent + there + held), self.now_ns)


def _watched(agent: Agent, *, iterations: int, seconds: float, strays: int = 0) -> ClockWatch:
    asked: list[int] = []
    watch = ClockWatch(lambda: asked.append(1))
    for iteration in range(iterations + 1):
        done: list[bool] = []
        watch.burst(16, lambda done=done: done.append(True))  # type: ignore[misc]
        while watch.is_bursting:
            watch.heard(agent.exchange(delay_ns=400_000))
        assert done == [True]
        for _ in range(strays if iteration < iterations else 0):
            agent.now_ns += int(seconds * 1e9 / (strays + 1))
            watch.heard(agent.exchange(delay_ns=5_000_000))
        agent.now_ns += int(seconds * 1e9 / (strays + 1))
    return watch


def _off_by(estimate: ClockEstimate, agent: Agent, *, until_ns: int) -> int:
    """The largest error of a stamp taken at any time of the run."""
    times = np.linspace(10**9, until_ns, 101)
    stamps = np.array([agent.clock(time) for time in times], np.int64)
    return int(np.abs(estimate.to_controller(stamps) - times.astype(np.int64)).max())


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("offset_ns", [0, -(10**15) // 7, 10**15 + 1])
def test_a_clock_that_drifts_evenly_is_corrected_within_the_error(offset_ns: int, seed: int) -> None:
    agent = Agent(offset_ns, drift_ppm=30, seed=seed)
    estimate = _watched(agent, iterations=4, seconds=20, strays=8).estimate()
    assert estimate.error_ns < 400_000
    assert _off_by(estimate, agent, until_ns=estimate.points[-1].at_ns) <= estimate.error_ns


def test_a_burst_bounds_better_than_half_its_quickest_exchange() -> None:
    watch = ClockWatch(lambda: None)
    watch.burst(2)
    watch.heard(ClockExchange(0, 1_100, 1_200, 10_000))  # slow on the way back
    watch.heard(ClockExchange(20_000, 29_000, 29_100, 29_200))  # slow on the way there
    estimate = watch.estimate()
    assert estimate.error_ns < 700  # 100 ns, and what the clock may have drifted since; alone they say 4,450 and 4,550


def test_a_clock_that_jumps_in_mid_run_is_noticed_by_what_was_asked_there() -> None:
    agent = Agent(0)
    watch = _watched(agent, iterations=1, seconds=1)
    calm = watch.estimate()
    first, last = agent.now_ns - int(0.9e9), agent.now_ns
    watch.heard(ClockExchange(first, first + 100_000 + 50_000_000, first + 150_000 + 50_000_000, first + 200_000))
    watch.burst(1)
    watch.heard(ClockExchange(last, last + 100_000, last + 150_000, last + 200_000))
    bent = watch.estimate()
    assert bent.error_ns > calm.error_ns + 45_000_000


def test_a_run_that_broke_off_is_bounded_by_what_was_said_last() -> None:
    agent = Agent(10**9, drift_ppm=100)
    watch = _watched(agent, iterations=1, seconds=60)
    watch.heard(agent.exchange(delay_ns=400_000))
    estimate = watch.estimate()
    assert len(estimate.points) == 3
    assert _off_by(estimate, agent, until_ns=agent.now_ns) <= estimate.error_ns


def test_without_a_whole_burst_nothing_is_known() -> None:
    watch = ClockWatch(lambda: None)
    watch.burst(2)
    watch.heard(ClockExchange(0, 1, 2, 3))
    assert watch.estimate() is None


def test_the_difference_of_two_agents_stamps_carries_both_their_errors() -> None:
    assert difference_error_ns([5, 40, 30]) == 70
    assert difference_error_ns([40]) == 40  # the other one shares the controller's clock


AHEAD_NS = 5_000_000


class Remote:
    """An agent whose clock is 5 ms ahead; it answers queries when told to."""

    def __init__(self, clocks: AgentClocks, name: str = "far") -> None:
        self.clocks, self.name, self.queries = clocks, name, 0
        clocks.add(name, "another boot", self.receive)

    def receive(self, value: control.ControllerValue) -> None:
        assert isinstance(value, control.ClockQuery)
        self.queries += 1

    def answer(self, exchanges: int) -> None:
        for _ in range(exchanges):
            now = time.monotonic_ns()
            self.clocks.note(self.name, control.ClockReply(now - 1000, now + AHEAD_NS, now + AHEAD_NS))


@pytest.fixture
def clocks() -> AgentClocks:
    return AgentClocks("this boot")


def test_an_agent_with_the_same_clock_is_not_asked(clocks: AgentClocks) -> None:
    asked: list[control.ControllerValue] = []
    clocks.add("near", "this boot", asked.append)
    clocks.look()
    assert (asked, clocks.ahead_ns("near"), clocks.estimates()) == ([], 0, {})


@pytest.mark.parametrize("own", ["", "this boot"])
def test_a_clock_that_is_not_known_to_be_the_same_is_watched(own: str) -> None:
    clocks, asked = AgentClocks(own), []
    clocks.add("far", "", asked.append)
    assert asked


def test_the_offset_of_another_clock_is_found_within_half_the_round_trip(clocks: AgentClocks) -> None:
    remote = Remote(clocks)
    remote.answer(FIRST_BURST)
    assert remote.queries >= FIRST_BURST
    assert clocks.ahead_ns("far") == pytest.approx(AHEAD_NS, abs=1_000_000)
    assert set(clocks.estimates()) == {"far"}


def test_what_comes_next_waits_for_all_clocks(clocks: AgentClocks) -> None:
    remotes = [Remote(clocks, name) for name in ("one", "other")]
    for remote in remotes:
        remote.answer(FIRST_BURST)
    done: list[bool] = []
    clocks.settle_then(lambda: done.append(True))
    remotes[0].answer(NEXT_BURST)
    assert done == []
    remotes[1].answer(NEXT_BURST)
    assert done == [True]


def test_without_other_clocks_nothing_is_waited_for(clocks: AgentClocks) -> None:
    done: list[bool] = []
    clocks.settle_then(lambda: done.append(True))
    assert done == [True]


def test_a_reply_of_a_stranger_is_ignored(clocks: AgentClocks) -> None:
    clocks.note("nobody", control.ClockReply(0, 1, 2))
    assert clocks.estimates() == {}


def test_clocks_of_many_agents_are_looked_at_in_turn(clocks: AgentClocks) -> None:
    remotes = [Remote(clocks, f"far{n}") for n in range(2 * LOOKS + 3)]
    for remote in remotes:
        remote.answer(FIRST_BURST)
        remote.queries = 0
    asked = []
    for _ in range(4):
        clocks.look()
        asked.append(sum(remote.queries for remote in remotes))
    assert asked == [LOOKS, 2 * LOOKS, 2 * LOOKS + 3, 3 * LOOKS + 3]
    assert {remote.queries for remote in remotes[:LOOKS]} == {2}
