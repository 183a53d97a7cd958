"""A ring over a transport of ours: each rank sends its next step when one of the rank before has arrived.

    python -m lab.benchmarks.ring --transport roce --ranks 256 --size 4096 --steps 510
    python -m lab.benchmarks.ring --transport zmq --ranks 64 --size 1K --steps 2000

Processes have blocks of neighbouring ranks, as agents have them. Prints messages per second, processor time of each,
how busy every process was, and, of RoCE, what was sent again or dropped. One flow, beside others, is a setting of
lab.benchmarks.peers; lab.benchmarks.peers.programs.transport_flow measures it alone.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection

from agents.transports.base import Endpoint
from emulator.control.conversation import Address
from emulator.units import parse_size
from lab.benchmarks.peers.programs.transport_flow import add_transport, loop_factory, open_transport

TIMEOUT_S = 300
NETWORK = "127.77"


class Runner:
    """A rank: it sends its first step at once, and the others as steps arrive."""

    def __init__(self, endpoint: Endpoint, ranks: int, *, steps: int, size: int) -> None:
        self.endpoint, self._steps, self._size = endpoint, steps, size
        self._next = (endpoint.rank + 1) % ranks
        self._sent = self._acked = self._received = 0
        self.is_done = asyncio.Event()

    def send(self, count: int = 1) -> None:
        """Post so many more, if any are left."""
        for _ in range(min(count, self._steps - self._sent)):
            self.endpoint.post(self._next, self._sent, self._size)
            self._sent += 1
        self.endpoint.flush()

    def arrived(self, peer: int, tag: int, size: int, now: int, count: int = 1) -> None:
        """See EndpointEvents."""
        self._received += count
        self.send(count)
        self._check()

    def acknowledged(self, peer: int, tag: int, now: int) -> None:
        """See EndpointEvents."""
        self._acked += 1
        self._check()

    def failed(self, peer: int, reason: str) -> None:
        """Give up."""
        raise SystemExit(f"rank {self.endpoint.rank} lost {peer}: {reason}")

    def _check(self) -> None:
        if self._acked == self._received == self._steps:
            self.is_done.set()


@dataclass(frozen=True, slots=True)
class ProcessFigures:
    """What a process tells: its seconds, user and system ones of CPU, and what went wrong."""

    seconds: float
    user_s: float
    system_s: float
    retransmits: int
    drops: Mapping[str, int]


async def play(pipe: Connection, block: range, options: argparse.Namespace) -> None:
    """The ranks of a process: connect, start together with the others, tell what it took."""
    async with open_transport(options) as transport:
        runners = [
            Runner(
                await transport.open(rank, f"{NETWORK}.{1 + rank // 250}.{rank % 250 + 1}"),
                options.ranks,
                steps=options.steps,
                size=options.size,
            )
            for rank in block
        ]
        pipe.send({runner.endpoint.rank: runner.endpoint.address for runner in runners})
        directory: dict[int, Address] = pipe.recv()
        for runner in runners:
            runner.endpoint.connect(directory, runner)
        pipe.send("ready")
        pipe.recv()
        gc.freeze()  # as agents do
        begun, cpu_begun = time.monotonic(), os.times()
        for runner in runners:
            runner.send()
        async with asyncio.timeout(TIMEOUT_S):
            for runner in runners:
                await runner.is_done.wait()
        seconds, cpu = time.monotonic() - begun, os.times()
        retransmits = sum(flow.retransmits or 0 for runner in runners for flow in runner.endpoint.counters())
        spent = cpu.user - cpu_begun.user, cpu.system - cpu_begun.system
        pipe.send(ProcessFigures(seconds, *spent, retransmits, dict(getattr(transport, "drops", {}))))
        await asyncio.to_thread(pipe.recv)  # answer the others until all are done


def work(pipe: Connection, block: range, options: argparse.Namespace) -> None:
    """Entry of a process; the event loop is that of agents."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(play(pipe, block, options))


def measure(options: argparse.Namespace) -> Sequence[ProcessFigures]:
    """Let the processes play once."""
    spawn, count = multiprocessing.get_context("spawn"), options.processes
    pipes, workers = [], []
    for index in range(count):
        ours, theirs = spawn.Pipe()
        block = range(index * options.ranks // count, (index + 1) * options.ranks // count)
        workers.append(spawn.Process(target=work, args=(theirs, block, options)))
        workers[-1].start()
        theirs.close()  # so that a process that dies ends the wait
        pipes.append(ours)
    directory: dict[int, Address] = {}
    for pipe in pipes:
        directory |= pipe.recv()
    answers: list[ProcessFigures] = []
    for reply in (directory, "go"):
        for pipe in pipes:
            pipe.send(reply)
        answers = [pipe.recv() for pipe in pipes]
    for pipe, worker in zip(pipes, workers, strict=True):
        pipe.send("bye")
        worker.join()
    return answers


def described(found: Sequence[ProcessFigures], options: argparse.Namespace) -> str:
    """The figures of a round on one line."""
    messages, seconds = options.ranks * options.steps, max(one.seconds for one in found)
    cpu_s = sum(one.user_s + one.system_s for one in found)
    busy = " and ".join(f"{one.user_s / seconds:.0%} + {one.system_s / seconds:.0%}" for one in found)
    drops: Counter[str] = Counter()
    for one in found:
        drops.update(one.drops)
    lost = ", ".join(f"{count} {reason}" for reason, count in drops.items()) or "none"
    return (
        f"ring of {options.ranks}: {messages / seconds:,.0f} messages/s, {cpu_s / messages * 1e6:.1f} µs of CPU each; "
        f"user + system {busy}; {sum(one.retransmits for one in found)} retransmissions, drops {lost}"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_transport(parser)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--steps", type=int, default=510)
    parser.add_argument("--size", type=parse_size, default=4096, help="of a message")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    for _ in range(options.rounds):
        print(described(measure(options), options), flush=True)


if __name__ == "__main__":
    main()
