"""A switch that holds frames: packet sockets take the place of the bridge between two ports.

The kernel of a lab may lack netem. This is a process of its own in the namespace of the switch: it reads the frames of
one port, and sends them from the other when they are due.
"""

from __future__ import annotations

import ctypes
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from emulator.annexes.bench_kit.port_stamps import STAMP_SPACE, open_port
from emulator.errors import HostError
from emulator.host.batches import CONTROL_HEADER, MESSAGE, PIECE, recvmmsg, sendmmsg

LEAST_US: Final = 200
"""Both directions are to be held for so long, with and without what is planted: longer than it takes to wake up."""
_NAPS, _WAKE_UP_S = 8, 50e-6
"""A nap is this part of the delay: shorter ones take a core from the agents. What a sleeper wakes up late by."""
_SET_TIMER_SLACK = 29  # prctl(2): 50 µs by default
_SOL_PACKET, _IGNORE_OUTGOING = 263, 23
_SLOTS, _MOST_AT_ONCE, _AROUND = 1 << 13, 256, 18
"""Frames of a ring, those of a batch, and what a frame has beside the MTU of its port: Ethernet and a VLAN tag."""
_TIME = np.dtype(
    {
        "names": ("seconds", "nanoseconds"),
        "formats": ("i8", "i8"),
        "offsets": (CONTROL_HEADER.size, CONTROL_HEADER.size + 8),
        "itemsize": STAMP_SPACE,
    }
)
"""A control message with a struct timespec."""
_LOOKED_AT, _UDP_BITS = slice(12, 24), np.frombuffer(bytes.fromhex("ffffff00000000003fff00ff"), np.uint8)
_UDP = np.frombuffer(bytes.fromhex("080045000000000000000011"), np.uint8)
"""Of a frame with UDP in IPv4: the Ethernet type, a header without options, no fragment, and the protocol."""
_IP_END = 34
_ADDRESSES, _UDP_LENGTH, _CHECKSUM = 13, 19, 20  # in words of 16 bits
_READY = "forwards"


@contextmanager
def delay_line(
    namespace: str, ports: tuple[str, str], held_us: tuple[float, float], *, checksums: bool = True
) -> Iterator[None]:
    """Take two ports out of the bridge of a switch, and hold every frame.

    Args:
        namespace: of the switch.
        ports: devices of a bridge, which they return to.
        held_us: how long a frame from the first and from the second port waits at least, µs; see LEAST_US.
        checksums: put in those of UDP, which the sending kernel has left to the NIC; else frames have none. They take a
            part of a core from the agents, but without one, the receiving kernel does not merge frames.

    Raises:
        HostError: frames are not passed on, or one is longer than the MTU of its port allows.
    """
    command = [
        "ip",
        "netns",
        "exec",
        namespace,
        sys.executable,
        "-m",
        __name__,
        *ports,
        *map(str, held_us),
        str(int(checksums)),
    ]
    bridge = _bridge_of(namespace, ports[0])
    for port in ports:
        subprocess.run(["ip", "-n", namespace, "link", "set", port, "nomaster"], check=True)
    try:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as line:
            try:
                if line.stdout is None or line.stdout.readline().strip() != _READY:
                    raise HostError("frames of the lab's switch cannot be passed on by a process")
                yield
            finally:
                line.kill()
                _, said = line.communicate()
                if line.returncode > 0:
                    (*_, why) = said.strip().split("\n")
                    raise HostError(f"frames of the lab's switch are not passed on: {why}")
    finally:
        for port in ports:
            subprocess.run(["ip", "-n", namespace, "link", "set", port, "master", bridge], check=True)


def _bridge_of(namespace: str, port: str) -> str:
    shown = subprocess.run(
        ["ip", "-n", namespace, "-o", "link", "show", port], check=True, capture_output=True, text=True
    )
    words = shown.stdout.split()
    return words[words.index("master") + 1]


def put_checksums(frames: NDArray[np.uint8], lengths: NDArray[np.uint32]) -> None:
    """Put in the checksums of UDP over IPv4.

    Args:
        frames: (frame, byte), of an even number of bytes a row.
        lengths: bytes of each frame; those after them are of earlier ones.
    """
    rows, ends = _udp_of(frames, lengths)
    if not len(rows):
        return
    longest = int(ends.max() + 1) & ~1
    covered = (frames[rows, :longest] * (np.arange(longest) < ends[:, None])).view(np.uint16)
    # The sum of 16-bit words with carries added is the number modulo 65,535, in either order of bytes (RFC 1071).
    sums = covered[:, _ADDRESSES:].sum(axis=1, dtype=np.int64) - covered[:, _CHECKSUM] + covered[:, _UDP_LENGTH]
    frames.view(np.uint16)[rows, _CHECKSUM] = 0xFFFF - (sums + socket.htons(socket.IPPROTO_UDP)) % 0xFFFF


def leave_out_checksums(frames: NDArray[np.uint8], lengths: NDArray[np.uint32]) -> None:
    """Say in UDP over IPv4 that there is no checksum: 0 (RFC 768). Arguments as for `put_checksums`."""
    rows, _ = _udp_of(frames, lengths)
    frames.view(np.uint16)[rows, _CHECKSUM] = 0


def _udp_of(frames: NDArray[np.uint8], lengths: NDArray[np.uint32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows that are whole datagrams of UDP over IPv4, and where each of them ends, bytes."""
    ends = _IP_END + frames.view(np.uint16)[:, _UDP_LENGTH].byteswap().astype(np.int64)
    is_udp = (frames[:, _LOOKED_AT] & _UDP_BITS == _UDP).all(axis=1)
    (rows,) = (is_udp & (ends <= lengths) & (ends > 2 * _CHECKSUM + 1)).nonzero()
    return rows, ends[rows]


class Ring:
    """Frames on their way from one port to another, in a ring that the kernel fills and empties in batches.

    Args:
        held_s: how long each waits.
        port: the name of that which frames come from, for messages.
        longest: bytes of a frame, at most.
        into, out: file descriptors of the sockets of both ports.
        checksums: see `delay_line`.
    """

    def __init__(self, held_s: float, port: str, longest: int, into: int, out: int, *, checksums: bool = True) -> None:
        self._checksums, self._held_s, self._port, self._longest, self._into, self._out = (
            checksums,
            held_s,
            port,
            longest,
            into,
            out,
        )
        slot_bytes = longest + longest % 2
        self._frames = np.zeros((_SLOTS, slot_bytes), np.uint8)
        self._due_s, self._times = np.zeros(_SLOTS), np.zeros(_SLOTS, _TIME)
        self._pieces = np.zeros(_SLOTS, PIECE)
        self._pieces["base"] = self._frames.ctypes.data + np.arange(_SLOTS) * slot_bytes
        self._messages = np.zeros(_SLOTS, MESSAGE)
        self._messages["header"]["pieces"] = self._pieces.ctypes.data + np.arange(_SLOTS) * PIECE.itemsize
        self._messages["header"]["piece_count"] = 1
        self._messages["header"]["control"] = self._times.ctypes.data + np.arange(_SLOTS) * STAMP_SPACE
        self._read = self._sent = 0  # frames so far

    @property
    def due_s(self) -> float | None:
        """When the next one leaves; None: it is empty."""
        return None if self._read == self._sent else float(self._due_s[self._sent % _SLOTS])

    def read(self) -> None:
        """Take what has come."""
        slot = self._read % _SLOTS
        count = min(_MOST_AT_ONCE, _SLOTS - slot, _SLOTS - (self._read - self._sent))
        self._pieces["length"][slot : slot + count] = self._longest
        self._messages["header"]["control_length"][slot : slot + count] = STAMP_SPACE
        begin = self._messages.ctypes.data + slot * MESSAGE.itemsize
        came = recvmmsg(self._into, begin, count, socket.MSG_DONTWAIT | socket.MSG_TRUNC, None)
        if came <= 0:
            return
        rows = slice(slot, slot + came)
        lengths = self._messages["bytes"][rows]
        if lengths.max() > self._longest:
            sys.exit(f"port {self._port}: a frame of {lengths.max()} bytes came, longer than its MTU: hosts are to cut")
        self._pieces["length"][rows] = lengths
        (put_checksums if self._checksums else leave_out_checksums)(self._frames[rows], lengths)
        self._messages["header"]["control_length"][rows] = 0  # the same headers are sent
        self._due_s[rows] = self._times["seconds"][rows] + self._times["nanoseconds"][rows] / 1e9 + self._held_s
        self._read += came

    def send(self) -> None:
        """Send what is due."""
        slot, waiting = self._sent % _SLOTS, self._read - self._sent
        due_s = self._due_s[slot : slot + min(waiting, _MOST_AT_ONCE)]
        if count := int(np.searchsorted(due_s, time.time(), side="right")):
            self._sent += max(0, sendmmsg(self._out, self._messages.ctypes.data + slot * MESSAGE.itemsize, count, 0))


def _pass_on(ports: tuple[str, str], held_s: tuple[float, float], *, checksums: bool) -> None:
    """Pass frames on between the ports, each so long after it came.

    A switch takes no core from the agents: frames are read after naps, not one by one. When each came is the kernel's
    time, so that waking up late is no part of the delay; where they are held for short, this looks at the clock for the
    last microseconds.
    """
    os.setpriority(os.PRIO_PROCESS, 0, -15)  # a switch does not wait for agents
    ends, rings = [open_port(port) for port in ports], []
    for held, port, into, out in zip(held_s, ports, ends, reversed(ends), strict=True):
        into.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
        into.setblocking(True)  # sending waits for room
        longest = int(Path(f"/sys/class/net/{port}/mtu").read_text()) + _AROUND
        rings.append(Ring(held, port, longest, into.fileno(), out.fileno(), checksums=checksums))
    ctypes.CDLL(None).prctl(_SET_TIMER_SLACK, 1, 0, 0, 0)
    nap_s = min(held_s) / _NAPS
    print(_READY, flush=True)
    while True:
        due_s = min((ring.due_s for ring in rings if ring.due_s is not None), default=None)
        if due_s is None:
            select.select(ends, (), ())
        elif nap_s >= _WAKE_UP_S:
            time.sleep(nap_s)  # of what is held for so long, a frame may leave a little late
        elif (left_s := due_s - time.time() - _WAKE_UP_S) > 0:
            time.sleep(left_s)
        for ring in rings:
            ring.send()
        for ring in rings:
            ring.read()


if __name__ == "__main__":
    _pass_on(
        (sys.argv[1], sys.argv[2]), (float(sys.argv[3]) / 1e6, float(sys.argv[4]) / 1e6), checksums=sys.argv[5] == "1"
    )
