"""The C structures that sendmmsg and recvmmsg take, against those of ctypes."""

from __future__ import annotations

import ctypes
import socket
import struct

import pytest

from agents.nic.system_calls import (
    CONTROL_HEADER,
    MESSAGE,
    PIECE,
    UDP_SEGMENT,
    V4_NAME_BYTES,
    V6_NAME_BYTES,
    control_bytes,
    cut_message,
    name_bytes,
    socket_address,
)


class Iovec(ctypes.Structure):
    _fields_ = (("iov_base", ctypes.c_void_p), ("iov_len", ctypes.c_size_t))


class Msghdr(ctypes.Structure):
    _fields_ = (
        ("msg_name", ctypes.c_void_p),
        ("msg_namelen", ctypes.c_uint32),
        ("msg_iov", ctypes.c_void_p),
        ("msg_iovlen", ctypes.c_size_t),
        ("msg_control", ctypes.c_void_p),
        ("msg_controllen", ctypes.c_size_t),
        ("msg_flags", ctypes.c_int),
    )


class Mmsghdr(ctypes.Structure):
    _fields_ = (("msg_hdr", Msghdr), ("msg_len", ctypes.c_uint))


def test_structures_have_the_layout_of_the_c_compiler() -> None:
    assert PIECE.itemsize == ctypes.sizeof(Iovec)
    assert [PIECE.fields[name][1] for name in PIECE.names] == [Iovec.iov_base.offset, Iovec.iov_len.offset]  # type: ignore[index,union-attr]
    assert MESSAGE.itemsize == ctypes.sizeof(Mmsghdr)
    header, bytes_at = MESSAGE.fields["header"][0], MESSAGE.fields["bytes"][1]  # type: ignore[index]
    assert bytes_at == Mmsghdr.msg_len.offset
    offsets = [getattr(Msghdr, name).offset for name, *_ in Msghdr._fields_]
    assert [header.fields[name][1] for name in header.names] == offsets


@pytest.mark.parametrize(
    ("address", "size"), [(("192.0.2.1", 4791), V4_NAME_BYTES), (("2001:db8::1", 4791, 5, 2), V6_NAME_BYTES)]
)
def test_an_address_has_its_family_and_port_in_network_order(
    address: tuple[str, int] | tuple[str, int, int, int], size: int
) -> None:
    packed = socket_address(*address)
    is_v6 = ":" in address[0]
    assert len(packed) == size == name_bytes(is_v6=is_v6)
    (family,) = struct.unpack_from("=H", packed)
    assert family == (socket.AF_INET6 if is_v6 else socket.AF_INET)
    assert struct.unpack_from(">H", packed, 2) == (4791,)


def test_control_messages_are_aligned_and_have_their_lengths() -> None:
    written = control_bytes(((socket.IPPROTO_IP, socket.IP_TOS, struct.pack("=i", 3)), *cut_message(1040)))
    first, second = socket.CMSG_SPACE(4), socket.CMSG_SPACE(2)
    assert len(written) == first + second
    assert CONTROL_HEADER.unpack_from(written) == (socket.CMSG_LEN(4), socket.IPPROTO_IP, socket.IP_TOS)
    assert CONTROL_HEADER.unpack_from(written, first) == (socket.CMSG_LEN(2), socket.IPPROTO_UDP, UDP_SEGMENT)
    assert struct.unpack_from("=H", written, first + CONTROL_HEADER.size) == (1040,)
    assert control_bytes(()) == b""
