"""Sees the frames of an address that a switch has cut short, which the kernel drops before any UDP socket.

A switch that trims sets the lengths in the IP and UDP headers as well; Open vSwitch (`max_len`) does not. Of those the
kernel's IP layer wants nothing to do: a packet socket with a filter sees them. It needs CAP_NET_RAW.
"""

from __future__ import annotations

import contextlib
import ctypes
import ipaddress
import socket
import struct
from collections.abc import Callable

from agents.nic.port import PortPacer
from agents.nic.system_calls import SocketAddress
from emulator.roce.constants import UDP_PORT

_SO_ATTACH_FILTER = 26  # asm-generic/socket.h
_ETH_P_IP, _ETH_P_IPV6 = 0x0800, 0x86DD
_UDP = 17
_FRAMES_PER_TURN = 64
_HEADERS_BYTES = 128
_LD_W, _LD_H, _LD_B, _LD_LEN, _ADD, _JEQ, _JGT, _TAX, _RET = 0x20, 0x28, 0x30, 0x80, 0x04, 0x15, 0x2D, 0x07, 0x06
"""Classic BPF: linux/bpf_common.h. `_JGT` compares with the index register."""


class TrimmedFrames:
    """Hands the UDP payload of truncated datagrams to a NIC.

    Args:
        host: the numeric IP address that they were sent to.
        take: called with BTH … as far as it is there, and the sender.

    Raises:
        PermissionError: the process may not open packet sockets.
    """

    def __init__(self, host: str, take: Callable[[memoryview, SocketAddress], None]) -> None:
        self.host, self._take = host, take
        self.port: PortPacer | None = None
        self._is_v6 = ":" in host
        protocol = _ETH_P_IPV6 if self._is_v6 else _ETH_P_IP
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK, socket.htons(protocol))
        program = _v6_filter(host) if self._is_v6 else _v4_filter(host)
        code = ctypes.create_string_buffer(program)
        self._socket.setsockopt(
            socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
        )
        with contextlib.suppress(BlockingIOError):  # what came before the filter
            while True:
                self._socket.recv(1)

    def fileno(self) -> int:
        """The descriptor of the socket."""
        return self._socket.fileno()

    def drain(self) -> None:
        """Hand over what waits in the socket, up to a bound."""
        for _ in range(_FRAMES_PER_TURN):
            try:
                packet, origin = self._socket.recvfrom(_HEADERS_BYTES)
            except OSError:
                return
            if origin[2] != socket.PACKET_OUTGOING:
                self._hand_over(packet)

    def catch_up(self) -> None:
        """See LocalPeer."""
        self.drain()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _hand_over(self, packet: bytes) -> None:
        start = 40 if self._is_v6 else 20
        source = packet[8:24] if self._is_v6 else packet[12:16]
        (port,) = struct.unpack_from(">H", packet, start)
        self._take(memoryview(packet)[start + 8 :], (str(ipaddress.ip_address(source)), port))


def _v4_filter(host: str) -> bytes:
    address = int(ipaddress.IPv4Address(host))
    return _program(tests=[(_LD_B, 9, _UDP), (_LD_H, 22, UDP_PORT), (_LD_W, 16, address)], length_at=2, header_bytes=0)


def _v6_filter(host: str) -> bytes:
    words = struct.unpack(">4I", ipaddress.IPv6Address(host).packed)
    ends = [(_LD_W, 24 + 4 * place, word) for place, word in enumerate(words)]
    return _program(tests=[(_LD_B, 6, _UDP), (_LD_H, 42, UDP_PORT), *ends], length_at=4, header_bytes=40)


def _program(*, tests: list[tuple[int, int, int]], length_at: int, header_bytes: int) -> bytes:
    """Accept datagrams that pass all tests (load, offset, value) and are shorter than their IP header says."""
    lines: list[tuple[int, int, int, int]] = []
    for load, offset, value in tests:
        lines += [(load, 0, 0, offset), (_JEQ, 0, 0, value)]
    lines += [
        (_LD_LEN, 0, 0, 0), (_TAX, 0, 0, 0), (_LD_H, 0, 0, length_at), (_ADD, 0, 0, header_bytes),
        (_JGT, 0, 1, 0), (_RET, 0, 0, 0xFFFF), (_RET, 0, 0, 0),
    ]  # fmt: skip
    drop = len(lines) - 1
    packed = [
        (code, yes, drop - at - 1 if code == _JEQ else no, value) for at, (code, yes, no, value) in enumerate(lines)
    ]
    return b"".join(struct.pack("@HBBI", *line) for line in packed)
