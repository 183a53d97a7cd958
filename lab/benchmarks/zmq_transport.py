"""What the ZeroMQ transport carries between processes, beside a plain PUSH/PULL pair in the same run.

python lab/benchmarks/zmq_transport.py --bytes 4G --ranks 64 --processes 2
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import multiprocessing
import time
from collections.abc import Callable, Coroutine
from multiprocessing.connection import Connection
from typing import Any

import zmq

from agents.annexes.zmq.transport import ZmqTransport
from agents.transports.base import Endpoint
from emulator.control.conversation import Address
from emulator.transports.registry import ZMQ
from emulator.units import parse_size

TIMEOUT_S = 300
Job = Callable[..., Coroutine[Any, Any, float]]


class Runner:
    """A rank of a ring: sends on what arrives, until it has done its steps; the first step needs no arrival."""

    def __init__(self, endpoint: Endpoint, ranks: int, *, steps: int, size: int) -> None:
        self.endpoint, self.steps, self.size = endpoint, steps, size
        self.next = (endpoint.rank + 1) % ranks
        self.sent = self.acked = self.received = 0
        self.is_done = asyncio.Event()

    def start(self, directory: dict[int, Address]) -> None:
        """Connect."""
        self.endpoint.connect(directory, self)

    def send(self) -> None:
        """Send the next step, if any is left."""
        if self.sent < self.steps:
            self.endpoint.post(self.next, self.sent, self.size)
            self.endpoint.flush()
            self.sent += 1

    def arrived(self, peer: int, tag: int, size: int, now: int, count: int = 1) -> None:
        """Steps of the rank before are here."""
        self.received += count
        for _ in range(count):
            self.send()
        self._check()

    def acknowledged(self, peer: int, tag: int, now: int) -> None:
        """The next rank has a step."""
        self.acked += 1
        self._check()

    def failed(self, peer: int, reason: str) -> None:
        """Give up."""
        raise SystemExit(f"rank {self.endpoint.rank} lost {peer}: {reason}")

    def _check(self) -> None:
        if self.acked == self.received == self.steps:
            self.is_done.set()


async def ring(pipe: Connection, *, index: int, processes: int, ranks: int, steps: int, size: int) -> float:
    """Play this process's ranks of a ring; neighbours live in different processes. Returns seconds."""
    async with ZmqTransport() as transport:
        mine = range(index, ranks, processes)
        runners = [
            Runner(await transport.open(r, f"127.1.{r // 250}.{r % 250 + 1}"), ranks, steps=steps, size=size)
            for r in mine
        ]
        pipe.send({runner.endpoint.rank: runner.endpoint.address for runner in runners})
        directory = pipe.recv()
        for runner in runners:
            runner.start(directory)
        pipe.send("ready")
        pipe.recv()
        start = time.monotonic()
        for runner in runners:
            runner.send()
        async with asyncio.timeout(TIMEOUT_S):
            for runner in runners:
                await runner.is_done.wait()
        seconds = time.monotonic() - start
        pipe.send(seconds)
        await asyncio.to_thread(pipe.recv)  # stay until all are done
        return seconds


async def stream(pipe: Connection, *, index: int, size: int, total: int) -> float:
    """Carry `total` bytes from process 0 to process 1 in transfers of `size`."""
    count = total // size
    async with ZmqTransport() as transport:
        endpoint = await transport.open(index, f"127.1.0.{index + 1}")
        runner = Runner(endpoint, 2, steps=count, size=size)
        runner.received = count if index == 0 else 0
        runner.acked = count if index == 1 else 0
        pipe.send({index: endpoint.address})
        runner.start(pipe.recv())
        runner.sent = count
        pipe.send("ready")
        pipe.recv()
        start = time.monotonic()
        if index == 0:
            for tag in range(count):
                endpoint.post(1, tag, size)
            endpoint.flush()
        async with asyncio.timeout(TIMEOUT_S):
            await runner.is_done.wait()
        seconds = time.monotonic() - start
        pipe.send(seconds)
        await asyncio.to_thread(pipe.recv)
        return seconds


def plain(pipe: Connection, *, index: int, size: int, total: int) -> None:
    """The peer: pyzmq alone, one way, nothing acknowledged."""
    count = total // size
    with zmq.Context() as context, context.socket(zmq.PUSH if index == 0 else zmq.PULL) as socket:
        address = Address("127.1.0.2", socket.bind_to_random_port("tcp://127.1.0.2") if index else 0)
        pipe.send({index: address})
        directory = pipe.recv()
        if index == 0:
            socket.connect(f"tcp://{directory[1].host}:{directory[1].port}")
        pipe.send("ready")
        pipe.recv()
        start = time.monotonic()
        payload = zmq.Frame(bytes(size), copy=True)
        buffer = bytearray(1)
        for _ in range(count):
            if index == 0:
                socket.send(payload, copy=False)
            else:
                socket.recv_into(buffer)
        pipe.send(time.monotonic() - start)
        pipe.recv()


def run_on_loop(job: Job, pipe: Connection, *, uvloop: bool, **options: Any) -> None:
    """Entry of a worker process."""
    factory = None
    if uvloop:
        import uvloop as fast

        factory = fast.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(job(pipe, **options))


def measure(entry: Callable[..., None], processes: int) -> float:
    """Start the processes together; seconds of the slowest."""
    spawn = multiprocessing.get_context("spawn")
    pipes = [spawn.Pipe() for _ in range(processes)]
    workers = [spawn.Process(target=entry, args=(pipes[i][1],), kwargs={"index": i}) for i in range(processes)]
    for worker, (_, theirs) in zip(workers, pipes, strict=True):
        worker.start()
        theirs.close()  # so that a worker that dies ends the wait
    ours = [pipe[0] for pipe in pipes]
    directory: dict[int, Address] = {}
    for pipe in ours:
        directory |= pipe.recv()
    for reply in (directory, "go"):
        for pipe in ours:
            pipe.send(reply)
        answers = [pipe.recv() for pipe in ours]
    for pipe, worker in zip(ours, workers, strict=True):
        pipe.send("bye")
        worker.join()
    return float(max(answers))


def compare_streams(*, size: int, total: int, uvloop: bool) -> None:
    """One rank to one rank, and PUSH/PULL."""
    own = measure(functools.partial(run_on_loop, stream, uvloop=uvloop, size=size, total=total), 2)
    peer = measure(functools.partial(plain, size=size, total=total), 2)
    count = total // size
    print(
        f"{size:>9} B: transport {total / own / 1e9:6.2f} GB/s, {count / own:9,.0f} transfers/s"
        f"   PUSH/PULL {total / peer / 1e9:6.2f} GB/s, {count / peer:9,.0f} messages/s   ratio {peer / own:.2f}"
    )


def main() -> None:
    """Print streams of several sizes, then a ring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", type=parse_size, default=4 << 30, help="carried per stream of large transfers")
    parser.add_argument("--ranks", type=int, default=64, help="ranks of the ring")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--steps", type=int, default=2000, help="steps of the ring")
    parser.add_argument("--size", type=parse_size, default=1024, help="bytes per transfer in the ring")
    parser.add_argument("--uvloop", action="store_true")
    options = parser.parse_args()
    for size in (1 << 10, 1 << 16, ZMQ.message_bytes):
        compare_streams(size=size, total=min(options.bytes, size * 200_000), uvloop=options.uvloop)
    shape = {"processes": options.processes, "ranks": options.ranks, "steps": options.steps, "size": options.size}
    seconds = measure(functools.partial(run_on_loop, ring, uvloop=options.uvloop, **shape), options.processes)
    rate = options.ranks * options.steps / seconds
    print(f"ring of {options.ranks} ranks in {options.processes} processes, {options.size} B: {rate:,.0f} transfers/s")


if __name__ == "__main__":
    main()
