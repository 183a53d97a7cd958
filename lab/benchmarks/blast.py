"""What the kernel alone carries from one process to another in UDP datagrams: cut by UDP_SEGMENT, merged by UDP_GRO.

No header is written and nothing is checked, acknowledged or sent again: the limit of every flow that goes this way.

python lab/benchmarks/blast.py --datagram 4124 --seconds 3
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import socket
import struct
import time
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from typing import Any

HOST = "127.0.0.1"
UDP_SEGMENT, UDP_GRO = 103, 104  # linux/udp.h
LARGEST_CALL_BYTES = 65_507
MOST_SEGMENTS = 64
SOCKET_BUFFER_BYTES = 8 << 20  # the kernel gives what net.core.rmem_max allows
SILENCE_S = 5


@dataclass(frozen=True, slots=True)
class Blast:
    """What arrived: bytes of datagrams' payload, in the seconds after the warm-up, by the receiver's clock."""

    datagram_bytes: int
    segments: int
    received_bytes: int
    seconds: float

    @property
    def rate_bps(self) -> float:
        """The receiver's rate."""
        return self.received_bytes * 8 / self.seconds


def segments_of_a_call(datagram_bytes: int) -> int:
    """How many datagrams of this size one sendmsg carries."""
    return min(MOST_SEGMENTS, LARGEST_CALL_BYTES // datagram_bytes)


def send(port: int, datagram_bytes: int) -> None:
    """Send for ever."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER_BYTES)
        sender.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, datagram_bytes)
        sender.connect((HOST, port))
        payload = bytes(datagram_bytes * segments_of_a_call(datagram_bytes))
        while True:
            try:
                sender.send(payload)
            except ConnectionRefusedError:  # the receiver is gone
                return


def receive(pipe: Connection, datagram_bytes: int, *, warmup_s: float, seconds: float) -> None:
    """Tell the port, then what arrived in `seconds` after `warmup_s`."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BUFFER_BYTES)
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", SILENCE_S, 0))
        receiver.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
        receiver.bind((HOST, 0))
        pipe.send(receiver.getsockname()[1])
        buffer = bytearray(1 << 16)
        receiver.recv_into(buffer)
        _count(receiver, buffer, until=time.monotonic() + warmup_s)
        begun = time.monotonic()
        received = _count(receiver, buffer, until=begun + seconds)
        elapsed = time.monotonic() - begun
    pipe.send(Blast(datagram_bytes, segments_of_a_call(datagram_bytes), received, elapsed))


def _count(receiver: socket.socket, buffer: bytearray, *, until: float) -> int:
    received = 0
    while time.monotonic() < until:
        received += receiver.recv_into(buffer)
    return received


def blast(datagram_bytes: int, *, seconds: float, warmup_s: float = 0.5) -> Blast:
    """Let one process send to another as fast as it goes.

    Raises:
        EOFError: a process failed; its traceback is on stderr.
    """
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    timing: dict[str, Any] = {"warmup_s": warmup_s, "seconds": seconds}
    receiver = spawn.Process(target=receive, args=(theirs, datagram_bytes), kwargs=timing, daemon=True)
    receiver.start()
    theirs.close()
    sender = spawn.Process(target=send, args=(ours.recv(), datagram_bytes), daemon=True)
    sender.start()
    try:
        result = ours.recv()
    finally:
        sender.kill()
        sender.join()
        receiver.join()
    assert isinstance(result, Blast)
    return result


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datagram", metavar="BYTES", type=int, default=4124)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--warmup", metavar="S", type=float, default=0.5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = blast(options.datagram, seconds=options.seconds, warmup_s=options.warmup)
    if options.json:
        print(json.dumps(asdict(result) | {"rate_bps": result.rate_bps}))
    else:
        print(f"{result.segments} datagrams of {result.datagram_bytes} B a call: {result.rate_bps / 1e9:.2f} Gb/s")


if __name__ == "__main__":
    main()
