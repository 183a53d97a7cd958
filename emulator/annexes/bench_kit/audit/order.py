"""Reordering: packets that arrive after newer ones, although their sender did not go back.

A packet is reordered if it arrives after one with a newer PSN (RFC 4737, section 3). In a capture, the retransmission
of a packet that was lost before looks alike. What tells them apart:

- A retransmission was asked for: by a NAK of this PSN or an older one, or by a repeated READ.
- Go-back-N also repeats the packets after it, so what follows is in the capture already. After a reordered packet, the
  sender continues with new PSNs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from emulator.annexes.bench_kit.audit.flow import CapturedPacket
from emulator.annexes.bench_kit.audit.messages import Read, Reads
from emulator.roce.wire.opcodes import PacketOperation
from emulator.roce.wire.psn import PSN_SPACE, distance, unwrapped


@dataclass(frozen=True, slots=True)
class Reordered:
    """A reordered packet.

    Attributes:
        before: the first packet with a newer PSN, which arrived earlier.
        extent: how many packets late it is: those that arrived from `before` on (reordering extent, RFC 4737,
            section 4.2.1).
    """

    packet: CapturedPacket
    before: CapturedPacket
    extent: int

    @property
    def breaks_order_of_path(self) -> bool:
        """Whether both packets have the same UDP source port: switches then have no reason to separate them."""
        return self.packet.source_port == self.before.source_port


def reordered_requests(
    requests: Sequence[CapturedPacket], responses: Sequence[CapturedPacket], spans: Mapping[int, int]
) -> list[Reordered]:
    """The reordered requests of a flow.

    Args:
        requests, responses: of the flow, in the order of the capture.
        spans: number of PSNs that each READ takes, by frame.
    """
    naks = [one for one in responses if one.syndrome is not None and one.syndrome >> 5]
    return list(_Finder(naks).find(requests, spans))


def reordered_read_responses(
    requests: Sequence[CapturedPacket], responses: Sequence[CapturedPacket]
) -> list[Reordered]:
    """The reordered READ responses to a flow."""
    reads = [one for one in requests if one.meaning.operation is PacketOperation.READ_REQUEST]
    return list(
        _Finder(reads).find([one for one in responses if one.meaning.operation is PacketOperation.READ_RESPONSE], {})
    )


class _Finder:
    """Finds reordered packets; `asking`: packets that ask for their PSN and what follows, again if it was sent."""

    def __init__(self, asking: Sequence[CapturedPacket]) -> None:
        self._asking = asking
        self._newest: list[int] = []  # PSNs newer than all before, their packets and places
        self._packets: list[CapturedPacket] = []
        self._places: list[int] = []
        self._seen: set[int] = set()
        self._reads = Reads()

    def find(self, packets: Sequence[CapturedPacket], spans: Mapping[int, int]) -> Iterator[Reordered]:
        first = packets[0].psn + PSN_SPACE if packets else PSN_SPACE
        highest = first - 1
        pending: list[Reordered] = []
        goes_back = False
        for place, packet in enumerate(packets):
            psn = unwrapped(packet.psn, highest)
            if psn > highest:
                yield from pending
                pending, goes_back = [], False
                self._newest.append(psn)
                self._packets.append(packet)
                self._places.append(place)
            elif psn < first or psn in self._seen or self._reads.covering(psn) is not None:
                pending, goes_back = [], True
            elif not goes_back:
                pending += self._late(packet, psn, place)
            self._seen.add(psn)
            end = psn + spans.get(packet.frame, 1)
            if packet.meaning.operation is PacketOperation.READ_REQUEST:
                self._reads.add(Read(psn, end, packet))
            highest = max(highest, end - 1)
        yield from pending

    def _late(self, packet: CapturedPacket, psn: int, place: int) -> Iterator[Reordered]:
        at = bisect_right(self._newest, psn)
        before = self._packets[at]
        since = bisect_right(self._asking, before.frame, key=lambda one: one.frame)
        until = bisect_right(self._asking, packet.frame, key=lambda one: one.frame)
        if not any(distance(one.psn, packet.psn) >= 0 for one in self._asking[since:until]):
            yield Reordered(packet, before, place - self._places[at])
