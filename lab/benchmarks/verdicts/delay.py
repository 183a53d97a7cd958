"""A switch that holds every frame for 2 ms: FAIL at 256 KiB, where the tester's own time is well below that.

The kernel of a lab may lack netem, so a forwarder takes the place of the bridge: it reads the frames of one port and
sends them from the other when they are due.
"""

from __future__ import annotations

import os
import selectors
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from lab.benchmarks.verdicts.trials import Case

SWITCH, PORTS = "charkha-two-hosts-switch-sw0", ("p0", "p1")
HELD_MS = 2.0
_SPIN_S = 0.0015
_ALL_PROTOCOLS = socket.htons(3)
_SO_RCVBUFFORCE, _SOL_PACKET, _IGNORE_OUTGOING = 33, 263, 23
_BUFFER_BYTES, _LARGEST_FRAME, _MOST_AT_ONCE = 8 << 20, 1 << 16, 64
_IP_PROTOCOL, _UDP_CHECKSUM = 23, slice(40, 42)


def cases() -> Iterator[Case]:
    """The forwarder alone is no perfect switch: the good one is in `clean`."""
    device = partial(forwarder, HELD_MS)
    yield Case(f"{HELD_MS:g} ms of delay", 2, "256K", (50,), {"FAIL": 0.9}, device=device)


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


def _forward(held_s: Sequence[float]) -> None:
    """Pass frames on between the ports, each so long after it came; a selector's wait has whole milliseconds."""
    os.setpriority(os.PRIO_PROCESS, 0, -15)  # a switch does not wait for agents
    ends, waiting = [_open(port) for port in PORTS], [deque[tuple[float, bytes]]() for _ in PORTS]
    with selectors.DefaultSelector() as selector:
        for number, end in enumerate(ends):
            selector.register(end, selectors.EVENT_READ, number)
        print("forwards", flush=True)
        while True:
            due = min((queue[0][0] for queue in waiting if queue), default=None)
            left = None if due is None else due - time.monotonic()
            patience = left if left is None or left > _SPIN_S else 0.0
            for key, _ in selector.select(patience):
                _read(ends[key.data], waiting[1 - key.data], held_s[key.data])
            now = time.monotonic()
            for end, queue in zip(ends, waiting, strict=True):
                while queue and queue[0][0] <= now:
                    end.send(queue.popleft()[1])


def _open(port: str) -> socket.socket:
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, _ALL_PROTOCOLS)
    end.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
    end.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
    end.bind((port, 0))
    return end


def _read(end: socket.socket, queue: deque[tuple[float, bytes]], held_s: float) -> None:
    for _ in range(_MOST_AT_ONCE):
        try:
            frame = end.recv(_LARGEST_FRAME, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        if frame[12:14] == b"\x08\x00" and frame[_IP_PROTOCOL] == socket.IPPROTO_UDP:
            # The sending kernel left the checksum to the NIC; 0 says that there is none.
            frame = frame[: _UDP_CHECKSUM.start] + bytes(2) + frame[_UDP_CHECKSUM.stop :]
        queue.append((time.monotonic() + held_s, frame))


if __name__ == "__main__":
    _forward([float(one) / 1000 for one in sys.argv[1:]])
