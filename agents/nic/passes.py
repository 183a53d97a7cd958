"""Passes over the sockets of an agent: receive, let queue pairs continue, reply, time out.

One epoll descriptor covers the sockets of all ranks. A pass receives what is there and sends replies when nothing is
left: a busy agent acknowledges many packets at once, an idle one immediately.
"""

from __future__ import annotations

import asyncio
import select
import time
from collections.abc import Callable, Collection

from agents.nic.channel import Agenda, LocalPeer
from emulator.host.clock import Clock
from emulator.roce.tuning import (
    LONGEST_DOUBT_NS,
    LONGEST_LOCAL_NS,
    LONGEST_NS_UNACKNOWLEDGED,
    LONGEST_SUSPICION_NS,
    NOTABLE_LATENESS_NS,
    ROUNDS_PER_PASS,
    SWEEP_NS,
    TURNS_AT_ONCE,
    TURNS_PER_ROUND,
)


class Passes:
    """Drives the NICs of one process on the running event loop.

    Args:
        clock: for alarms that look for overdue acknowledgements.
        timeout_ns: of queue pairs, before it is extended.

    Attributes:
        agenda: queue pairs with work to do.
        singles_per_turn: single packets read from a socket before the next socket has its turn.
    """

    def __init__(self, clock: Clock, *, timeout_ns: int) -> None:
        self.agenda, self.singles_per_turn, self.is_closed = Agenda(), 1, False
        self._loop, self._clock, self._epoll = asyncio.get_running_loop(), clock, select.epoll()
        self._nics: dict[int, LocalPeer] = {}  # by descriptor of their sockets
        self._has_paced_port = False
        self._longest_unacknowledged_ns = min(LONGEST_NS_UNACKNOWLEDGED, timeout_ns >> 3)
        self._sweep_ns = min(max(timeout_ns >> 2, SWEEP_NS[0]), SWEEP_NS[1])
        self._has_sweep = self._is_scheduled = False
        self._sweep_due_ns = 0
        self._suspected_ns = 0  # when a sweep last requested timeouts; 0: handled
        self._loop.add_reader(self._epoll.fileno(), self._pass)

    def listen(self, nic: LocalPeer, fd: int) -> None:
        """Drain a NIC whenever its socket is readable."""
        self._nics[fd] = nic
        self._has_paced_port |= nic.port is not None
        self._epoll.register(fd, select.EPOLLIN)

    def forget(self, fd: int) -> None:
        """Stop watching a socket."""
        if self._nics.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call back from the event loop."""
        self._loop.call_soon(callback)

    def watch(self) -> None:
        """Look for overdue acknowledgements while packets are in flight."""
        if self.agenda.unfinished:
            self._pass_again()
        if not self._has_sweep and self.agenda.active:
            self._has_sweep = True
            self._sweep_due_ns = time.monotonic_ns() + self._sweep_ns
            self._clock.call_at(self._sweep_due_ns, self._sweep)

    def close(self) -> None:
        """Stop at once."""
        self.is_closed = True
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()

    def _pass(self) -> None:
        for _ in range(ROUNDS_PER_PASS):
            if self.is_closed:
                return
            ready = self._epoll.poll(0, 256)
            if not ready and not self.agenda.unfinished:
                self.agenda.reply()
                self._time_out()
                break
            for fd, _ in ready:
                nic = self._nics.get(fd)
                if nic is not None:
                    nic.drain()
            self._go_on()
            if self._has_paced_port and self.agenda.unfinished:  # the port's alarm is due before a next round would end
                self._come_back()
                break
        else:
            self._come_back()
        self.watch()

    def _come_back(self) -> None:
        """There may be more to do: do only what must not wait, and let the loop's other callbacks run."""
        now = time.monotonic_ns()
        owing = self.agenda.owing
        if owing and now - owing[0].owed_since > self._longest_unacknowledged_ns:
            self.agenda.reply()
        if self._suspected_ns and now - self._suspected_ns > LONGEST_SUSPICION_NS:
            self._time_out(unread=[fd for fd, _ in self._epoll.poll(0, len(self._nics) or 1)])
        self._pass_again()

    def _go_on(self) -> None:
        """Let local peers continue to send, in small turns: data that is still in the cache of the core costs half."""
        unfinished = self.agenda.unfinished
        if not unfinished:
            return
        turns = max(1, min(TURNS_AT_ONCE, TURNS_PER_ROUND // len(unfinished)))
        if self._has_paced_port:
            turns = 1
        began = now = time.monotonic_ns()
        for _ in range(len(unfinished)):
            if self._has_paced_port and now - began > LONGEST_LOCAL_NS:
                break
            channel = unfinished.popleft()
            channel.send_more(now, turns)
            if channel.local_peer is not None:
                channel.local_peer.catch_up()
            now = time.monotonic_ns()

    def _pass_again(self) -> None:
        # The last round can have emptied the sockets: then only another pass finds the agent idle.
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._scheduled_pass)

    def _scheduled_pass(self) -> None:
        self._is_scheduled = False
        self._pass()

    def _sweep(self) -> None:
        """Request timeouts for the next idle moment, when no acknowledgement can wait in a socket."""
        self._has_sweep = False
        self._suspected_ns = now = time.monotonic_ns()
        late_ns = now - self._sweep_due_ns
        if late_ns > NOTABLE_LATENESS_NS:  # the host is busy: peers were probably delayed as well
            for channel in self.agenda.active:
                channel.defer_timeout(late_ns, now)
        if not self.is_closed:
            self._pass()

    def _time_out(self, unread: Collection[int] = ()) -> None:
        """Time out overdue queue pairs, except those whose acknowledgement can wait in a socket with unread data."""
        if not self._suspected_ns:
            return
        self._suspected_ns = 0
        now = time.monotonic_ns()
        doubtful = {self._nics[fd].host for fd in unread if fd in self._nics}
        for channel in list(self.agenda.active):
            if channel.is_idle or channel.is_dead:
                self.agenda.active.discard(channel)
            elif channel.deadline_ns <= now and (
                channel.host not in doubtful or now - channel.deadline_ns > LONGEST_DOUBT_NS
            ):
                channel.handle_timer(now)
