"""The reliable layer of the network in memory: sequence numbers, retransmission, cumulative acknowledgements.

A flow has two streams, payload and control, each with a sequence of its own: so control overtakes payload and never
control. A lost message is sent again after a timeout, the oldest first; the receiver keeps what came too early.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from emulator.control.conversation import Address
from emulator.control.observations import FlowCounters

if TYPE_CHECKING:
    from tests.support.memory_transport.transport import MemoryEndpoint


@dataclass(frozen=True, slots=True)
class Message:
    """What crosses the network: a piece of a transfer, or an acknowledgement.

    Attributes:
        src: rank that sent it.
        is_control: which of the flow's two streams it belongs to.
        sequence: its number in the stream, from 0; of an acknowledgement: the number that is expected next.
        size: payload, bytes.
        tag, transfer_size: of the transfer, where this message ends it; else None.
    """

    src: int
    is_control: bool
    sequence: int
    size: int = 0
    tag: int | None = None
    transfer_size: int = 0
    is_acknowledgement: bool = False


class Sender:
    """The sending end of a stream."""

    def __init__(
        self, owner: MemoryEndpoint, peer: int, target: Address, *, is_control: bool, counters: FlowCounters
    ) -> None:
        self._owner, self._network, self._peer, self._target = owner, owner.network, peer, target
        self._is_control, self._counters = is_control, counters
        self._queue: deque[tuple[int, int]] = deque()  # tag, size
        self._left = 0  # bytes of the first transfer in the queue that are still to be sent
        self._sent = 0
        self._unacknowledged: deque[Message] = deque()
        self._retries = 0
        self._deadline = 0
        self._has_alarm = False

    @property
    def unacknowledged_bytes(self) -> int:
        """Payload sent that the receiver has not acknowledged."""
        return sum(message.size for message in self._unacknowledged)

    def post(self, tag: int, size: int) -> None:
        """Queue a transfer."""
        if not self._queue:
            self._left = size
        self._queue.append((tag, size))

    def send_ready(self) -> None:
        """Send what the window allows."""
        while self._queue and len(self._unacknowledged) < self._network.window_messages:
            message = self._cut(*self._queue[0])
            self._unacknowledged.append(message)
            self._counters.bytes += message.size
            self._counters.messages += 1
            self._transmit(message)

    def _cut(self, tag: int, size: int) -> Message:
        piece = min(self._left, self._network.message_bytes)
        self._left -= piece
        ends = not self._left
        if ends:
            self._queue.popleft()
            self._left = self._queue[0][1] if self._queue else 0
        self._sent += 1
        return Message(
            src=self._owner.rank,
            is_control=self._is_control,
            sequence=self._sent - 1,
            size=piece,
            tag=tag if ends else None,
            transfer_size=size,
        )

    def _transmit(self, message: Message) -> None:
        left_at = self._network.transmit(self._owner.address, self._target, message)
        self._deadline = left_at + self._network.timeout_ns
        if not self._has_alarm:
            self._has_alarm = True
            self._network.clock.call_at(self._deadline, self._check)

    def _check(self) -> None:
        """The alarm: everything was acknowledged in time, or there is time left, or the oldest is sent again."""
        self._has_alarm = False
        if not self._unacknowledged:
            return
        if self._network.clock.now() < self._deadline:
            self._has_alarm = True
            self._network.clock.call_at(self._deadline, self._check)
        elif self._retries == self._network.retry_limit:
            self._owner.fail(self._peer, f"no answer after {self._retries} retransmissions")
        else:
            self._retries += 1
            self._counters.retransmits = (self._counters.retransmits or 0) + 1
            self._transmit(self._unacknowledged[0])

    def acknowledge(self, expected: int) -> None:
        """The receiver has everything before `expected`."""
        unacknowledged = self._unacknowledged
        while unacknowledged and unacknowledged[0].sequence < expected:
            self._retries = 0
            message = unacknowledged.popleft()
            if message.tag is not None:
                self._owner.acknowledged(self._peer, message.tag)
        self.send_ready()

    def drop(self) -> None:
        """Send nothing more."""
        self._queue.clear()
        self._unacknowledged.clear()


class Receiver:
    """The receiving end of a stream."""

    def __init__(self, owner: MemoryEndpoint, peer: int, source: Address, *, is_control: bool) -> None:
        self._owner, self._peer, self._source, self._is_control = owner, peer, source, is_control
        self._expected = 0
        self._early: dict[int, Message] = {}

    def receive(self, message: Message) -> None:
        """Take a message, release what is now in order, and acknowledge."""
        if message.sequence >= self._expected:
            self._early[message.sequence] = message
        released = []
        while self._expected in self._early:
            released.append(self._early.pop(self._expected))
            self._expected += 1
        self._acknowledge()
        for ready in released:
            if ready.tag is not None:
                self._owner.arrived(self._peer, ready.tag, ready.transfer_size)

    def _acknowledge(self) -> None:
        reply = Message(
            src=self._owner.rank, is_control=self._is_control, sequence=self._expected, is_acknowledgement=True
        )
        self._owner.network.transmit(self._owner.address, self._source, reply)
