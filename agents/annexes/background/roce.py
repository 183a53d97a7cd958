"""Background traffic over RoCEv2: WRITEs with immediate data on one queue pair between two software NICs.

One without payload ends the flow.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence

from agents.annexes.background.ends import FlowTally
from agents.nic.channel import Channel
from agents.nic.nic import StandaloneNic
from emulator.errors import RunError
from emulator.flows.background import BackgroundTask
from emulator.roce.connection.messages import Delivered, Message, Verb
from emulator.roce.connection.qp_facts import QpFacts
from emulator.roce.connection.queue_pair import QueuePair
from emulator.roce.constants import FIRST_SOURCE_PORT
from emulator.roce.pacing import Pacer
from emulator.roce.wire.psn import Psn

_MOST_POSTED = 1 << 14
"""Messages posted at once; fewer if they fill the window. The rest waits, and is forgotten when the job ends."""
_ALLOWANCE_NS = 20_000_000
"""An agent that had no core for so long makes up for it: half of what a queue of a lab takes."""
_FIRST_QPN, _QPNS = 0x100, 1 << 23


class RoceEnd:
    """Either end. Implements SendingEnd, and Owner of its queue pair."""

    def __init__(self, task: BackgroundTask, device: str | None) -> None:
        self._task, self._device = task, device
        self._waiting: deque[tuple[int, int]] = deque()  # size and due time of messages
        self._posted: deque[int] = deque()  # due times
        self._posted_bytes = self._window_bytes = 0
        self._nic: StandaloneNic | None = None
        self._channel: Channel | None = None
        self._ended = asyncio.Event()
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.tally = FlowTally(task.schedule.wire)

    async def open(self) -> None:
        """See End."""
        task = self._task
        self._nic = alone = StandaloneNic(task.address, task.options, device=self._device)
        qpn, psn = _FIRST_QPN + task.tag % _QPNS, Psn(task.tag & 0xFFFFFF)
        facts = QpFacts(
            host=task.address,
            peer_host=task.peer_address,
            qpn=qpn,
            peer_qpn=qpn,
            psn=psn,
            peer_psn=psn,
            rkey=task.tag,
            source_ports=(FIRST_SOURCE_PORT | qpn & 0x3FFF,),
        )
        window = task.options.window_packets(alone.nic.buffer_bytes, peers=1)
        self._window_bytes = window * task.options.path_mtu
        pair = QueuePair(
            task.options.connection(window_packets=window),
            psn,
            psn,
            congestion=task.options.congestion_maker(task.port_rate_bps)(),
            cnp_gap_ns=task.options.cnp_gap_ns(task.port_rate_bps),
            pacer=Pacer(allowance_ns=_ALLOWANCE_NS),
        )
        self._channel = alone.nic.create(facts, pair, self)
        alone.nic.start()

    async def failed(self) -> None:
        """See End."""
        await self._failure

    def counted(self) -> None:
        """See End."""
        if self._channel is not None and self._task.is_sender:
            self.tally.packets = self._channel.pair.requester.sent_packets

    def offer(self, size_bytes: int, due_ns: int) -> None:
        """See SendingEnd."""
        self._waiting.append((size_bytes, due_ns))

    def send(self) -> None:
        """See SendingEnd."""
        channel, nic = self._channel, self._nic
        if channel is None or nic is None or channel.is_dead:
            return
        while self._waiting and self._posted_bytes < self._window_bytes and len(self._posted) < _MOST_POSTED:
            size, due_ns = self._waiting.popleft()
            self._posted.append(due_ns)
            self._posted_bytes += size
            channel.post(Message(Verb.WRITE_IMM, size, rkey=self._task.tag))
        channel.send(time.monotonic_ns())
        nic.passes.watch()

    async def finish(self) -> None:
        """See End."""
        if self._task.is_sender and self._channel is not None:
            self._waiting.clear()
            self._posted.append(0)
            self._channel.post(Message(Verb.WRITE_IMM, 0, rkey=self._task.tag))
            self.send()
        await self._ended.wait()

    def close(self) -> None:
        """See End."""
        if self._nic is not None:
            self.counted()
            self._nic.close()
            self._nic = None

    # Events of the queue pair.

    def delivered(self, index: int, delivered: Delivered, now: int) -> None:
        """See Owner."""
        if not delivered.size:
            self._ended.set()
            return
        for _ in range(delivered.messages):
            self.tally.complete(delivered.size, now)

    def completed(self, index: int, messages: Sequence[Message], now: int) -> None:
        """See Owner."""
        for message in messages:
            due_ns = self._posted.popleft()
            self._posted_bytes -= message.size
            if message.size:
                self.tally.complete(message.size, now, due_ns)
            else:
                self._ended.set()
        if self._waiting:
            self.send()

    def broke(self, reason: str) -> None:
        """See Owner."""
        if self._channel is not None:
            self._channel.close()
        if not self._failure.done():
            self._failure.set_exception(RunError(f"the connection to {self._task.peer_address} failed: {reason}"))
