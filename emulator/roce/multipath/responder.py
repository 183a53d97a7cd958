"""The responder of the multipath profile: takes packets in any order, and says which ones are here.

Every packet says where its payload belongs, so it is placed as it comes; messages are delivered in order.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from emulator.roce.connection.messages import Delivered, Reply
from emulator.roce.connection.responder import Responder
from emulator.roce.multipath.wire import MOST_AHEAD, MOST_REPORTS, Placed, Reason, Report, SelectiveAck
from emulator.roce.wire.headers import NO_CREDIT_LIMIT, Syndrome
from emulator.roce.wire.opcodes import PacketOperation
from emulator.roce.wire.psn import Psn, add, distance, wrap

PACKETS_PER_ACK = 64
"""Packets after which an acknowledgement does not wait for an idle moment: windows of paths are small."""
_ADDRESSES = 1 << 64


@dataclass(slots=True, eq=False)
class MultipathResponder(Responder):
    """The receiving end.

    Attributes:
        trimmed: packets that came without their payload.
    """

    trimmed: int = 0
    _held: dict[int, Placed] = field(default_factory=dict)  # what is here before its turn, by packet number
    _count: int = 0  # packets taken in order
    _is_in_message: bool = False
    _reports: list[Report] = field(default_factory=list)
    _latest: list[Psn] = field(default_factory=list)  # packets of the last reception
    _is_hasty: bool = False  # something is to be sent again at once

    @property
    def is_urgent(self) -> bool:
        """Whether the requester waits for what is owed: it always does."""
        return self._ack_owed

    @property
    def is_reply_due(self) -> bool:
        """Whether the reply that is owed has to go at once."""
        return self._is_hasty or self.unacknowledged >= PACKETS_PER_ACK

    @property
    def owes_reply(self) -> bool:
        """Whether `take_reply` has something now."""
        return self._ack_owed

    def begin(self) -> None:
        """A reception begins."""
        self._latest.clear()

    def place(self, packet: Placed) -> None:
        """Take a packet; what is complete goes to `delivered`."""
        ahead = distance(self.expected, packet.psn)
        if self.is_broken or abs(ahead) > 2 * MOST_AHEAD:
            self.refused_packets += 1
            return
        self._ack_owed = True
        self._latest.append(packet.psn)
        self.unacknowledged += 1
        number = self._count + ahead
        if ahead < 0 or number in self._held:
            self.duplicates += 1
            self._report(Reason.DUPLICATE, packet.psn)
        elif ahead:
            self.early_packets += 1
            self.largest_displacement = max(self.largest_displacement, ahead)
            self._held[number] = packet
        else:
            self._take_placed(packet)
            while self._held and not self.is_broken and (held := self._held.pop(self._count, None)) is not None:
                self._take_placed(held)

    def cut_short(self, psn: Psn) -> None:
        """A packet came whose payload a switch has cut off."""
        self.trimmed += 1
        ahead = distance(self.expected, psn)
        if 0 <= ahead <= MOST_AHEAD and self._count + ahead not in self._held:
            self._report(Reason.TRIMMED, psn)
            self._ack_owed = self._is_hasty = True

    def report_marks(self) -> None:
        """The packets of the last reception came with the congestion mark."""
        for psn in self._latest:
            self._report(Reason.MARKED, psn)

    def _report(self, reason: Reason, psn: Psn) -> None:
        if len(self._reports) < MOST_REPORTS:
            self._reports.append(Report(reason, psn))
        elif reason is not Reason.MARKED:  # marks are many, and one slows a path down
            self._reports = [one for one in self._reports if one.reason != Reason.MARKED][-MOST_REPORTS + 1 :]
            self._reports.append(Report(reason, psn))

    def take_reply(self) -> Reply | None:
        """The acknowledgement that is owed, if any."""
        if not self._ack_owed:
            return None
        syndrome = NO_CREDIT_LIMIT if self.broken_by is None else int(self.broken_by)
        ack = SelectiveAck(add(self.expected, -1), syndrome, wrap(self._msn), self._bitmap(), self._reports)
        self._reports, self._ack_owed, self._is_hasty, self.unacknowledged = [], False, False, 0
        return ack

    def _bitmap(self) -> bytes:
        if not self._held:
            return b""
        ahead = np.fromiter(self._held, np.int64, len(self._held)) - self._count
        ahead = ahead[ahead < MOST_AHEAD]
        bits = np.zeros(int(ahead.max(initial=0)) + 1, np.uint8)
        bits[ahead] = 1
        return np.packbits(bits, bitorder="little").tobytes()

    def _take_placed(self, packet: Placed) -> None:
        """Take the packet that is next in order."""
        if not self._is_in_message:
            self._is_in_message, self._address, self._received = True, packet.address, 0
        if packet.address != (self._address + self._received) % _ADDRESSES:
            self._break(Syndrome.INVALID_REQUEST)
            return
        self._count += 1
        self.expected = add(self.expected, 1)
        self._received += packet.size
        self.taken_bytes += packet.size
        if packet.ends_message:
            self._is_in_message = False
            self._msn += 1
            self.delivered.append(Delivered(PacketOperation.WRITE, self._address, self._received, packet.imm))
