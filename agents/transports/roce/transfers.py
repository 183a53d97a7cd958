"""Transfers of a rank pair over several queue pairs: cut into messages, sent in turn, put back in order.

Message m of the pair goes to queue pair m mod N, so the receiver knows the order across all of them. A transfer is RDMA
WRITEs whose last carries immediate data: the RETH's virtual address is the 64-bit tag, the immediate data the number of
its messages (modulo 2^32), which the receiver checks. Control, a transfer of 0 bytes, is a WRITE without payload on a
queue pair of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from emulator.roce.connection.messages import Delivered, Message, Verb
from emulator.roce.constants import PATH_MTUS
from emulator.roce.tuning import LEAST_SHARE_BYTES, SMALLEST_CHARGE_BYTES

_LARGEST_PATH_MTU = PATH_MTUS[-1]
_WRITE_IMM = Verb.WRITE_IMM


@dataclass(slots=True, eq=False, kw_only=True)
class Outgoing:
    """The sending side of a rank pair.

    Attributes:
        qps: queue pairs that carry payload.
        message_bytes: maximum payload per message.
        room_bytes: unacknowledged payload that a queue pair may hold, enough to keep it busy.
        rkey: memory key of the peer.
    """

    qps: int
    message_bytes: int
    room_bytes: int
    rkey: int = 0
    _transfers: deque[tuple[int, int]] = field(default_factory=deque)  # tag, size
    _left: int = 0  # bytes of the first transfer that are not yet in messages
    _dealt: int = 0  # messages so far
    _done: list[int] = field(init=False)  # messages acknowledged, per queue pair
    _queued: list[int] = field(init=False)  # bytes in the queue pair, not acknowledged
    _unacknowledged: deque[tuple[int, int]] = field(default_factory=deque)  # number of the last message, tag

    def __post_init__(self) -> None:
        self._done, self._queued = [0] * self.qps, [0] * self.qps

    @property
    def has_more(self) -> bool:
        """Whether posted bytes are not yet in messages."""
        return bool(self._transfers)

    def post(self, tag: int, size: int) -> None:
        """Queue a transfer of at least one byte."""
        if not self._transfers:
            self._left = size
        self._transfers.append((tag, size))

    def passes(self, size: int) -> bool:
        """Whether a transfer of one message may bypass the queue, which is empty; if so, accounts for it."""
        if self._transfers:
            return False
        self._queued[0] += size if size > SMALLEST_CHARGE_BYTES else SMALLEST_CHARGE_BYTES
        return True

    def deal(self) -> Iterator[tuple[int, Message]]:
        """The next messages that queue pairs have room for, as (queue pair, message)."""
        while self._transfers:
            qp = self._dealt % self.qps
            if self._queued[qp] >= self.room_bytes:
                return
            message = self._cut()
            self._queued[qp] += max(message.size, SMALLEST_CHARGE_BYTES)
            yield qp, message

    def _cut(self) -> Message:
        tag, size = self._transfers[0]
        most = self._message_size(size)
        piece = min(self._left, most)
        self._left -= piece
        self._dealt += 1
        if self._left:
            return Message(Verb.WRITE, piece, address=tag, rkey=self.rkey)
        self._transfers.popleft()
        self._left = self._transfers[0][1] if self._transfers else 0
        if self.qps > 1:
            self._unacknowledged.append((self._dealt - 1, tag))
        return Message(Verb.WRITE_IMM, piece, address=tag, imm=-(-size // most) & 0xFFFFFFFF, rkey=self.rkey)

    def _message_size(self, transfer_bytes: int) -> int:
        if self.qps == 1:
            return self.message_bytes
        share = -(-transfer_bytes // self.qps)
        return min(self.message_bytes, max(LEAST_SHARE_BYTES, share + -share % _LARGEST_PATH_MTU))

    def acknowledged(self, qp: int, messages: Sequence[Message]) -> Sequence[int]:
        """Account for acknowledged messages of a queue pair; returns the tags of completed transfers, in order."""
        tags = []
        room = 0
        for message in messages:
            size = message.size
            room += size if size > SMALLEST_CHARGE_BYTES else SMALLEST_CHARGE_BYTES
            if message.verb is _WRITE_IMM:
                tags.append(message.address)
        self._queued[qp] -= room
        if self.qps == 1:
            return tags
        self._done[qp] += len(messages)
        reached = min(done * self.qps + index for index, done in enumerate(self._done))
        tags = []
        waiting = self._unacknowledged
        while waiting and waiting[0][0] < reached:
            tags.append(waiting.popleft()[1])
        return tags


@dataclass(slots=True, eq=False, kw_only=True)
class Incoming:
    """The receiving side of a rank pair.

    Attributes:
        is_direct: whether a transfer of one message that arrives now is the next one to deliver.
        is_consistent: False once a message does not fit a transfer.
    """

    qps: int
    is_direct: bool = field(init=False)
    is_consistent: bool = True
    _waiting: Sequence[deque[Delivered]] = field(init=False)
    _next: int = 0
    _messages: int = 0
    _size: int = 0

    def __post_init__(self) -> None:
        self._waiting, self.is_direct = [deque() for _ in range(self.qps)], self.qps == 1

    def received(self, qp: int, delivered: Delivered) -> Iterator[tuple[int, int]]:
        """Account for a received message; yields the transfers that it completes in order, as (tag, size)."""
        self._waiting[qp].append(delivered)
        while self._waiting[self._next]:
            message = self._waiting[self._next].popleft()
            self._next = (self._next + 1) % self.qps
            self._size += message.size
            self._messages += 1
            self.is_direct = False
            if message.imm is not None:
                self.is_consistent &= message.imm == self._messages & 0xFFFFFFFF
                size, self._size, self._messages = self._size, 0, 0
                self.is_direct = self.qps == 1
                yield message.address, size
