"""sendmmsg(2) and recvmmsg(2), which Python lacks, and the C structures they take, as numpy types."""

from __future__ import annotations

import ctypes
import struct
from typing import Final

import numpy as np

CONTROL_HEADER: Final = struct.Struct("@Nii")
"""struct cmsghdr: length, level, type."""

PIECE: Final = np.dtype([("base", np.uintp), ("length", np.uintp)], align=True)
"""struct iovec."""
_HEADER: Final = np.dtype(
    [
        ("name", np.uintp), ("name_length", "u4"), ("pieces", np.uintp), ("piece_count", np.uintp),
        ("control", np.uintp), ("control_length", np.uintp), ("flags", "i4"),
    ],
    align=True,
)  # fmt: skip
MESSAGE: Final = np.dtype([("header", _HEADER), ("bytes", "u4")], align=True)
"""struct mmsghdr: a struct msghdr, and the bytes received."""

_libc = ctypes.CDLL(None)
sendmmsg = _libc.sendmmsg
sendmmsg.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int)
sendmmsg.restype = ctypes.c_int
recvmmsg = _libc.recvmmsg
recvmmsg.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, ctypes.c_void_p)
recvmmsg.restype = ctypes.c_int
