"""Whether what comes for a queue pair is what was sent: ICRC and payload, as often as was promised."""

from __future__ import annotations

from agents.transports.roce.ends import Ends, packed
from agents.transports.roce.shared import Shared
from emulator.roce.icrc import UdpPath
from emulator.roce.opcodes import Opcode
from emulator.roce.runs import ICRC, Framing
from emulator.roce.single import ACK_BYTES, WRITE, SinglePackets

KNOWN_PORTS = 64
"""Source ports of a peer that are remembered."""

_STARTING = (Opcode.RC_WRITE_ONLY_IMM, Opcode.RC_WRITE_ONLY, Opcode.RC_WRITE_FIRST)


class Verification:
    """Looks at the bytes of one queue pair's packets in the buffer that all share."""

    __slots__ = ("_ends", "_paths", "_shared", "_suspected", "unwatched")

    def __init__(self, shared: Shared, ends: Ends) -> None:
        self._shared, self._ends = shared, ends
        self._paths: dict[int, tuple[Framing, SinglePackets]] = {}
        self.unwatched = shared.options.verify_every - 1
        """So many looks at constant payload may be spared before one is a sample."""
        self._suspected = 0  # so many looks at payload must be in full: a run is wrong, and it is not known where

    def is_single_write(
        self, datagram_bytes: int, port: int, size: int, flags: int, start: int = 0, place: int = 0
    ) -> bool:
        """Whether this is an intact WRITE of one packet, FECN and BECN 0, that need not be looked at in full.

        Args:
            datagram_bytes: BTH … ICRC.
            size: payload, as its RETH says.
            flags: its second byte.
            start: where it is in the buffer.
            place: in its train.
        """
        shared = self._shared
        if size:
            if not shared.payload.is_constant or not self.unwatched:
                return False
            self.unwatched -= 1
        (icrc,) = ICRC.unpack_from(shared.buffer, start + datagram_bytes - 4)
        head = shared.buffer[start : start + WRITE.size] if start else shared.write_head
        singles = (self._paths.get(port) or self._meet(port))[1]
        return singles.is_write(head, size, datagram_bytes, flags, icrc, place)

    def is_train(self, stride: int, count: int, port: int, *, size: int, flags: int) -> bool:
        """Whether the buffer begins with a train of `count` intact WRITEs, FECN and BECN 0.

        Payload is compared where this is a sample: a train counts for one.

        Args:
            stride: BTH … ICRC of each, bytes.
            size, flags: of the first, as for `is_single_write`.
        """
        shared = self._shared
        if not shared.payload.is_constant or self._suspected:
            return False
        (icrc,) = ICRC.unpack_from(shared.buffer, stride - 4)
        singles = (self._paths.get(port) or self._meet(port))[1]
        if not singles.is_write(shared.write_head, size, stride, flags, icrc):
            return False
        if not singles.is_train(*shared.inspection.train(stride, count), stride):
            return False
        if not size or not self._is_sample():
            return True
        payload = shared.inspection.rows(stride, count)[:, WRITE.size : WRITE.size + size]
        if (payload == shared.payload.rows[0, :size]).all() and self.is_intact_in_full(stride, port):
            return True
        self._suspect(count)
        return False

    def is_edge(self, datagram_bytes: int, port: int, *, header: int, packet: int, size: int) -> bool:
        """Whether this is an intact FIRST or LAST packet, FECN and BECN 0, that need not be looked at in full.

        Args:
            datagram_bytes: BTH … ICRC.
            header: of them, BTH and extension headers.
            packet: packets of its message before it.
            size: payload, bytes.
        """
        shared = self._shared
        if not shared.payload.is_constant or not self.unwatched:
            return False
        self.unwatched -= 1
        (icrc,) = ICRC.unpack_from(shared.buffer, datagram_bytes - 4)
        slot = shared.payload.slot(packet)
        return self._framing(port).is_edge(shared.buffer[:header], slot=slot, size=size, icrc=icrc)

    def is_ack(self, port: int) -> bool:
        """Whether this is an intact ACK, FECN and BECN 0."""
        (icrc,) = ICRC.unpack_from(self._shared.buffer, ACK_BYTES - 4)
        return (self._paths.get(port) or self._meet(port))[1].is_ack(self._shared.ack_head, icrc=icrc)

    def is_intact_in_full(self, datagram_bytes: int, port: int) -> bool:
        """Whether the first packet's ICRC is right, whatever its payload."""
        return self._framing(port).is_intact_in_full(self._shared.buffer[:datagram_bytes])

    def problem(
        self, size: int, port: int, *, header: int, length: int, opcode: int, packet: int | None, is_wanted: bool
    ) -> str | None:
        """What is wrong with a lone packet, "icrc" or "payload"; None: nothing is.

        Args:
            size: bytes of the packet.
            header: of them, BTH and extension headers.
            length: of them, payload.
            packet: packets of its message before it; None: it is not of the message under way.
            is_wanted: whether it will be taken if it is right.
        """
        payload, datagram, framing = self._shared.payload, self._shared.buffer[:size], self._framing(port)
        if opcode in _STARTING:
            packet, is_wanted = 0, True
        elif not length or payload.is_constant:
            packet = 0
        is_as_sent = packet is not None and framing.is_as_sent(
            datagram, header_bytes=header, slot=payload.slot(packet), size=length
        )
        if not is_as_sent and not framing.is_intact_in_full(datagram):
            return "icrc"
        if not (length and is_wanted and (self._is_sample() or not (is_as_sent and payload.is_constant))):
            return None
        content = bytes(datagram[header : header + length])
        is_same = payload.has(content) if packet is None else content == payload.take(payload.slot(packet), length)
        return None if is_same else "payload"

    def is_run_right(self, stride: int, count: int, port: int, *, received_bytes: int) -> bool:
        """Whether payload and ICRC of predicted MIDDLE packets are right.

        Random payload is compared always, a constant one where this is a sample; the first ICRC where it is a sample.

        Args:
            received_bytes: of the message before them.
        """
        payload, is_sample = self._shared.payload, self._is_sample()
        if payload.is_constant and not is_sample:
            return True
        first = payload.slot(received_bytes // payload.path_mtu)
        expected = payload.rows[:1] if payload.is_constant else payload.rows[first : first + count]
        if len(expected) < count and not payload.is_constant:
            expected = payload.rows.take(range(first, first + count), axis=0, mode="wrap")
        if (self._shared.inspection.rows(stride, count)[:, 12:-4] != expected).any():
            self._suspect(count)
            return False
        return not is_sample or self.is_intact_in_full(stride, port)

    def _suspect(self, looks: int) -> None:
        self._suspected, self.unwatched = looks, 0

    def _is_sample(self) -> bool:
        if self.unwatched:
            self.unwatched -= 1
            return False
        if self._suspected:
            self._suspected -= 1
        if not self._suspected:
            self.unwatched = self._shared.options.verify_every - 1
        return True

    def _framing(self, port: int) -> Framing:
        return (self._paths.get(port) or self._meet(port))[0]

    def _meet(self, port: int) -> tuple[Framing, SinglePackets]:
        if len(self._paths) >= KNOWN_PORTS:
            self._paths.clear()
        shared, ends = self._shared, self._ends
        path = UdpPath(packed(ends.peer_host), packed(ends.host), port)
        framing = Framing(path, ends.own_qpn, shared.staging)
        known = self._paths[port] = framing, SinglePackets(framing, path_mtu=shared.payload.path_mtu)
        return known
