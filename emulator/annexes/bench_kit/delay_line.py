"""A switch that holds frames: packet sockets take the place of the bridge between two ports.

The kernel of a lab may lack netem. This is a process of its own in the namespace of the switch: it reads the frames of
one port, and sends them from the other when they are due. It is made for a few small frames at a time.
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from emulator.errors import HostError

_ALL_PROTOCOLS: Final = 3
_SOL_PACKET, _IGNORE_OUTGOING = 263, 23
_ETHER_TYPE, _IPV4, _IP_PROTOCOL, _ADDRESSES, _IP_END = slice(12, 14), b"\x08\x00", 23, slice(26, 34), 34
_UDP_LENGTH, _UDP_CHECKSUM = slice(38, 40), slice(40, 42)
_LONGEST, _READY = 1 << 16, "forwards"


@contextmanager
def delay_line(namespace: str, ports: tuple[str, str], held_us: int) -> Iterator[None]:
    """Take two ports out of the bridge of a switch, and hold every frame from the first to the second.

    Args:
        namespace: of the switch.
        ports: devices of a bridge, which they return to.
        held_us: how long a frame waits at least, µs; 0: it is only passed on.

    Raises:
        HostError: frames are not passed on.
    """
    command = ["ip", "netns", "exec", namespace, sys.executable, "-m", __name__, *ports, str(held_us)]
    bridge = _bridge_of(namespace, ports[0])
    for port in ports:
        subprocess.run(["ip", "-n", namespace, "link", "set", port, "nomaster"], check=True)
    try:
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as line:
            try:
                if line.stdout is None or line.stdout.readline().strip() != _READY:
                    raise HostError("closure: the frames of the lab's switch cannot be passed on from a process")
                yield
            finally:
                line.kill()
    finally:
        for port in ports:
            subprocess.run(["ip", "-n", namespace, "link", "set", port, "master", bridge], check=True)


def _bridge_of(namespace: str, port: str) -> str:
    shown = subprocess.run(
        ["ip", "-n", namespace, "-o", "link", "show", port], check=True, capture_output=True, text=True
    )
    words = shown.stdout.split()
    return words[words.index("master") + 1]


def with_checksum(frame: bytes) -> bytes:
    """A UDP frame over IPv4 with its checksum, which the sending kernel has left to the NIC.

    Without one, the receiving kernel would not merge frames as it usually does.
    """
    if frame[_ETHER_TYPE] != _IPV4 or frame[_IP_PROTOCOL] != socket.IPPROTO_UDP:
        return frame
    udp = frame[_IP_END : _IP_END + int.from_bytes(frame[_UDP_LENGTH])]
    covered = frame[_ADDRESSES] + bytes([0, socket.IPPROTO_UDP]) + frame[_UDP_LENGTH] + udp[:6] + bytes(2) + udp[8:]
    covered += bytes(len(covered) % 2)
    # The sum of 16-bit words with carries added is the number modulo 65,535 (RFC 1071).
    checksum = 0xFFFF - int.from_bytes(covered) % 0xFFFF or 0xFFFF
    return frame[: _UDP_CHECKSUM.start] + checksum.to_bytes(2) + frame[_UDP_CHECKSUM.stop :]


def _open(port: str) -> socket.socket:
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK)
    end.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
    end.bind((port, _ALL_PROTOCOLS))
    return end


def _pass_on(ports: tuple[str, str], held_s: float) -> None:
    """Pass frames on in both directions; those from the first port wait."""
    os.setpriority(os.PRIO_PROCESS, 0, -15)  # a switch does not wait for agents
    first, second = (_open(port) for port in ports)
    held: deque[tuple[float, bytes]] = deque()
    print(_READY, flush=True)
    while True:
        left_s = max(0.0, held[0][0] - time.monotonic()) if held else None
        ready, _, _ = select.select((first, second), (), (), left_s)
        for end in ready:
            frame = with_checksum(end.recv(_LONGEST))
            if end is second:
                first.send(frame)
            else:
                held.append((time.monotonic() + held_s, frame))
        while held and held[0][0] <= time.monotonic():
            second.send(held.popleft()[1])


if __name__ == "__main__":
    _pass_on((sys.argv[1], sys.argv[2]), int(sys.argv[3]) / 1e6)
