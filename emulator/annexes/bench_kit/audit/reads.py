"""READ requests: how many PSNs each takes, which READ a PSN belongs to, and what its repeats and responses must be.

A READ takes one PSN per packet of its response. The request does not say how many: that depends on the path MTU.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest

from emulator.annexes.bench_kit.audit.flow import CapturedPacket
from emulator.annexes.bench_kit.audit.messages import SentPacket
from emulator.roce.connection.messages import packets_of
from emulator.roce.constants import PATH_MTUS
from emulator.roce.wire.opcodes import PacketOperation
from emulator.roce.wire.psn import distance

_RESPONSES = {
    PacketOperation.READ_REQUEST: PacketOperation.READ_RESPONSE,
    PacketOperation.ATOMIC: PacketOperation.ATOMIC_ACK,
}


def path_mtu_of_reads(requests: Sequence[CapturedPacket]) -> int | None:
    """The path MTU that the PSNs after READ requests show most often; None if several fit, or none."""
    votes: Counter[int] = Counter()
    for packet, following in pairwise(requests):
        fitting = _fitting_mtus(packet, following)
        if len(fitting) == 1:
            votes[fitting[0]] += 1
    return votes.most_common(1)[0][0] if votes else None


def _fitting_mtus(packet: CapturedPacket, following: CapturedPacket) -> list[int]:
    if packet.meaning.operation is not PacketOperation.READ_REQUEST:
        return []
    step = distance(packet.psn, following.psn)
    return [mtu for mtu in PATH_MTUS if packets_of(packet.reth_bytes or 0, mtu) == step]


def psns_taken(requests: Sequence[CapturedPacket], mtu: int | None) -> dict[int, int]:
    """Number of PSNs that each READ request takes, by frame.

    Args:
        requests: of a flow, in the order of the capture.
        mtu: the path MTU; if unknown, the PSN of the next request decides, or else the READ is taken for a short one.
    """
    taken: dict[int, int] = {}
    for packet, following in zip_longest(requests, requests[1:]):
        if packet.meaning.operation is PacketOperation.READ_REQUEST:
            fitting = _fitting_mtus(packet, following) if mtu is None and following is not None else []
            taken[packet.frame] = packets_of(packet.reth_bytes or 0, mtu or max(fitting, default=PATH_MTUS[-1]))
    return taken


@dataclass(frozen=True, slots=True)
class Read:
    """A READ request; `start` and `end` are unwrapped PSNs, `end` is the first after it."""

    start: int
    end: int
    packet: CapturedPacket

    def payload_bytes(self, psn: int, mtu: int) -> int:
        """Payload of the response with a PSN."""
        return min(mtu, (self.packet.reth_bytes or 0) - (psn - self.start) * mtu)

    def address(self, psn: int, mtu: int) -> int:
        """Address of the bytes that the response with a PSN carries."""
        return (self.packet.reth_address or 0) + (psn - self.start) * mtu


@dataclass(slots=True)
class Reads:
    """The READs of a flow, without those that ask again for a part of an earlier one."""

    _reads: list[Read] = field(default_factory=list)  # by their PSNs

    def add(self, read: Read) -> None:
        """Take a READ that no other covers."""
        self._reads.insert(bisect_right(self._reads, read.start, key=lambda one: one.start), read)

    def covering(self, psn: int) -> Read | None:
        """The READ that takes a PSN; None if no READ does."""
        at = bisect_right(self._reads, psn, key=lambda one: one.start)
        return self._reads[at - 1] if at and psn < self._reads[at - 1].end else None


def repeat_problem(packet: CapturedPacket, psn: int, psns: int, *, read: Read, mtu: int | None) -> str | None:
    """What is wrong with a request that takes PSNs of an earlier READ: it must ask for the rest of it, or for a part.

    Args:
        packet: the request; `psn` is its unwrapped PSN, and `psns` the number of PSNs it takes.
        read: the earlier READ.
        mtu: the path MTU; None if unknown.
    """
    if packet.meaning.operation is not PacketOperation.READ_REQUEST:
        return f"PSN {packet.psn:#x} belongs to the READ in frame {read.packet.frame}"
    if psn + psns > read.end:
        return f"it takes {psns} PSNs, {read.end - psn} are left of the READ in frame {read.packet.frame}"
    if mtu is None:
        return None
    expected = read.address(psn, mtu)
    if packet.reth_address != expected:
        return f"it reads from {packet.reth_address or 0:#x}, but PSN {packet.psn:#x} is that of {expected:#x}"
    return None


def response_problem(packet: CapturedPacket, psn: int, *, request: Read | SentPacket, mtu: int | None) -> str | None:
    """What is wrong with the response of a READ or an atomic operation, given the request with its PSN."""
    operation = request.packet.meaning.operation
    needed = _RESPONSES.get(operation)
    if packet.meaning.operation is not needed:
        name = packet.meaning.operation.value
        return f"{name} to PSN {packet.psn:#x}, the {operation.value} in frame {request.packet.frame}"
    if mtu is None or not isinstance(request, Read) or not packet.meaning.place.ends:
        return None
    expected = request.payload_bytes(psn, mtu)
    if packet.payload_bytes != expected:
        return f"it has {packet.payload_bytes} bytes, PSN {packet.psn:#x} of the READ has {expected}"
    return None
