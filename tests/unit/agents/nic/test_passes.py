"""Passes over the sockets of an agent; pipes stand for sockets."""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

from agents.nic.passes import Passes
from agents.nic.port import PortPacer
from emulator.roce.tuning import ROUNDS_PER_PASS, SWEEP_NS, TURNS_AT_ONCE
from tests.support.virtual_clock import VirtualClock

PAST, FUTURE = 0, 1 << 62


class Endpoint:
    """Reads one byte a drain from a pipe."""

    def __init__(self) -> None:
        self.host, self.drains = "192.0.2.1", 0
        self.port: object = None
        self.fd, self._write = os.pipe()
        self.on_drain: Callable[[], None] = lambda: None

    def wake(self, count: int = 1) -> None:
        os.write(self._write, bytes(count))

    def drain(self) -> None:
        self.drains += 1
        os.read(self.fd, 1)
        self.on_drain()

    def catch_up(self) -> None:
        raise AssertionError

    def close(self) -> None:
        os.close(self.fd)
        os.close(self._write)


class ChannelDouble:
    """A queue pair with something in flight, or a reply to send."""

    def __init__(self, *, deadline_ns: int = FUTURE) -> None:
        self.deferred: list[int] = []
        self.is_idle, self.deadline_ns, self.host = False, deadline_ns, "192.0.2.1"
        self.is_dead, self.owed_since, self.local_peer = False, 0, None
        self.timeouts = self.replies = 0
        self.turns: list[int] = []
        self.on_reply: Callable[[], None] = lambda: None

    def defer_timeout(self, duration_ns: int, now: int) -> None:
        self.deferred.append(duration_ns)

    def handle_timer(self, now: int) -> None:
        self.timeouts += 1

    def reply(self) -> None:
        self.replies += 1
        self.on_reply()

    def send_more(self, now: int, turns: int) -> None:
        self.turns.append(turns)


class Agent:
    """Passes with one endpoint."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.passes, self.endpoint = Passes(self.clock, timeout_ns=8 * SWEEP_NS[1]), Endpoint()
        self.passes.listen(cast(Any, self.endpoint), self.endpoint.fd)

    def owe(self) -> ChannelDouble:
        channel = ChannelDouble()
        self.passes.agenda.owing.append(cast(Any, channel))
        return channel

    def await_answer(self, **settings: Any) -> ChannelDouble:
        channel = ChannelDouble(**settings)
        self.passes.agenda.active.add(cast(Any, channel))
        return channel


@contextmanager
def agent() -> Iterator[Agent]:
    one = Agent()
    try:
        yield one
    finally:
        one.passes.close()
        one.endpoint.close()


async def turns(count: int = 4) -> None:
    """Let the loop see what is ready."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_socket_is_drained_until_it_is_empty() -> None:
    with agent() as one:
        one.endpoint.wake(3)
        await turns()
        assert one.endpoint.drains == 3


async def test_replies_are_sent_when_nothing_more_has_come() -> None:
    with agent() as one:
        channel, seen = one.owe(), list[int]()
        one.endpoint.on_drain = lambda: seen.append(channel.replies)
        one.endpoint.wake(3)
        await turns()
        assert (seen, channel.replies) == ([0, 0, 0], 1)


async def test_a_busy_agent_replies_in_the_end_to_what_waits_too_long() -> None:
    with agent() as one:
        channel = one.owe()  # since time 0 of the monotonic clock: overdue
        one.endpoint.wake(ROUNDS_PER_PASS + 1)
        seen: list[int] = []
        channel.on_reply = lambda: seen.append(one.endpoint.drains)
        await turns()
        assert seen == [ROUNDS_PER_PASS]


async def test_other_callbacks_run_between_passes_of_a_busy_agent() -> None:
    with agent() as one:
        one.endpoint.wake(3 * ROUNDS_PER_PASS)
        seen: list[int] = []
        while one.endpoint.drains < 3 * ROUNDS_PER_PASS:
            await asyncio.sleep(0)
            seen.append(one.endpoint.drains)
        assert len(set(seen)) >= 3


async def test_a_socket_that_is_forgotten_is_not_drained() -> None:
    with agent() as one:
        one.passes.forget(one.endpoint.fd)
        one.passes.forget(one.endpoint.fd)
        one.endpoint.wake()
        await turns()
        assert one.endpoint.drains == 0


async def test_an_overdue_answer_is_a_timeout_and_others_are_not() -> None:
    with agent() as one:
        overdue, waiting = one.await_answer(deadline_ns=PAST), one.await_answer()
        one.passes.watch()
        one.passes.watch()
        one.clock.run_until(lambda: overdue.timeouts > 0)
        assert (overdue.timeouts, waiting.timeouts) == (1, 0)


async def test_an_answer_that_waits_in_the_socket_prevents_the_timeout() -> None:
    with agent() as one:
        overdue = one.await_answer(deadline_ns=PAST)

        def answered() -> None:
            overdue.is_idle = True

        one.endpoint.on_drain = answered
        one.endpoint.wake()
        one.passes.watch()
        one.clock.run_until(lambda: not one.passes.agenda.active)
        assert overdue.timeouts == 0


async def test_without_packets_in_flight_nothing_is_watched() -> None:
    with agent() as one:
        one.passes.watch()
        before = one.clock.now()
        one.clock.run()
        assert one.clock.now() == before


async def test_queue_pairs_to_local_peers_go_on_in_turn() -> None:
    with agent() as one:
        first, second = ChannelDouble(), ChannelDouble()
        one.passes.agenda.unfinished += cast(Any, [first, second])
        one.passes.watch()
        await turns()
        assert len(first.turns) == len(second.turns) == 1
        assert not one.passes.agenda.unfinished


def test_beside_a_paced_port_local_peers_send_a_turn_and_then_let_its_alarm_come() -> None:
    async def play(*, is_paced: bool) -> list[int]:
        with agent() as one:
            one.endpoint.port = PortPacer(one.clock, rate_bps=1, path_mtu=1, is_v6=False) if is_paced else None
            one.passes.forget(one.endpoint.fd)
            one.passes.listen(cast(Any, one.endpoint), one.endpoint.fd)
            channel = ChannelDouble()
            one.passes.agenda.unfinished.append(cast(Any, channel))
            one.passes.watch()
            await turns()
            return channel.turns

    assert asyncio.run(play(is_paced=False)) == [TURNS_AT_ONCE]
    assert asyncio.run(play(is_paced=True)) == [1]


async def test_closing_during_a_pass_ends_it() -> None:
    one = Agent()
    one.endpoint.on_drain = one.passes.close
    one.endpoint.wake(5)
    await turns()
    assert one.endpoint.drains == 1
    one.endpoint.close()
