"""The C structures that sendmmsg and recvmmsg take, against those of ctypes."""

import ctypes

from emulator.host.batches import MESSAGE, PIECE


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
