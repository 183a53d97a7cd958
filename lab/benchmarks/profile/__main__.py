"""Where the wall time of an iteration and the processor time of a message go, by layer, in controller and agents.

python -m lab.benchmarks.profile -n 8 -b 1K --iterations 2000

Processor time is that of the measured iterations alone. It is sampled, which costs some per cent of it: compare shares,
and figures of one run, not with runs without samples. Layers of a compiled build have no frames: use the pure source.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from rich import box
from rich.console import Console
from rich.table import Table

from emulator.units import format_duration
from lab.benchmarks.profile import sitecustomize

LOOP, THREADS = "event loop, gRPC", "other threads (gRPC)"
LAYERS: Sequence[tuple[str, tuple[str, ...]]] = (
    ("sockets: system calls", ("agents.nic.system_calls", "agents.nic.sockets")),
    ("reading: passes, packets to channels", ("agents.nic.reader", "agents.nic.passes", "agents.nic.trimmed")),
    ("sending: ports, runs of packets", ("agents.nic.port", "agents.nic.transmitter", "agents.nic.spray")),
    ("connections", ("agents.nic", "agents.transports")),
    ("RoCE: headers", ("emulator.roce.wire",)),
    ("RoCE: queue pairs, congestion", ("emulator.roce",)),
    ("steps of collectives", ("agents.play", "emulator.planner")),
    ("reports of agents", ("agents",)),
    ("clock", ("emulator.host",)),
    ("control messages", ("emulator.control",)),
    ("recording", ("emulator.controller.recording", "emulator.results")),
    ("controller", ("emulator",)),
)
"""(layer, modules), the first that fits."""


@dataclass(slots=True)
class Used:
    """Processor time of one kind of process during the measured iterations, ns by layer."""

    processes: int = 0
    layers: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Profile:
    """What a run took.

    Attributes:
        wall_ns: part of an iteration → its time in each iteration.
        used: by kind of process.
        messages: sent in all measured iterations.
    """

    wall_ns: Mapping[str, np.ndarray]
    used: Mapping[str, Used]
    iterations: int
    messages: int


def layer_of(module: str) -> str:
    """The layer of a module; "-" is the event loop."""
    fits = (name for name, rooms in LAYERS if any(f"{module}.".startswith(f"{room}.") for room in rooms))
    return next(fits, LOOP)


def profile(command: Sequence[str], *, iterations: int) -> Profile:
    """Run `charkha bench` with samples, and read what it took.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    with tempfile.TemporaryDirectory(prefix="charkha-profile-") as held:
        run, samples = Path(held) / "run", Path(held) / "samples"
        samples.mkdir()
        paths = [str(Path(sitecustomize.__file__).parent), os.environ.get("PYTHONPATH", "")]
        variables = {sitecustomize.FOLDER: str(samples), "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        argv = [*command, "--iterations", str(iterations), "--no-report", "--out", str(run)]
        with subprocess.Popen(argv, env={**os.environ, **variables}, stdout=subprocess.DEVNULL) as process:
            if process.wait():
                raise subprocess.CalledProcessError(process.returncode, argv)
        wall_ns, first_ns, last_ns = _iterations(run)
        used = _used(samples, controller=str(process.pid), between=(first_ns, last_ns))
        flows = pq.read_table(run / "flows.parquet", columns=["messages"])
        warmup = len(wall_ns["collective"]) / (len(wall_ns["collective"]) + 1)  # one warm-up iteration
        return Profile(wall_ns, used, iterations, round(sum(flows["messages"].to_pylist()) * warmup))


def _iterations(run: Path) -> tuple[Mapping[str, np.ndarray], int, int]:
    """(parts of the iterations, ns; when the first one was posted and the last one done)."""
    table = pq.read_table(run / "samples.parquet", columns=["iteration", "post_ns", "done_ns"])
    iteration, post, done = (table[name].to_numpy() for name in ("iteration", "post_ns", "done_ns"))
    order = np.argsort(iteration, kind="stable")
    order = order[iteration[order] >= 0]
    starts = np.flatnonzero(np.diff(iteration[order], prepend=-1))
    first, last = np.minimum.reduceat(post[order], starts), np.maximum.reduceat(post[order], starts)
    end = np.maximum.reduceat(done[order], starts)
    parts = {
        "collective": end - last,
        "skew of posts": last - first,
        "last done to next post": first[1:] - end[:-1],
    }
    return parts, int(first[0]), int(end[-1])


def _used(samples: Path, *, controller: str, between: tuple[int, int]) -> Mapping[str, Used]:
    found = {"controller": Used(), "agents": Used()}
    for file in samples.iterdir():
        kind = found["controller" if file.name == controller else "agents"]
        rows = [(int(at), int(main), int(others), room) for at, main, others, room in _lines(file)]
        kept = [row for row in rows if between[0] <= row[0] <= between[1]]
        kind.processes += bool(kept)
        for _, main, others, room in kept:
            kind.layers[layer_of(room)] += main
            kind.layers[THREADS] += others
    return found


def _lines(file: Path) -> Iterator[list[str]]:
    return (line.split(" ") for line in file.read_text().splitlines())


def tables(found: Profile) -> Iterator[Table]:
    """Wall time by part, then processor time by layer."""
    wall = _table("wall time of an iteration", "part", "p50", "p90", "p99")
    for part, times in found.wall_ns.items():
        wall.add_row(part, *(format_duration(float(np.percentile(times, percent))) for percent in (50, 90, 99)))
    yield wall
    columns = [f"{kind} ({used.processes}), an iteration" for kind, used in found.used.items()]
    work = _table("processor time", "layer", *columns, "agents, a message")
    names = [*(name for name, _ in LAYERS), LOOP, THREADS]
    for name in names:
        times = [used.layers[name] for used in found.used.values()]
        if any(times):
            work.add_row(name, *_cells(times, found))
    work.add_section()
    work.add_row("all", *_cells([sum(used.layers.values()) for used in found.used.values()], found))
    yield work


def _cells(times: Sequence[int], found: Profile) -> list[str]:
    each = [format_duration(time / found.iterations) if time else "-" for time in times]
    return [*each, format_duration(times[-1] / found.messages) if times[-1] and found.messages else "-"]


def _table(title: str, first: str, *others: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="right")
    return table


def main(arguments: Sequence[str]) -> int:
    """Profile a bench; what is not understood is passed on to it."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.benchmarks.profile",
        description=__doc__.splitlines()[0],  # type: ignore[union-attr]
        epilog="Other options are those of charkha bench, such as --credits off or --topology FILE --lab NAME.",
    )
    parser.add_argument("--collective", default="all_reduce", help="default: %(default)s")
    parser.add_argument("-n", dest="ranks", type=int, default=8, help="ranks (default: %(default)s)")
    parser.add_argument("-b", dest="size", default="1K", help="size (default: %(default)s)")
    parser.add_argument("--iterations", type=int, default=2000, help="default: %(default)s")
    options, others = parser.parse_known_args(arguments)
    command = [sys.executable, "-m", "emulator", "bench", options.collective, "-n", str(options.ranks)]
    command += ["-b", options.size, "-e", options.size, "--warmup", "1", *others]
    try:
        found = profile(command, iterations=options.iterations)
    except subprocess.CalledProcessError as error:
        return error.returncode
    console = Console(width=None if sys.stdout.isatty() else 120)
    for table in tables(found):
        console.print(table)
    console.print(f"{found.iterations:,} iterations, {found.messages / found.iterations:,.0f} messages in each")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
