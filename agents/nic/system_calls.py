"""sendmmsg(2) and recvmmsg(2), which Python lacks, and the C structures they take, as numpy types."""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np

UDP_SEGMENT, UDP_GRO = 103, 104  # linux/udp.h
IPV6_RECVTCLASS, IPV6_TCLASS = 66, 67  # linux/in6.h
SO_TIMESTAMPNS, SO_TIMESTAMPING, SO_RXQ_OVFL = 35, 37, 40  # asm-generic/socket.h

SocketAddress: TypeAlias = tuple[str, int] | tuple[str, int, int, int]
"""An address as Python's sockets return it: host and port, for IPv6 also flow label and scope."""
ControlMessages: TypeAlias = Sequence[tuple[int, int, bytes]]

V4_NAME_BYTES, V6_NAME_BYTES = 16, 28
CONTROL_HEADER = struct.Struct("@Nii")
"""struct cmsghdr: length, level, type."""

PIECE = np.dtype([("base", np.uintp), ("length", np.uintp)], align=True)
"""struct iovec."""
_HEADER = np.dtype(
    [
        ("name", np.uintp), ("name_length", "u4"), ("pieces", np.uintp), ("piece_count", np.uintp),
        ("control", np.uintp), ("control_length", np.uintp), ("flags", "i4"),
    ],
    align=True,
)  # fmt: skip
MESSAGE = np.dtype([("header", _HEADER), ("bytes", "u4")], align=True)
"""struct mmsghdr: a struct msghdr, and the bytes received."""

_libc = ctypes.CDLL(None)
sendmmsg = _libc.sendmmsg
sendmmsg.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int)
sendmmsg.restype = ctypes.c_int
recvmmsg = _libc.recvmmsg
recvmmsg.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, ctypes.c_void_p)
recvmmsg.restype = ctypes.c_int


def address_of(buffer: memoryview | bytearray) -> int:
    """The address of a buffer, which must not move in memory."""
    return np.frombuffer(buffer, np.uint8).ctypes.data


def name_bytes(*, is_v6: bool) -> int:
    """Size of a struct sockaddr_in or sockaddr_in6, bytes."""
    return V6_NAME_BYTES if is_v6 else V4_NAME_BYTES


def socket_address(host: str, port: int, flow: int = 0, scope: int = 0) -> bytes:
    """A struct sockaddr_in or sockaddr_in6."""
    if ":" in host:
        head = struct.pack("=H", socket.AF_INET6) + struct.pack(">HI", port, flow)
        return head + socket.inet_pton(socket.AF_INET6, host) + struct.pack("=I", scope)
    return struct.pack("=H", socket.AF_INET) + struct.pack(">H", port) + socket.inet_aton(host) + bytes(8)


@lru_cache(maxsize=64)
def cut_message(stride: int) -> ControlMessages:
    """The control message that makes the kernel cut a call into datagrams of `stride` bytes."""
    return ((socket.IPPROTO_UDP, UDP_SEGMENT, struct.pack("=H", stride)),)


def control_bytes(control: ControlMessages) -> bytes:
    """Control messages as C structures."""
    written = b""
    for level, kind, data in control:
        message = CONTROL_HEADER.pack(socket.CMSG_LEN(len(data)), level, kind) + data
        written += message.ljust(socket.CMSG_SPACE(len(data)), b"\0")
    return written
