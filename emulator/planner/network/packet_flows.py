"""Queue pairs of RoCEv2 for the packet simulation: packets, the window, and requests for acknowledgements."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from emulator.planner.network.header_overhead import roce_packet_bytes
from emulator.planner.network.packet_links import UnknownTime
from emulator.roce.constants import (
    ACK_REQUESTS_PER_TIMEOUT,
    ACKS_PER_WINDOW,
    AETH_BYTES,
    IMMDT_BYTES,
    RETH_BYTES,
)


@dataclass(frozen=True, slots=True)
class Sending:
    """How the transport sends: RoCEv2, one queue pair per pair of ranks, at the rate of the port.

    Attributes:
        path_mtu: payload of a full packet, bytes.
        message_bytes: payload of a message, at most.
        window_packets: unacknowledged packets of a queue pair, at most.
        timeout_ns: time without an acknowledgement after which a queue pair retransmits.
        ipv6: IP headers of 40 bytes instead of 20.
    """

    path_mtu: int
    message_bytes: int
    window_packets: int
    timeout_ns: int
    ipv6: bool = False

    @property
    def packets_per_ack(self) -> int:
        """Packets after which the sender requests, and the receiver sends, an acknowledgement."""
        return max(1, self.window_packets // ACKS_PER_WINDOW)

    @property
    def header_bytes(self) -> int:
        """Bytes on the wire of a packet without payload and extension headers."""
        return roce_packet_bytes(0, ipv6=self.ipv6)

    @property
    def ack_bytes(self) -> int:
        """Bytes on the wire of an acknowledgement."""
        return self.header_bytes + AETH_BYTES

    @property
    def clear_to_send_bytes(self) -> int:
        """Bytes on the wire of a clear-to-send message."""
        return self.header_bytes + RETH_BYTES + IMMDT_BYTES


@dataclass(slots=True, eq=False, kw_only=True)
class Flow:
    """What one member sends to another. Packets are numbered from 1 and sent in order.

    Attributes:
        sender, receiver: member numbers.
        path, return_path: directed links there and back.
    """

    sender: int
    receiver: int
    path: Sequence[int]
    return_path: Sequence[int]
    sending: Sending
    _posted: int = 0
    _sent: int = 0
    _acknowledged: int = 0
    _acknowledged_ns: float = 0.0
    _requested: int = 0
    _requested_ns: float = 0.0
    _unacknowledged: int = 0  # packets that the receiver has not acknowledged
    _requests: set[int] = field(default_factory=set)  # packets on their way that request an acknowledgement
    _message_ends: set[int] = field(default_factory=set)  # last packets of messages
    _transfer_ends: deque[tuple[int, int]] = field(default_factory=deque)  # last packet of each transfer, and its lane
    _odd_bytes: dict[int, int] = field(default_factory=dict)  # of packets with more or less than a path MTU

    def post(self, lane: int, size_bytes: int) -> None:
        """Queue a transfer, as messages of packets."""
        path_mtu, message_bytes = self.sending.path_mtu, self.sending.message_bytes
        for left in range(size_bytes, 0, -message_bytes):
            message = min(left, message_bytes)
            first, packets = self._posted + 1, -(-message // path_mtu)
            self._posted += packets
            last_bytes = message - (packets - 1) * path_mtu + (IMMDT_BYTES if left == message else 0)
            self._odd_bytes[self._posted] = last_bytes
            self._odd_bytes[first] = self._odd_bytes.get(first, path_mtu) + RETH_BYTES
            self._message_ends.add(self._posted)
        self._transfer_ends.append((self._posted, lane))

    @property
    def has_unsent(self) -> bool:
        """Whether a packet has not been sent yet."""
        return self._sent < self._posted

    @property
    def may_send(self) -> bool:
        """Whether a packet has not been sent yet and the window has room for it."""
        return self.has_unsent and self._sent - self._acknowledged < self.sending.window_packets

    def next_packet(self, now_ns: float) -> tuple[int, int]:
        """(number, bytes on the wire) of the packet that is sent now."""
        if self._sent == self._acknowledged:
            self._acknowledged_ns = now_ns
        self._sent += 1
        number = self._sent
        if self._requests_ack(number, now_ns):
            self._message_ends.discard(number)
            self._requests.add(number)
            self._requested, self._requested_ns = number, now_ns
        return number, self.sending.header_bytes + self._odd_bytes.pop(number, self.sending.path_mtu)

    def receive(self, number: int) -> bool:
        """Take a packet at the receiver; whether an acknowledgement is due."""
        self._unacknowledged += 1
        is_due = self._unacknowledged >= self.sending.packets_per_ack or number in self._requests
        if is_due:
            self._unacknowledged = 0
            self._requests.discard(number)
        return is_due

    def completed_lane(self, number: int) -> int | None:
        """The lane whose transfer this packet completes, if any."""
        if self._transfer_ends and self._transfer_ends[0][0] == number:
            return self._transfer_ends.popleft()[1]
        return None

    def acknowledge(self, number: int, now_ns: float) -> None:
        """Take the acknowledgement of all packets up to this one at the sender.

        Raises:
            UnknownTime: the sender would have timed out.
        """
        if now_ns - self._acknowledged_ns >= self.sending.timeout_ns:
            raise UnknownTime
        self._acknowledged, self._acknowledged_ns = number, now_ns

    def _requests_ack(self, number: int, now_ns: float) -> bool:
        silent_ns = now_ns - max(self._requested_ns, self._acknowledged_ns)
        return (
            silent_ns >= self.sending.timeout_ns / ACK_REQUESTS_PER_TIMEOUT
            or number in self._message_ends
            or number - self._requested >= self.sending.packets_per_ack
        )
