"""A switch that holds every frame for 2 ms: FAIL at 256 KiB, where the tester's own time is well below that.

The kernel of a lab may lack netem, so a forwarder takes the place of the bridge: it reads the frames of one port and
sends them from the other when they are due.
"""

from __future__ import annotations

import ctypes
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np

from agents.nic.stamps import STAMP_SPACE
from agents.nic.system_calls import CONTROL_HEADER, MESSAGE, PIECE, SO_TIMESTAMPNS, recvmmsg, sendmmsg
from lab.benchmarks.verdicts.trials import Case

SWITCH, PORTS = "charkha-two-hosts-switch-sw0", ("p0", "p1")
HELD_MS = 2.0
_NAPS, _WAKE_UP_S = 8, 50e-6
"""A nap is this part of the delay: shorter ones take a core from the agents. What a sleeper wakes up late by."""
_SET_TIMER_SLACK = 29  # prctl(2): 50 µs by default
_ALL_PROTOCOLS = socket.htons(3)
_SO_RCVBUFFORCE, _SOL_PACKET, _IGNORE_OUTGOING = 33, 263, 23
_BUFFER_BYTES, _SLOTS, _SLOT_BYTES, _MOST_AT_ONCE = 8 << 20, 1 << 13, 1 << 11, 256
_TIME = np.dtype(
    {
        "names": ("seconds", "nanoseconds"),
        "formats": ("i8", "i8"),
        "offsets": (CONTROL_HEADER.size, CONTROL_HEADER.size + 8),
        "itemsize": STAMP_SPACE,
    }
)
"""A control message with a struct timespec."""
_IP_PROTOCOL, _UDP_CHECKSUM = 23, slice(40, 42)


def cases() -> Iterator[Case]:
    """The forwarder alone is no perfect switch: the good one is in `clean`.

    It takes a core now and then: with 10 iterations, what agents waited left every second trial open.
    """
    device = partial(forwarder, HELD_MS)
    yield Case(f"{HELD_MS:g} ms of delay", 2, "256K", (50,), {"FAIL": 0.9}, device=device, iterations=40)


@contextmanager
def forwarder(milliseconds: float, back_milliseconds: float | None = None, *, switch: str = SWITCH) -> Iterator[None]:
    """Hold frames from the first port so long, and those from the second `back_milliseconds`; None: as long."""

    def ports(*words: str) -> None:
        for port in PORTS:
            subprocess.run(["ip", "-n", switch, "link", "set", port, *words], check=True)

    back = milliseconds if back_milliseconds is None else back_milliseconds
    command = ["ip", "netns", "exec", switch, sys.executable, "-m", __name__, str(milliseconds), str(back)]
    ports("nomaster")
    forwarder = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert forwarder.stdout is not None
        assert forwarder.stdout.readline(), "the forwarder does not begin"
        yield
    finally:
        forwarder.kill()
        forwarder.communicate()
        ports("master", "br0")


class _Queue:
    """Frames on their way from one port to another, in a ring that the kernel fills and empties in batches.

    Args:
        held_s: how long each waits.
        into, out: sockets of the two ports.
    """

    def __init__(self, held_s: float, into: socket.socket, out: socket.socket) -> None:
        self.held_s, self._into, self._out = held_s, into.fileno(), out.fileno()
        self._frames = np.zeros((_SLOTS, _SLOT_BYTES), np.uint8)
        self._due_s, self._times = np.zeros(_SLOTS), np.zeros(_SLOTS, _TIME)
        self._pieces = np.zeros(_SLOTS, PIECE)
        self._pieces["base"] = self._frames.ctypes.data + np.arange(_SLOTS) * _SLOT_BYTES
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
        self._pieces["length"][slot : slot + count] = _SLOT_BYTES
        self._messages["header"]["control_length"][slot : slot + count] = STAMP_SPACE
        begin = self._messages.ctypes.data + slot * MESSAGE.itemsize
        came = recvmmsg(self._into, begin, count, socket.MSG_DONTWAIT | socket.MSG_TRUNC, None)
        if came <= 0:
            return
        rows = slice(slot, slot + came)
        lengths, frames = self._messages["bytes"][rows], self._frames[rows]
        if lengths.max() > _SLOT_BYTES:
            sys.exit(f"a frame of {lengths.max()} bytes came: hosts are to cut what they send")
        self._pieces["length"][rows] = lengths
        # The sending kernel left the checksum to the NIC; 0 says that there is none.
        is_udp = (frames[:, 12] == 8) & (frames[:, 13] == 0) & (frames[:, _IP_PROTOCOL] == socket.IPPROTO_UDP)
        frames[is_udp, _UDP_CHECKSUM] = 0
        self._messages["header"]["control_length"][rows] = 0  # the same headers are sent
        self._due_s[rows] = self._times["seconds"][rows] + self._times["nanoseconds"][rows] / 1e9 + self.held_s
        self._read += came

    def send(self) -> None:
        """Send what is due."""
        slot, waiting = self._sent % _SLOTS, self._read - self._sent
        due_s = self._due_s[slot : slot + min(waiting, _MOST_AT_ONCE)]
        if count := int(np.searchsorted(due_s, time.time(), side="right")):
            self._sent += max(0, sendmmsg(self._out, self._messages.ctypes.data + slot * MESSAGE.itemsize, count, 0))


def _forward(held_s: Sequence[float]) -> None:
    """Pass frames on between the ports, each so long after it came.

    A switch takes no core from the agents: frames are read after naps, not one by one. When each came is the kernel's
    time, so that waking up late is no part of the delay; the last microseconds this looks at the clock.
    """
    os.setpriority(os.PRIO_PROCESS, 0, -15)  # a switch does not wait for agents
    first, second = (_open(port) for port in PORTS)
    queues = (_Queue(held_s[0], first, second), _Queue(held_s[1], second, first))
    ctypes.CDLL(None).prctl(_SET_TIMER_SLACK, 1, 0, 0, 0)
    nap_s = min(held_s) / _NAPS
    print("forwards", flush=True)
    while True:
        due_s = min((queue.due_s for queue in queues if queue.due_s is not None), default=None)
        if due_s is None:
            select.select((first, second), (), ())
        elif (left_s := due_s - time.time() - _WAKE_UP_S) > 0:
            time.sleep(min(nap_s, left_s) if nap_s >= _WAKE_UP_S else left_s)
        for queue in queues:
            queue.read()
            queue.send()


def _open(port: str) -> socket.socket:
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, _ALL_PROTOCOLS)
    end.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
    end.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
    end.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    end.bind((port, 0))
    return end


if __name__ == "__main__":
    _forward([float(one) / 1000 for one in sys.argv[1:]])
