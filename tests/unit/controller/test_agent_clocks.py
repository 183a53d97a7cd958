"""Which clocks are watched, and when they are looked at."""

from __future__ import annotations

import time

import pytest

from emulator.control import conversation as control
from emulator.controller.clocks import agent_clocks
from emulator.controller.clocks.agent_clocks import FIRST_BURST, LOOKS, NEXT_BURST, AgentClocks

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
def clocks(monkeypatch: pytest.MonkeyPatch) -> AgentClocks:
    monkeypatch.setattr(agent_clocks, "clock_id", lambda: "this boot")
    return AgentClocks()


def test_an_agent_with_the_same_clock_is_not_asked(clocks: AgentClocks) -> None:
    asked: list[control.ControllerValue] = []
    clocks.add("near", "this boot", asked.append)
    clocks.look()
    assert (asked, clocks.ahead_ns("near"), clocks.estimates()) == ([], 0, {})


@pytest.mark.parametrize("own", ["", "this boot"])
def test_a_clock_that_is_not_known_to_be_the_same_is_watched(own: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_clocks, "clock_id", lambda: own)
    clocks, asked = AgentClocks(), []
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
