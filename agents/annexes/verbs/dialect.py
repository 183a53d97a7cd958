"""Transfers as RDMA WRITEs with immediate data into a ring, as any RDMA NIC can send and receive them.

A receiver grants each peer a ring of slots. A transfer is cut into messages of at most a slot; message m goes to slot m
modulo their number. Immediate data says what a message is, in its upper 3 bits; the lower 29 belong to it:

    PART       a piece of a transfer
    END        its last piece; the lowest bits of the tag
    CONTROL    a transfer of 0 bytes; the lowest bits of the tag
    CREDIT     of 0 bytes: so many slots of the sender's ring are free again
    *_MIDDLE   of 0 bytes: the next 18 bits of the tags that follow, of END or of CONTROL, until they change
    *_UPPER    of 0 bytes: the other 17 bits

Only messages with payload take a slot. A connection keeps their order, so neither end numbers them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from emulator.roce.connection.messages import Message, Verb

LOWEST_BITS, MIDDLE_BITS, UPPER_BITS = 29, 18, 17
_LOWEST_MASK, _MIDDLE_MASK = (1 << LOWEST_BITS) - 1, (1 << MIDDLE_BITS) - 1
MOST_IN_FLIGHT = 256
"""Messages of a connection that are not acknowledged; a queue of work requests must hold as many."""
_WRITE_IMM = Verb.WRITE_IMM


class MessageKind(IntEnum):
    """What a message is."""

    PART = 0
    END = 1
    CONTROL = 2
    CREDIT = 3
    END_MIDDLE = 4
    END_UPPER = 5
    CONTROL_MIDDLE = 6
    CONTROL_UPPER = 7


def _imm(kind: MessageKind, value: int = 0) -> int:
    return kind << LOWEST_BITS | value


@dataclass(frozen=True, slots=True)
class Arrived:
    """A transfer that is complete at the receiver."""

    tag: int
    size: int


@dataclass(slots=True)
class _Tags:
    """The bits of tags that do not travel with every message, as one end has last sent or received them."""

    middle: int = 0
    upper: int = 0


@dataclass(slots=True, eq=False, kw_only=True)
class VerbsOutgoing:
    """The sending side of a connection.

    Attributes:
        slots, slot_bytes: of the ring at the peer.
        address, rkey: of the ring.
        bytes, messages: posted so far: payload, and messages with payload or control.
        acknowledged_bytes: payload that has arrived.
    """

    slots: int
    slot_bytes: int
    address: int
    rkey: int
    bytes: int = 0
    messages: int = 0
    acknowledged_bytes: int = 0
    _free: int = field(init=False)
    _acknowledged: int = 0  # of `messages`
    _slot: int = 0
    _left: int = 0  # bytes of the first transfer that are not yet in messages
    _transfers: deque[tuple[int, int]] = field(default_factory=deque)  # tag, size
    _controls: deque[int] = field(default_factory=deque)
    _in_flight: deque[tuple[int, int | None]] = field(default_factory=deque)  # payload, tag if it ends a transfer
    _end_tags: _Tags = field(default_factory=_Tags)
    _control_tags: _Tags = field(default_factory=_Tags)

    def __post_init__(self) -> None:
        self._free = self.slots

    @property
    def is_idle(self) -> bool:
        """Whether no transfer is queued or in flight."""
        return not (self._transfers or self._controls or self._acknowledged < self.messages)

    @property
    def is_waiting(self) -> bool:
        """Whether messages are in flight."""
        return bool(self._in_flight)

    def grant(self, slots: int, slot_bytes: int, address: int, rkey: int) -> None:
        """Set the ring at the peer, once it is known."""
        self.slots = self._free = slots
        self.slot_bytes, self.address, self.rkey = slot_bytes, address, rkey

    def post(self, tag: int, size: int) -> None:
        """Queue a transfer."""
        if not size:
            self._controls.append(tag)
            return
        if not self._transfers:
            self._left = size
        self._transfers.append((tag, size))

    def credit(self, slots: int) -> None:
        """Account for slots that are free again."""
        self._free += slots

    @property
    def is_consistent(self) -> bool:
        """Whether the peer has freed no more slots than were filled."""
        return self._free <= self.slots

    def returned(self, slots: int) -> Message:
        """The message that returns slots of this end's ring; it does not wait for anything."""
        self._in_flight.append((0, None))
        return self._zero(MessageKind.CREDIT, slots)

    def next_messages(self) -> Iterator[Message]:
        """The messages that may leave now, control first."""
        while self._controls and len(self._in_flight) < MOST_IN_FLIGHT - 2:
            tag = self._controls.popleft()
            yield from self._tag(tag, self._control_tags, MessageKind.CONTROL_MIDDLE, MessageKind.CONTROL_UPPER)
            self._in_flight.append((0, tag))
            self.messages += 1
            yield self._zero(MessageKind.CONTROL, tag & _LOWEST_MASK)
        while self._transfers and self._free and len(self._in_flight) < MOST_IN_FLIGHT - 2:
            yield from self._piece()

    def _piece(self) -> Iterator[Message]:
        tag = self._transfers[0][0]
        size = min(self._left, self.slot_bytes)
        self._left -= size
        is_last = not self._left
        if is_last:
            yield from self._tag(tag, self._end_tags, MessageKind.END_MIDDLE, MessageKind.END_UPPER)
            self._transfers.popleft()
            self._left = self._transfers[0][1] if self._transfers else 0
        imm = _imm(MessageKind.END, tag & _LOWEST_MASK) if is_last else _imm(MessageKind.PART)
        address = self.address + self._slot * self.slot_bytes
        self._slot = (self._slot + 1) % self.slots
        self._free -= 1
        self._in_flight.append((size, tag if is_last else None))
        self.bytes += size
        self.messages += 1
        yield Message(_WRITE_IMM, size, address, imm, self.rkey)

    def _tag(self, tag: int, known: _Tags, middle_kind: MessageKind, upper_kind: MessageKind) -> Iterator[Message]:
        middle, upper = tag >> LOWEST_BITS & _MIDDLE_MASK, tag >> LOWEST_BITS + MIDDLE_BITS
        if middle != known.middle:
            known.middle = middle
            self._in_flight.append((0, None))
            yield self._zero(middle_kind, middle)
        if upper != known.upper:
            known.upper = upper
            self._in_flight.append((0, None))
            yield self._zero(upper_kind, upper)

    def _zero(self, kind: MessageKind, value: int) -> Message:
        return Message(_WRITE_IMM, 0, self.address, _imm(kind, value), self.rkey)

    def acknowledged(self, count: int) -> Sequence[int]:
        """Account for the next `count` messages, which the peer has; returns the tags of complete transfers."""
        tags = []
        for _ in range(count):
            size, tag = self._in_flight.popleft()
            self.acknowledged_bytes += size
            self._acknowledged += bool(size) or tag is not None
            if tag is not None:
                tags.append(tag)
        return tags


@dataclass(slots=True, eq=False, kw_only=True)
class VerbsIncoming:
    """The receiving side of a connection.

    Attributes:
        slots: of the ring at this end.
        credit: slots that the peer has freed in its own ring since this was last set to 0.
        problem: what the peer did wrong; "" if nothing.
    """

    slots: int
    credit: int = 0
    problem: str = ""
    _size: int = 0
    _read: int = 0  # slots that are free and not yet returned
    _end_tags: _Tags = field(default_factory=_Tags)
    _control_tags: _Tags = field(default_factory=_Tags)

    def received(self, imm: int, size: int) -> Arrived | None:
        """Account for a message; returns the transfer that it completes."""
        kind, value = MessageKind(imm >> LOWEST_BITS), imm & _LOWEST_MASK
        if (kind is MessageKind.PART or kind is MessageKind.END) is not (size > 0):
            self.problem = f"it sent a message of kind {kind.name} with {size} bytes: is it a different version?"
            return None
        if kind is MessageKind.PART or kind is MessageKind.END:
            self._size += size
            self._read += 1
            if self._read > self.slots:
                self.problem = f"it wrote to a ring of {self.slots} slots without waiting for a free one"
            if kind is MessageKind.PART:
                return None
            size, self._size = self._size, 0
            return Arrived(_whole(value, self._end_tags), size)
        if kind is MessageKind.CONTROL:
            return Arrived(_whole(value, self._control_tags), 0)
        if kind is MessageKind.CREDIT:
            self.credit += value
            return None
        tags = self._end_tags if kind in (MessageKind.END_MIDDLE, MessageKind.END_UPPER) else self._control_tags
        if kind in (MessageKind.END_MIDDLE, MessageKind.CONTROL_MIDDLE):
            tags.middle = value
        else:
            tags.upper = value
        return None

    def take_read(self) -> int:
        """Slots to return now: none before half of the ring has been read."""
        if self._read < (self.slots + 1) // 2:
            return 0
        read, self._read = self._read, 0
        return read


def _whole(lowest: int, tags: _Tags) -> int:
    return tags.upper << LOWEST_BITS + MIDDLE_BITS | tags.middle << LOWEST_BITS | lowest
