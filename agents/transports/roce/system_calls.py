"""sendmmsg(2) and recvmmsg(2), which Python lacks, and what they take."""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

UDP_SEGMENT, UDP_GRO = 103, 104  # linux/udp.h
IPV6_RECVTCLASS, IPV6_TCLASS = 66, 67  # linux/in6.h
SO_RXQ_OVFL = 40  # asm-generic/socket.h

SocketAddress: TypeAlias = tuple[str, int] | tuple[str, int, int, int]
"""As Python's sockets give it: host and port, with IPv6 flow label and scope."""
ControlMessages: TypeAlias = Sequence[tuple[int, int, bytes]]

V4_NAME_BYTES, V6_NAME_BYTES = 16, 28
CONTROL_HEADER = struct.Struct("@Nii")
"""struct cmsghdr: length, level, type."""


class Piece(ctypes.Structure):
    """struct iovec."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class Header(ctypes.Structure):
    """struct msghdr, recvmsg(2)."""

    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint32),
        ("pieces", ctypes.POINTER(Piece)),
        ("piece_count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )


class Message(ctypes.Structure):
    """struct mmsghdr, recvmmsg(2)."""

    _fields_ = (("header", Header), ("bytes", ctypes.c_uint32))


MESSAGE_BYTES = ctypes.sizeof(Message)

_libc = ctypes.CDLL(None)
sendmmsg = _libc.sendmmsg
sendmmsg.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int)
sendmmsg.restype = ctypes.c_int
recvmmsg = _libc.recvmmsg
recvmmsg.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, ctypes.c_void_p)
recvmmsg.restype = ctypes.c_int


def address_of(buffer: memoryview | bytearray) -> int:
    """Where a buffer begins; it must not move."""
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


def name_bytes(*, is_v6: bool) -> int:
    """Bytes of a struct sockaddr_in or sockaddr_in6."""
    return V6_NAME_BYTES if is_v6 else V4_NAME_BYTES


def socket_address(host: str, port: int, flow: int = 0, scope: int = 0) -> bytes:
    """A struct sockaddr_in or sockaddr_in6."""
    if ":" in host:
        head = struct.pack("=H", socket.AF_INET6) + struct.pack(">HI", port, flow)
        return head + socket.inet_pton(socket.AF_INET6, host) + struct.pack("=I", scope)
    return struct.pack("=H", socket.AF_INET) + struct.pack(">H", port) + socket.inet_aton(host) + bytes(8)


@lru_cache(maxsize=64)
def cut_message(stride: int) -> ControlMessages:
    """The control message that lets the kernel cut a call into datagrams of `stride` bytes."""
    return ((socket.IPPROTO_UDP, UDP_SEGMENT, struct.pack("=H", stride)),)


def control_bytes(control: ControlMessages) -> bytes:
    """Control messages as they stand in memory."""
    written = b""
    for level, kind, data in control:
        message = CONTROL_HEADER.pack(socket.CMSG_LEN(len(data)), level, kind) + data
        written += message.ljust(socket.CMSG_SPACE(len(data)), b"\0")
    return written
