"""One end of a background flow, as a flow beside the ranks of an agent.

A sender offers its messages when its schedule says so, whatever became of earlier ones: one timer wakes it for the
next message, and all that are due leave together.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TypeAlias, cast

from agents.annexes.background.ends import Durations, FlowEnd, SendingEnd
from agents.annexes.background.roce import RoceEnd
from agents.annexes.background.tcp import TcpReceiver, TcpSender
from agents.annexes.background.udp import UdpReceiver, UdpSender
from emulator.control.flows import FlowDirection, FlowFigures, FlowObserver, FlowTask
from emulator.flows.background import BackgroundTask, Schedule, batches
from emulator.host.clock import TimerfdClock
from emulator.schema import decode
from emulator.units import BITS_PER_BYTE, NS_PER_S

FINISH_S = 0.5
"""What is under way when the job ends has so long to complete."""
MOST_AT_ONCE = 256
"""Messages offered before other callbacks of the loop have their turn."""

_MakeEnd: TypeAlias = Callable[[BackgroundTask, str | None], FlowEnd]
ENDS: Mapping[tuple[str, bool], _MakeEnd] = {
    ("roce", True): RoceEnd,
    ("roce", False): RoceEnd,
    ("tcp", True): TcpSender,
    ("tcp", False): TcpReceiver,
    ("udp", True): UdpSender,
    ("udp", False): UdpReceiver,
}
"""Transport, and whether it sends → the end that does it."""


class BackgroundActor:
    """One end of a background flow, on the running event loop. Implements FlowActor."""

    def __init__(self, task: BackgroundTask, device: str | None) -> None:
        self._task = task
        self._end = ENDS[task.transport, task.is_sender](task, device)
        self._offers = Offers(task.schedule, cast(SendingEnd, self._end)) if task.is_sender else None
        self._told_to_end = asyncio.Event()
        self._start_ns = self._end_ns = 0

    @property
    def waiting_for(self) -> str:
        """See FlowActor."""
        return f"{self._task.peer_address} at the other end"

    @property
    def addresses(self) -> Sequence[str]:
        """See FlowActor."""
        return self._task.address, self._task.peer_address

    async def prepare(self) -> None:
        """See FlowActor."""
        await self._end.open()

    async def play(self, at_ns: int) -> None:
        """See FlowActor."""
        self._start_ns = at_ns
        if self._offers is not None:
            self._offers.begin(at_ns)
        failing = asyncio.create_task(self._end.failed())
        try:
            await _first(failing, self._told_to_end.wait())
            try:
                async with asyncio.timeout(FINISH_S):
                    await _first(failing, self._end.finish())
            except TimeoutError:
                pass  # what the network has not taken by now is not sent: the figures say so
        finally:
            failing.cancel()
            await asyncio.gather(failing, return_exceptions=True)

    def end(self) -> None:
        """See FlowActor."""
        self._stop_offering()
        self._told_to_end.set()

    def figures(self) -> Sequence[FlowFigures]:
        """See FlowActor."""
        return list(self._figures()) if self._start_ns else []

    def close(self) -> None:
        """See FlowActor."""
        self._stop_offering()
        self._end.close()

    def _stop_offering(self) -> None:
        self._end_ns = self._end_ns or time.monotonic_ns()
        if self._offers is not None:
            self._offers.close()

    def _figures(self) -> Iterator[FlowFigures]:
        self._end.counted()
        tally, offers, offered_ns = self._end.tally, self._offers, self._lasted_ns(0)
        duration_ns = self._lasted_ns(tally.last_ns)
        yield FlowFigures(
            direction=FlowDirection.RECEIVED if offers is None else FlowDirection.SENT,
            observer=FlowObserver.CHARKHA,
            messages=tally.messages,
            bytes=tally.bytes,
            start_ns=self._start_ns,
            duration_ns=duration_ns,
            bytes_per_s=tally.bytes * NS_PER_S / duration_ns,
            wire_bps=tally.wire_bytes * BITS_PER_BYTE * NS_PER_S / duration_ns,
            packets=tally.packets,
            lost=tally.lost,
            offered_messages=None if offers is None else offers.messages,
            offered_bytes=None if offers is None else offers.bytes,
            offered_bps=None if offers is None else offers.wire_bytes * BITS_PER_BYTE * NS_PER_S / offered_ns,
            lateness_median_ns=None if offers is None else offers.lateness.percentile(0.5),
            lateness_p99_ns=None if offers is None else offers.lateness.percentile(0.99),
            completions=tally.completions.count or None,
            completion_median_ns=tally.completions.percentile(0.5),
            completion_p99_ns=tally.completions.percentile(0.99),
            gaps=tally.gaps,
        )

    def _lasted_ns(self, last_ns: int) -> int:
        """From the start to the end of the job, or to a later moment."""
        return max(1, (self._end_ns or time.monotonic_ns()) - self._start_ns, last_ns - self._start_ns)


class Offers:
    """Offers the messages of a schedule to an end, as they become due.

    Attributes:
        messages, bytes, wire_bytes: offered; payload, and with all headers.
        lateness: how long after they were due.
    """

    def __init__(self, schedule: Schedule, end: SendingEnd) -> None:
        self._schedule, self._end = schedule, end
        self._clock = TimerfdClock()
        self._messages = _messages(schedule)
        self._next = next(self._messages)
        self.messages = self.bytes = self.wire_bytes = 0
        self.lateness = Durations()

    def begin(self, at_ns: int) -> None:
        """Begin the schedule at a moment."""
        self._at_ns = at_ns
        self._clock.call_at(at_ns + self._next[0], self._offer)

    def close(self) -> None:
        """Offer no more; idempotent."""
        self._clock.close()

    def _offer(self) -> None:
        now, wire = time.monotonic_ns(), self._schedule.wire
        for _ in range(MOST_AT_ONCE):
            due_ns, size = self._next
            due_ns += self._at_ns
            if due_ns > now:
                break
            self.messages += 1
            self.bytes += size
            self.wire_bytes += wire.wire_bytes(size)
            self.lateness.note(now - due_ns)
            self._end.offer(size, due_ns)
            self._next = next(self._messages)
        self._end.send()
        self._clock.call_at(self._at_ns + self._next[0], self._offer)


def make(task: FlowTask, device: str | None) -> BackgroundActor:
    """The actor of a flow whose document is a BackgroundTask."""
    return BackgroundActor(decode(json.loads(task.document), BackgroundTask), device)


def _messages(schedule: Schedule) -> Iterator[tuple[int, int]]:
    """Due time from the start on and size of every message; a batch is drawn at a time."""
    for batch in batches(schedule):
        yield from zip(batch.due_ns.tolist(), batch.size_bytes.tolist(), strict=True)


async def _first(failing: asyncio.Task[None], work: Awaitable[object]) -> None:
    """Some work, unless the flow fails before; then its error."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait([failing, task], return_when=asyncio.FIRST_COMPLETED)
        if failing.done():
            failing.result()
        task.result()
    finally:
        task.cancel()
