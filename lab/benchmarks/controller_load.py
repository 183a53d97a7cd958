"""What one controller takes: many agents that speak the control protocol over gRPC and play nothing.

    python -m lab.benchmarks.controller_load [--agents 512] [--ranks 16384] [--rate 50000] [--stop S]

Starts `charkha bench` with a topology whose hosts have agents of their own, and processes with many agents each, every
agent on a connection of its own. They invent completions at the given rate, and send them as agents do: at the interval
that the controller names, and more at once while earlier messages wait for it. All are taken when the controller has
dealt with them, and says that the job is over. `--stop S` lets them play for S seconds, then stops the controller
(SIGSTOP) for S seconds: what happens when it cannot keep up.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import multiprocessing
import os
import queue
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import numpy as np

from agents import control_link
from agents.agent import progress_interval_s
from agents.control_link import ControlLink
from agents.reporter import LARGEST_BATCH
from emulator.control import conversation as control
from emulator.control.authentication import new_nonce
from emulator.control.observations import Completions, RankSummary
from emulator.control.wire.credentials import key_and_claims
from emulator.errors import EmulatorError
from emulator.host.clock import clock_id
from emulator.planner.rank_program import Chunk
from emulator.units import NS_PER_S
from emulator.version import VERSION

_FIRST_ADDRESS, _ADDRESSES = IPv4Address("198.18.0.0"), 1 << 17  # RFC 2544
_PORT = 4791


@dataclass(frozen=True, slots=True)
class Load:
    """What every process of agents is told.

    Attributes:
        target: of the controller.
        rate: completions per second and agent; 0: as fast as the stream takes them.
    """

    target: str
    token: str
    rate: float


@dataclass(slots=True)
class Tally:
    """What the agents of a process have said.

    Attributes:
        first_ns: when they said the first of it.
        last_ns: when they heard that the controller has all of it.
        messages: with completions.
        interval_ns: of them.
        held: times when a message would have been due, and an earlier one still waited for the controller.
    """

    completions: int = 0
    messages: int = 0
    held: int = 0
    first_ns: int = 0
    last_ns: int = 0
    interval_ns: int = 0


class LoadAgent:
    """An agent that plays nothing.

    Args:
        name: in the topology.
        load: see Load.
        tally: of its process.
        begins: called when it begins to play.
    """

    def __init__(self, name: str, load: Load, tally: Tally, begins: Callable[[], None]) -> None:
        self._name, self._load, self._tally, self._begins = name, load, tally, begins
        self._nodes: dict[int, list[int]] = {}  # node ids of communication by rank
        self._playing: asyncio.Task[None] | None = None
        self._events = 0
        self._has_left = False

    async def run(self) -> None:
        """Take part in one run."""
        async with ControlLink(self._load.target) as self._link:
            key, claims = key_and_claims(self._load.token)
            hello = control.Hello(
                oldest_version=control.OLDEST_VERSION,
                newest_version=control.NEWEST_VERSION,
                claims=claims,
                nonce=new_nonce(),
                agent=self._name,
                pid=os.getpid(),
                hostname=socket.gethostname(),
                software=VERSION,
                clock_ns=time.monotonic_ns(),
                clock_id=clock_id(),
            )
            await self._link.join(hello, key)
            living = asyncio.create_task(self._live())
            try:
                while not self._has_left:
                    self._heard(*await self._link.receive())
                await self._link.drained()
            finally:
                living.cancel()

    def _heard(self, value: Any, job: int | None) -> None:
        match value:
            case control.Setup():
                self._tally.interval_ns = value.report_interval_ns
                for number, part in value.jobs.items():
                    places = {place.rank: control.Address(place.host, _PORT) for place in part.ranks}
                    self._left = {place.rank: place.nodes for place in part.ranks}
                    self._link.send(control.Bound(places), number)
            case Chunk():
                ids = value.node_id
                self._nodes.setdefault(value.rank, []).extend(int(ids[place]) for place in value.communications)
                self._left[value.rank] -= len(value)
                if not any(self._left.values()):  # programs fit the window: they are sent once
                    self._link.send(control.Ready(), job)
                    self._left = {}
            case control.Prepare() if not self._left and self._nodes:
                self._link.send(control.Ready(), job)
            case control.Start():
                self._playing = asyncio.create_task(self._play(value.iteration, job))
            case control.Finish():
                self._tally.last_ns = time.monotonic_ns()
                self._link.send(control.Farewell((), 0, 0), job)
            case control.Leave():
                self._link.send(control.Left())
                self._has_left = True

    async def _play(self, iteration: int, job: int | None) -> None:
        self._begins()
        begin_ns, rate = time.monotonic_ns(), self._load.rate
        ranks = list(self._nodes)
        rows = [pair for nodes in zip(*self._nodes.values(), strict=True) for pair in zip(ranks, nodes, strict=True)]
        sent = 0
        while sent < len(rows):  # what is due, in one message: more of it if the controller does not keep up
            await asyncio.sleep(self._tally.interval_ns / NS_PER_S)
            due = round((time.monotonic_ns() - begin_ns) / NS_PER_S * rate) if rate else len(rows)
            if self._link.waiting:
                self._tally.held += 1
                continue
            part = np.array(rows[sent : min(due, sent + LARGEST_BATCH)], np.uint64)
            if len(part):
                self._link.send(_completions(iteration, part, time.monotonic_ns()), job)
                self._note(len(part))
                sent += len(part)
        now = time.monotonic_ns()
        summaries = [RankSummary(rank, begin_ns, now, 0, now - begin_ns, 0) for rank in self._nodes]
        self._link.send(control.IterationDone(iteration, summaries), job)

    def _note(self, count: int) -> None:
        tally, now = self._tally, time.monotonic_ns()
        self._events += count
        tally.completions += count
        tally.messages += 1
        tally.first_ns = tally.first_ns or now

    async def _live(self) -> None:
        while True:
            await asyncio.sleep(progress_interval_s(0, report_interval_s=self._tally.interval_ns / NS_PER_S))
            if self._nodes:
                self._link.send(control.Progress(self._events, self._events, False, ""), 0)


def _completions(iteration: int, rows: np.ndarray[Any, np.dtype[np.uint64]], now: int) -> Completions:
    times = np.full(len(rows), now, np.int64)
    nothing = np.zeros(len(rows), np.int64)
    return Completions(
        iteration=iteration, rank=rows[:, 0].astype(np.int64), node_id=rows[:, 1], post_ns=times - 1000, done_ns=times,
        arrival_ns=times, bytes_sent=nothing, bytes_received=nothing, early=np.zeros(len(rows), np.bool_),
        read_delay_ns=nothing - 1, core_wait_ns=nothing,
    )  # fmt: skip


def _agents(names: Sequence[str], load: Load, results: Any, playing: Any) -> None:
    """A process of agents."""
    tally = Tally()
    control_link._OPTIONS.insert(0, ("grpc.use_local_subchannel_pool", 1))  # a connection for each agent

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(LoadAgent(name, load, tally, playing.set).run())

    try:
        asyncio.run(run())
    except* EmulatorError as errors:
        results.put(str(errors.exceptions[0]))
    else:
        results.put(tally)


def topology(agents: int, ranks: int) -> str:
    """YAML of hosts with an agent each."""
    slots = -(-ranks // agents)
    size = 1 << (slots + 1).bit_length()
    if agents * size > _ADDRESSES:
        raise SystemExit(f"{agents} hosts with {slots} ranks need more addresses than 198.18.0.0/15 has")
    bits = 33 - size.bit_length()
    lines = ["name: load", "hosts:"]
    lines += [
        f"  - {{name: h{n}, slots: {slots}, per_rank: {_FIRST_ADDRESS + n * size}/{bits}}}" for n in range(agents)
    ]
    lines += ["agents:", *(f"  h{n}: a{n}" for n in range(agents))]
    return "\n".join(lines) + "\n"


@dataclass(slots=True)
class Watch:
    """Reads what a process occupies, once a second, on a thread."""

    pid: int
    rss: list[tuple[float, int, float]] = field(default_factory=list)
    """(monotonic seconds, resident bytes, CPU seconds)."""

    def follow(self, over: threading.Event) -> None:
        """Until `over`, or the process has ended."""
        with contextlib.suppress(OSError, IndexError):
            while not over.wait(0.25):
                fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
                cpu_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
                self.rss.append((time.monotonic(), int(fields[21]) * os.sysconf("SC_PAGE_SIZE"), cpu_s))

    def within(self, begin_s: float, end_s: float) -> list[tuple[float, int, float]]:
        """The readings of a span of time."""
        return [one for one in self.rss if begin_s <= one[0] <= end_s]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, default=512)
    parser.add_argument("--ranks", type=int, default=16384)
    parser.add_argument("--collectives", type=int, default=64, help="of an iteration")
    parser.add_argument("--iterations", type=int, default=1)
    parser.add_argument("--rate", type=float, default=50_000, help="completions per second; 0: as fast as possible")
    parser.add_argument("--processes", type=int, default=4, help="that share the agents")
    parser.add_argument("--stop", type=float, default=0, metavar="S", help="stop the controller for so long")
    parser.add_argument("--profile", metavar="FILE", help="profile of the controller, for pstats")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="charkha-load-") as folder:
        _measure(args, Path(folder))


def _measure(args: argparse.Namespace, folder: Path) -> None:
    (folder / "load.yaml").write_text(topology(args.agents, args.ranks))
    token = secrets.token_urlsafe(24)
    (folder / "token").write_text(token)
    (folder / "token").chmod(0o600)
    target = f"unix:{folder}/agents.sock"
    sizes = ",".join(str(4 * (k + 1)) for k in range(args.collectives))
    bench = ("bench", "all_reduce", "-n", str(args.ranks), "--sizes", sizes, "--iterations", str(args.iterations))
    joining = ("--topology", str(folder / "load.yaml"), "--listen", target, "--token-file", str(folder / "token"))
    rest = ("--warmup", "0", "--no-report", "--join-timeout", "300", "--timeout", "300", "--out", str(folder / "run"))
    started = time.monotonic()
    profile = ("-m", "cProfile", "-o", args.profile) if args.profile else ()
    command = [sys.executable, "-P", *profile, "-m", "emulator", *bench, *joining, *rest]
    over = threading.Event()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as charkha:
        watch = Watch(charkha.pid)
        thread = threading.Thread(target=watch.follow, args=(over,))
        thread.start()
        try:
            tallies = _load(args, Load(target, token, args.rate / args.agents), charkha)
        finally:
            over.set()
            thread.join()
            charkha.send_signal(signal.SIGINT)  # nobody needs its tables
    _print(tallies, watch, started, args.rate)


def _load(args: argparse.Namespace, load: Load, charkha: subprocess.Popen[bytes]) -> list[Tally]:
    context = multiprocessing.get_context("spawn")
    results, playing = context.Queue(), context.Event()
    names = [f"a{n}" for n in range(args.agents)]
    processes = [
        context.Process(target=_agents, args=(names[k :: args.processes], load, results, playing), daemon=True)
        for k in range(args.processes)
    ]
    for process in processes:
        process.start()
    if args.stop:
        threading.Thread(target=_stop, args=(charkha.pid, args.stop, playing), daemon=True).start()
    found: list[Any] = []
    while len(found) < len(processes):
        try:
            found.append(results.get(timeout=1))
        except queue.Empty:
            if charkha.poll() is not None:
                raise SystemExit(f"charkha ended with exit code {charkha.returncode}") from None
    for one in found:
        if isinstance(one, str):
            raise SystemExit(one)
    return found


def _stop(pid: int, seconds: float, playing: Any) -> None:
    playing.wait()
    time.sleep(seconds)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(seconds)
    os.kill(pid, signal.SIGCONT)


def _print(tallies: Sequence[Tally], watch: Watch, started: float, rate: float) -> None:
    begin_s = min(one.first_ns for one in tallies) / NS_PER_S
    end_s = max(one.last_ns for one in tallies) / NS_PER_S
    count, took = sum(one.completions for one in tallies), end_s - begin_s
    during = watch.within(begin_s, end_s)
    print(f"start to first completion: {begin_s - started:.1f} s")
    asked = f"{rate:,.0f} asked" if rate else "as many as it takes"
    print(f"completions: {count:,} taken in {took:.1f} s, {count / took:,.0f} per second ({asked})")
    cpu = (during[-1][2] - during[0][2]) / (during[-1][0] - during[0][0])
    first, most, last = (
        f"{size / 1e6:.0f} MB" for size in (during[0][1], max(one[1] for one in during), during[-1][1])
    )
    print(f"controller: {cpu:.0%} of a core, {cpu * took / count * 1e6:.1f} µs per completion")
    print(f"  resident {first} at the first completion, {last} at the last, at most {most}")
    messages, held = sum(one.messages for one in tallies), sum(one.held for one in tallies)
    each = f"of {count / messages:.1f} completions, every {tallies[0].interval_ns / 1e6:.0f} ms"
    print(f"messages: {messages:,}, {each}; {held:,} times an agent had to wait")


if __name__ == "__main__":
    main()
