"""One RoCEv2 flow between two processes of this host, beside what the kernel alone carries and beside iperf3.

python lab/benchmarks/roce_flow.py --path-mtu 4096 --pairs 5
python lab/benchmarks/roce_flow.py --ring 256 --size 4096 --steps 510
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import gc
import json
import multiprocessing
import os
import shutil
import statistics
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from blast import blast  # type: ignore[import-not-found]  # beside this file

from agents.transports.base import Endpoint
from agents.transports.roce.transport import RoceTransport
from emulator.control.conversation import Address
from emulator.roce.options import RoceOptions
from emulator.units import parse_size

TIMEOUT_S = 120
HEADER_BYTES = 16  # BTH and ICRC of a MIDDLE packet
TRANSFER_BYTES = 64 << 20
NETWORK = "127.77"


class Runner:
    """A rank that posts `ahead` transfers at once, one more per acknowledgement, or passes on what arrives."""

    def __init__(self, endpoint: Endpoint, *, to: int, steps: int, size: int, ahead: int, awaits: int) -> None:
        self.endpoint, self.to, self.steps, self.size, self.ahead = endpoint, to, steps, size, ahead
        self.sent = self.acked = self.received = 0
        self.awaits = awaits
        self.is_done = asyncio.Event()

    def send(self, count: int = 1) -> None:
        """Post so many more, if any are left."""
        for _ in range(min(count, self.steps - self.sent)):
            self.endpoint.post(self.to, self.sent, self.size)
            self.sent += 1
        self.endpoint.flush()

    def arrived(self, peer: int, tag: int, size: int, now: int, count: int = 1) -> None:
        """Transfers are here."""
        self.received += count
        if self.awaits and not self.ahead:
            self.send(count)
        self._check()

    def acknowledged(self, peer: int, tag: int, now: int) -> None:
        """A transfer is there."""
        self.acked += 1
        if self.ahead:
            self.send()
        self._check()

    def failed(self, peer: int, reason: str) -> None:
        """Give up."""
        raise SystemExit(f"rank {self.endpoint.rank} lost {peer}: {reason}")

    def _check(self) -> None:
        if self.acked == self.steps and self.received == self.awaits:
            self.is_done.set()


async def play(pipe: Connection, *, runners: Callable[[RoceTransport], Any], options: RoceOptions) -> None:
    """Connect, start together with the other process, tell seconds and counters."""
    async with RoceTransport(options=options, run="benchmark") as transport:
        mine: Sequence[Runner] = await runners(transport)
        pipe.send({runner.endpoint.rank: runner.endpoint.address for runner in mine})
        directory: dict[int, Address] = pipe.recv()
        for runner in mine:
            runner.endpoint.connect(directory, runner)
        pipe.send("ready")
        pipe.recv()
        gc.freeze()  # as agents do
        begun, cpu_begun = time.monotonic(), os.times()
        for runner in mine:
            runner.send(max(1, runner.ahead))
        async with asyncio.timeout(TIMEOUT_S):
            for runner in mine:
                runner._check()
                await runner.is_done.wait()
        seconds, cpu = time.monotonic() - begun, os.times()
        spent = cpu.user - cpu_begun.user, cpu.system - cpu_begun.system
        flows = [flow for runner in mine for flow in runner.endpoint.counters()]
        pipe.send((seconds, spent, sum(flow.retransmits or 0 for flow in flows), dict(transport.drops)))
        await asyncio.to_thread(pipe.recv)  # answer the other process until all are done


async def flow_runner(transport: RoceTransport, *, index: int, transfers: int) -> Sequence[Runner]:
    """Rank 0 sends, rank 1 receives."""
    endpoint = await transport.open(index, f"{NETWORK}.0.{index + 1}")
    steps, awaits = (transfers, 0) if index == 0 else (0, transfers)
    return [Runner(endpoint, to=1 - index, steps=steps, size=TRANSFER_BYTES, ahead=2, awaits=awaits)]


async def ring_runners(transport: RoceTransport, *, index: int, ranks: int, steps: int, size: int) -> Sequence[Runner]:
    """Half of a ring, in contiguous blocks as agents have them."""
    block = range(index * ranks // 2, (index + 1) * ranks // 2)
    return [
        Runner(
            await transport.open(rank, f"{NETWORK}.{1 + rank // 250}.{rank % 250 + 1}"),
            to=(rank + 1) % ranks,
            steps=steps,
            size=size,
            ahead=0,
            awaits=steps,
        )
        for rank in block
    ]


def work(pipe: Connection, *, runners: Callable[..., Any], index: int, options: RoceOptions) -> None:
    """Entry of a worker process."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(play(pipe, runners=functools.partial(runners, index=index), options=options))


@dataclass(frozen=True, slots=True)
class Measurement:
    """What two processes did: seconds of the slower, (user, system) CPU seconds of each, what went wrong in both."""

    seconds: float
    cpu_s: Sequence[tuple[float, float]]
    retransmits: int
    drops: Mapping[str, int]

    @property
    def all_cpu_s(self) -> float:
        """CPU seconds of both."""
        return sum(map(sum, self.cpu_s))

    @property
    def remark(self) -> str:
        """In words, how busy each process was and what went wrong."""
        busy = " and ".join(f"{user / self.seconds:.0%} + {system / self.seconds:.0%}" for user, system in self.cpu_s)
        drops = ", ".join(f"{count} {reason}" for reason, count in self.drops.items())
        return f"user + system {busy}; {self.retransmits} retransmissions, drops {drops or 'none'}"


def measure(runners: Callable[..., Any], options: RoceOptions) -> Measurement:
    """Let two processes play."""
    spawn = multiprocessing.get_context("spawn")
    pipes = [spawn.Pipe() for _ in range(2)]
    workers = [
        spawn.Process(target=work, args=(pipes[i][1],), kwargs={"runners": runners, "index": i, "options": options})
        for i in range(2)
    ]
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
    for pipe in ours:
        pipe.send("bye")
    for worker in workers:
        worker.join()
    seconds, spent, retransmits, dropped = zip(*answers, strict=True)
    drops = Counter[str]()
    for one in dropped:
        drops.update(one)
    return Measurement(max(seconds), spent, sum(retransmits), drops)


def flow_gbps(options: RoceOptions, transfers: int) -> tuple[float, str]:
    """Goodput of our flow, Gbit/s, and a remark."""
    found = measure(functools.partial(flow_runner, transfers=transfers), options)
    return transfers * TRANSFER_BYTES * 8 / found.seconds / 1e9, found.remark


def iperf_gbps(datagram: int, seconds: float) -> float | None:
    """The receiver's rate of one unpaced iperf3 UDP flow, Gbit/s; None without iperf3."""
    if shutil.which("iperf3") is None:
        return None
    server = subprocess.Popen(["iperf3", "-s", "-1", "-p", "5299"], stdout=subprocess.DEVNULL)
    time.sleep(0.3)
    client = ["iperf3", "-c", "127.0.0.1", "-p", "5299", "-u", "-b", "0", "-l", str(datagram), "-t", str(seconds), "-J"]
    result = json.loads(subprocess.run(client, capture_output=True, text=True, timeout=60, check=False).stdout)
    server.wait(timeout=10)
    total = result["end"]["sum"]
    return float(total["bits_per_second"] * (1 - total["lost_percent"] / 100) / 1e9)


def spread(values: Sequence[float]) -> str:
    """Median and range."""
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def compare(options: RoceOptions, *, pairs: int, transfers: int, seconds: float) -> None:
    """Interleaved rounds of all three; prints rates and ratios."""
    datagram = options.path_mtu + HEADER_BYTES
    ours, bare, iperf = [], [], []
    for _ in range(pairs):
        rate, remark = flow_gbps(options, transfers)
        ours.append(rate)
        bare.append(blast(datagram, seconds=seconds).rate_bps / 1e9)
        peer = iperf_gbps(options.path_mtu + 28, seconds)
        iperf += [] if peer is None else [peer]
        print(f"ours {rate:.1f} Gbit/s ({remark}), blast {bare[-1]:.1f}, iperf3 {peer or float('nan'):.1f}", flush=True)
    print(f"path MTU {options.path_mtu}: ours / blast {spread([a / b for a, b in zip(ours, bare, strict=True)])}")
    if len(iperf) == len(ours):
        print(f"path MTU {options.path_mtu}: ours / iperf3 {spread([a / b for a, b in zip(ours, iperf, strict=True)])}")


def main() -> None:
    """Print one comparison, or the rate of a ring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="of the transport")
    parser.add_argument("--path-mtu", default="4096")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--transfers", type=int, default=150, help="of 64 MiB")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each peer")
    parser.add_argument("--ring", type=int, help="ranks of a ring, instead")
    parser.add_argument("--steps", type=int, default=510)
    parser.add_argument("--size", type=parse_size, default=4096)
    args = parser.parse_args()
    texts = dict(text.split("=", 1) for text in args.option)
    options = RoceOptions.parse({"path_mtu": args.path_mtu} | texts)
    if args.ring is None:
        compare(options, pairs=args.pairs, transfers=args.transfers, seconds=args.seconds)
        return
    for _ in range(args.pairs):
        runners = functools.partial(ring_runners, ranks=args.ring, steps=args.steps, size=args.size)
        found = measure(runners, options)
        messages = args.ring * args.steps
        print(
            f"ring of {args.ring}: {messages / found.seconds:,.0f} messages/s, "
            f"{found.all_cpu_s / messages * 1e6:.1f} µs of CPU each; {found.remark}"
        )


if __name__ == "__main__":
    main()
