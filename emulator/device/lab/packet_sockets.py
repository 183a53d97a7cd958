"""Packet sockets of Open vSwitch: its userspace datapath receives and sends the frames of every port through one.

The kernel drops frames at such a socket when its buffer is full, and counts them there alone: no counter of the
interface, of a queue or of Open vSwitch itself shows them. The default buffer has room for about 90 frames. Open
vSwitch has no setting for it, so the buffers are enlarged from outside, through pidfd_getfd(2).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

from emulator.device.lab.removal import processes_in
from emulator.errors import HostError

SOCKET_DROPS = "socket_drops"
"""Counter: frames that a packet socket dropped because its buffer was full."""

_VSWITCHD = "ovs-vswitchd"
_PIDFD_GETFD = 438  # linux/unistd.h, the same on every architecture
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE, _SO_MEMINFO = 32, 33, 55  # asm-generic/socket.h
_MEMINFO = struct.Struct("=9I")
_DROPS = 8  # SK_MEMINFO_DROPS of linux/sock_diag.h
_LEAST_BUFFER_BYTES = 8 << 20
_TRUE_SIZE = 4
"""What the kernel charges for a frame / its length, at most: a full frame of MTU 1,500 counts as 2,304 bytes."""


def enlarge_buffers(namespace: str, *, queue_bytes: int) -> None:
    """Give every packet socket of a switch room for its port's queue, in both directions.

    Args:
        namespace: of the switch.
        queue_bytes: the longest queue of its ports.

    Raises:
        HostError: the kernel does not allow it. The switch would lose frames that nobody counts.
    """
    size = max(_LEAST_BUFFER_BYTES, _TRUE_SIZE * queue_bytes)
    try:
        for sock in packet_sockets([namespace]).values():
            with sock:
                sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, size)
                sock.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, size)
    except OSError as error:
        raise HostError(
            f"the packet buffers of Open vSwitch cannot be enlarged ({error.strerror}), so it would drop frames: "
            "allow CAP_SYS_PTRACE and CAP_NET_ADMIN, or use switches of kind bridge"
        ) from error


def packet_sockets(namespaces: Iterable[str]) -> Mapping[str, socket.socket]:
    """Duplicates of the packet sockets of Open vSwitch in these namespaces, by device; the caller closes them.

    Raises:
        OSError: the kernel does not allow it.
    """
    found: dict[str, socket.socket] = {}
    for pid in processes_in(namespaces):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if Path(f"/proc/{pid}/comm").read_text().strip() == _VSWITCHD:
                found |= _packet_sockets_of(pid)
    return found


def drops(sock: socket.socket) -> int:
    """Frames that a packet socket has dropped since it was opened."""
    counted: int = _MEMINFO.unpack(sock.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size))[_DROPS]
    return counted


def _packet_sockets_of(pid: int) -> Mapping[str, socket.socket]:
    found: dict[str, socket.socket] = {}
    process = os.pidfd_open(pid)
    try:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                if str(entry.readlink()).startswith("socket:"):
                    sock = socket.socket(fileno=_duplicate(process, int(entry.name)))
                    device = sock.getsockname()[0] if sock.family == socket.AF_PACKET else ""
                    if device:
                        found[device] = sock
                    else:
                        sock.close()
    except BaseException:
        for sock in found.values():
            sock.close()
        raise
    finally:
        os.close(process)
    return found


def _duplicate(process: int, number: int) -> int:
    """A descriptor of this process for that of another one."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor: int = libc.syscall(_PIDFD_GETFD, process, number, 0)
    if descriptor < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return descriptor
