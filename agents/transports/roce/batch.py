"""Several calls that the kernel cuts into datagrams, in one system call: sendmmsg(2), which Python lacks."""

from __future__ import annotations

import ctypes
import socket
import struct

UDP_SEGMENT = 103  # linux/udp.h


class _Piece(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _Header(ctypes.Structure):  # struct msghdr, recvmsg(2)
    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint32),
        ("pieces", ctypes.POINTER(_Piece)),
        ("piece_count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )


class _Message(ctypes.Structure):  # struct mmsghdr, recvmmsg(2)
    _fields_ = (("header", _Header), ("sent", ctypes.c_uint32))


_sendmmsg = ctypes.CDLL(None).sendmmsg
_sendmmsg.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int)
_sendmmsg.restype = ctypes.c_int


class Batch:
    """Calls to one address.

    Args:
        host, port: the address, numeric.
        stride: bytes of a datagram; the last one of a call may be shorter.
        call_bytes: of a call; of the last one perhaps fewer.
        most: calls at a time.
    """

    def __init__(self, host: str, port: int, *, stride: int, call_bytes: int, most: int) -> None:
        self._call_bytes, self._most = call_bytes, most
        self._name = ctypes.create_string_buffer(_socket_address(host, port))
        length = struct.calcsize("=Q" if ctypes.sizeof(ctypes.c_size_t) == 8 else "=I") + 8 + 2
        control = struct.pack("@NiiH", length, socket.IPPROTO_UDP, UDP_SEGMENT, stride)
        self._control = ctypes.create_string_buffer(control, socket.CMSG_SPACE(2))
        self._pieces = (_Piece * most)()
        self._messages = (_Message * most)()
        for piece, message in zip(self._pieces, self._messages, strict=True):
            piece.length, header = call_bytes, message.header
            header.name, header.name_length = ctypes.addressof(self._name), len(self._name) - 1
            header.pieces, header.piece_count = ctypes.pointer(piece), 1
            header.control, header.control_length = ctypes.addressof(self._control), len(self._control)
        self._start = ctypes.addressof(self._messages)
        self._address = -1

    def send(self, fd: int, view: memoryview) -> int:
        """Hand over what a writable view shows, at most what `most` calls carry.

        Returns:
            How many calls the kernel took. Where it took fewer, the next one has a problem: sent alone, it says which.
        """
        address = ctypes.addressof(ctypes.c_char.from_buffer(view))
        if address != self._address:
            for index, piece in enumerate(self._pieces):
                piece.base = address + index * self._call_bytes
            self._address = address
        calls = min(self._most, -(-len(view) // self._call_bytes))
        last = self._pieces[calls - 1]
        last.length = min(self._call_bytes, len(view) - (calls - 1) * self._call_bytes)
        taken = int(_sendmmsg(fd, self._start, calls, 0))
        last.length = self._call_bytes
        return max(0, taken)


def _socket_address(host: str, port: int) -> bytes:
    """A struct sockaddr_in or sockaddr_in6."""
    if ":" in host:
        head = struct.pack("=H", socket.AF_INET6) + struct.pack(">HI", port, 0)
        return head + socket.inet_pton(socket.AF_INET6, host) + bytes(4)
    return struct.pack("=H", socket.AF_INET) + struct.pack(">H", port) + socket.inet_aton(host) + bytes(8)
