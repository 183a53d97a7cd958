"""A plain ZeroMQ flow: PUSH in one process, PULL in another, nothing acknowledged.

Prints JSON: bytes received in the seconds after the warm-up, by the receiver's clock.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from multiprocessing.connection import Connection
from typing import Any

import zmq

HOST = "127.0.0.1"
SILENCE_MS = 5000
QUEUE = 16


def push(port: int, size: int) -> None:
    """Send for ever."""
    with zmq.Context() as context, context.socket(zmq.PUSH) as sender:
        sender.linger = 0
        sender.sndhwm = QUEUE
        sender.connect(f"tcp://{HOST}:{port}")
        payload = zmq.Frame(bytes(size), copy=True)
        while True:
            sender.send(payload, copy=False)


def pull(pipe: Connection, size: int, *, warmup_s: float, seconds: float) -> None:
    """Tell the port, then what arrived."""
    with zmq.Context() as context, context.socket(zmq.PULL) as receiver:
        receiver.rcvtimeo = SILENCE_MS
        receiver.rcvhwm = QUEUE
        pipe.send(receiver.bind_to_random_port(f"tcp://{HOST}"))
        buffer = bytearray(size)
        receiver.recv_into(buffer)
        _count(receiver, buffer, until=time.monotonic() + warmup_s)
        begun = time.monotonic()
        received = _count(receiver, buffer, until=begun + seconds)
        pipe.send({"received_bytes": received, "seconds": time.monotonic() - begun})


def _count(receiver: zmq.Socket[bytes], buffer: bytearray, *, until: float) -> int:
    received = 0
    while time.monotonic() < until:
        received += len(receiver.recv(copy=False).buffer)
    return received


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", metavar="BYTES", type=int, default=1 << 20, help="of a message")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--warmup", metavar="S", type=float, default=0.5)
    options = parser.parse_args()
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    timing: dict[str, Any] = {"warmup_s": options.warmup, "seconds": options.seconds}
    receiver = spawn.Process(target=pull, args=(theirs, options.size), kwargs=timing, daemon=True)
    receiver.start()
    theirs.close()
    sender = spawn.Process(target=push, args=(ours.recv(), options.size), daemon=True)
    sender.start()
    try:
        print(json.dumps(ours.recv()))
    finally:
        sender.kill()
        sender.join()
        receiver.join()


if __name__ == "__main__":
    main()
