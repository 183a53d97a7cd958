"""Outages of a link at random moments in a lab, and what the run says of them: the port, a probe over UDP, and the job.

    python -m lab.benchmarks.outages --trials N --clean N [--seed N] [--counted]

Needs root. In a lab of leaf-spine-1x2, one all-reduce of 64 MiB is played beside a datagram every millisecond. A trial
takes a link down for 50, 200 or 800 ms in turns. Nothing passes from when the link goes down until its router has the
routes through it back. The kernel says both, but it stops to send at any time between being asked and saying that the
link is down: "within". The script prints, for each trial, how much longer the outage was: the port's than planned; the
probe's than the time in which nothing passed, as far as it is outside of what is possible; the job's than the longest
that is possible. A trial is right if the port was not down for less than planned and "within" (on a busy host the lab
takes it up late), the probe is within 5 ms, and the job between 2 bins less and 2 bins more than the time-out of its
queue pairs that ran when something could pass again.

With --counted the port's outage is also found without the kernel's news of links, in its counter of frames sent, which
is then read every 20 ms, and on a busy host less often: the longest time in which it did not grow. The script prints
how much longer that was than nothing passed, and how many are within two of the intervals in which it was read.

A clean run has an event afterwards that did not happen: neither the probe nor the job may report an outage.
Exit code 1 if a trial or a clean run is not right.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from emulator.host.parquet import write_parquet
from emulator.results.run_folder.reader import Run, read_run
from emulator.results.run_folder.schema import BEGIN, BY_KERNEL, END, RunTable, to_batch
from emulator.results.statistics.samples.iterations import iteration_spans
from emulator.results.statistics.summary import summarise
from emulator.results.statistics.traffic.dut_counters import FRAMES_OUT, CounterName, counter_series
from emulator.roce.connection.send_queue import LONGEST_TIMEOUT_FACTOR
from lab.benchmarks.verdicts.trials import charkha, raised

TOPOLOGY = Path("topologies/leaf-spine-1x2.yaml").resolve()
PORT, DOWN_MS, LATEST_MS = "leaf0:u0", (50, 200, 800), 350
MS = 1_000_000
BIN_NS, MOST_PROBE_ERROR_NS = MS, 5 * MS
TIMEOUT_NS = 4096 << 15
"""Of --qp-timeout 15; after each without an answer the next one takes twice as long, up to LONGEST_TIMEOUT_FACTOR."""
SPEC = """charkha: 1
jobs: [{sweep: {collective: all_reduce, ranks: 2, sizes: [64M]}, iterations: 1, warmup: 0}]
network: {transport: {options: {qp_timeout: 15}}}
background: [{from: h0, to: h1, rate: 1.296Mbit, pattern: constant, transport: udp, size: 64}]
"""
COUNTED = "device: {counters_every_s: 0.02}\n"


class Trial(NamedTuple):
    """What a run says of an outage: how much longer, ns; None: it says nothing.

    Attributes:
        port: than planned, by the kernel's news.
        within: by how much the kernel's news can be late.
        routes: from when the link was up to when its routes were back.
        probe, stated: than nothing passed, and the error that stands beside it.
        job: of the queue pairs: than nothing passed, at most.
        timer: the time-out of a queue pair that was running when something could pass again.
        counted: of the port's counter: than nothing passed, as far as it is outside of what is possible.
        interval: between two readings of it, the longest of those around the outage.
    """

    port: int
    within: int
    routes: int
    probe: int | None
    stated: int
    job: int | None
    timer: int
    counted: int | None
    interval: int

    @property
    def is_counted_right(self) -> bool:
        """Whether the counter says the same within two intervals."""
        return self.counted is not None and abs(self.counted) <= 2 * self.interval

    @property
    def is_right(self) -> bool:
        """Whether all are within their bounds."""
        if self.probe is None or self.job is None:
            return False
        is_job_right = -2 * BIN_NS - self.within <= self.job <= self.timer + 2 * BIN_NS
        return self.port >= -self.within and abs(self.probe) <= MOST_PROBE_ERROR_NS and is_job_right

    def __str__(self) -> str:
        found = (self.probe, self.job, self.counted)
        probe, job, counted = ("nothing found" if one is None else f"{one / MS:+.2f} ms" for one in found)
        port = f"port {self.port / MS:+.2f} ms (within {self.within / MS:.2f} ms)"
        told = f"routes {self.routes / MS:.2f} ms later, probe {probe} (± {self.stated / MS:.2f} ms), job {job}"
        return f"{port}, {told}, counter {counted} (read every {self.interval / MS:.1f} ms)"


def trial(folder: Path, lab: str, at_ms: int, down_ms: int, *, spec: str = SPEC) -> Trial | None:
    """Take the link down once; None: the run failed."""
    events = f"events: [{{at: {at_ms}ms, port: '{PORT}', down: {down_ms}ms}}]\n"
    run = _played(folder, lab, spec + events)
    if run is None:
        return None
    [found] = summarise(run).events
    event, least_ns = found.event, found.event.unusable_ns
    if event.lasted_ns is None or least_ns is None:
        return None
    most_ns = least_ns + (event.begin_error_ns or 0)
    outage_ns = found.probe_outage_ns
    counted_ns, interval_ns = counted_outage(run)
    return Trial(
        port=event.lasted_ns - down_ms * MS,
        within=(event.begin_error_ns or 0) + (event.end_error_ns or 0),
        routes=least_ns - event.lasted_ns,
        probe=_beyond(outage_ns, least_ns, most_ns) if outage_ns else None,
        stated=found.probe_error_ns or 0,
        job=found.outage_ns - most_ns if found.outage_ns else None,
        timer=running_timer(most_ns),
        counted=_beyond(counted_ns, least_ns, most_ns) if counted_ns else None,
        interval=interval_ns,
    )


def _beyond(ns: int, least_ns: int, most_ns: int) -> int:
    """How far a time is outside of what is possible."""
    return ns - min(max(ns, least_ns), most_ns)


def counted_outage(run: Run) -> tuple[int, int]:
    """(the longest time in which the port sent no frame by its own counter, the longest interval of it and around it).

    It began between the last reading that is smaller and the first that is equal, and ended likewise: the middle of
    both. 0: the counter grew in every interval.
    """
    node, _, port = PORT.partition(":")
    readings = counter_series(run.table(RunTable.COUNTERS))[CounterName(node, port, FRAMES_OUT)]
    time_ns, grows = readings.time_ns, np.diff(readings.value) > 0
    moving = np.flatnonzero(grows)
    first, last = moving[:-1], moving[1:]  # intervals in which it grows, with none between them in which it does
    if not (last > first + 1).any():
        return 0, int(np.diff(time_ns).max(initial=0))
    longest = int(np.argmax(np.where(last > first + 1, time_ns[last] - time_ns[first + 1], -1)))
    begin, end = int(first[longest]), int(last[longest])
    least, most = time_ns[end] - time_ns[begin + 1], time_ns[end + 1] - time_ns[begin]
    return int(least + most) // 2, int(np.diff(time_ns[begin : end + 2]).max())


def running_timer(after_ns: int) -> int:
    """The time-out that runs so long after the first one began, ns."""
    timer_ns = ends_ns = TIMEOUT_NS
    while ends_ns <= after_ns + 2 * BIN_NS:
        timer_ns = min(2 * timer_ns, LONGEST_TIMEOUT_FACTOR * TIMEOUT_NS)
        ends_ns += timer_ns
    return timer_ns


def reported(folder: Path, lab: str, at_ms: int, down_ms: int) -> int | None:
    """Outages in a clean run that reports what an event cost that did not happen; None: it failed."""
    run = _played(folder, lab, SPEC)
    if run is None:
        return None
    begin_ns = min(one.start_ns for one in iteration_spans(run.table(RunTable.ITERATIONS), run.manifest).values())
    node, _, port = PORT.partition(":")
    times = [begin_ns + at_ms * MS, begin_ns + (at_ms + down_ms) * MS]
    rows = {
        "name": ["sham"] * 2, "edge": [BEGIN, END], "what": ["nothing"] * 2, "device": [node] * 2,
        "interface": [port] * 2, "stops_traffic": [True] * 2, "planned_ns": times, "time_ns": times,
        "uncertainty_ns": [0] * 2, "seen_by": [BY_KERNEL] * 2,
    }  # fmt: skip
    schema = RunTable.EVENTS.schema
    write_parquet(run.folder / RunTable.EVENTS.file_name, schema, iter([to_batch(schema, rows)]))
    summary = summarise(read_run(run.folder))
    [found] = summary.events
    of_probes = sum(len(one.outages) for one in summary.background)
    return of_probes + bool(found.outage_ns) + bool(found.probe_outage_ns)


def _played(folder: Path, lab: str, spec: str) -> Run | None:
    folder.mkdir()
    (folder / "run.yaml").write_text(spec)
    out = folder / "run"
    charkha("run", "-f", folder / "run.yaml", "--topology", TOPOLOGY, "--lab", lab, "--out", out, "--no-report")
    return read_run(out) if (out / "manifest.json").exists() else None


def main(arguments: Sequence[str]) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m lab.benchmarks.outages", description=__doc__.split("\n")[0])
    parser.add_argument("--trials", type=int, default=9)
    parser.add_argument("--clean", type=int, default=9)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--counted", action="store_true", help="read counters every 20 ms: that takes processor time")
    chosen = parser.parse_args(arguments)
    chance, found, false = random.Random(chosen.seed), [], []
    lab = f"outages-{os.getpid()}"
    with tempfile.TemporaryDirectory(prefix="charkha-outages-") as place, raised(TOPOLOGY, lab_id=lab):
        for number in range(chosen.trials):
            at_ms, down_ms = chance.randrange(20, LATEST_MS), DOWN_MS[number % len(DOWN_MS)]
            spec = SPEC + (COUNTED if chosen.counted else "")
            one = trial(Path(place) / f"trial-{number}", lab, at_ms, down_ms, spec=spec)
            found.append(one)
            told = "the run failed" if one is None else f"{'right' if one.is_right else 'WRONG'}: {one}"
            print(f"{number:3} {down_ms:4} ms at {at_ms:4} ms  {told}", flush=True)
        for number in range(chosen.clean):
            at_ms, down_ms = chance.randrange(20, LATEST_MS), DOWN_MS[number % len(DOWN_MS)]
            outages = reported(Path(place) / f"clean-{number}", lab, at_ms, down_ms)
            false.append(outages)
            print(f"{number:3} clean  {'the run failed' if outages is None else f'{outages} outages'}", flush=True)
    right = sum(one is not None and one.is_right for one in found)
    probes = [(abs(one.probe) / MS, one.stated / MS) for one in found if one is not None and one.probe is not None]
    print(f"{right} of {len(found)} outages right, {false.count(0)} of {len(false)} clean runs without one")
    if chosen.counted:
        counted = sum(one is not None and one.is_counted_right for one in found)
        print(f"{counted} of {len(found)} within two intervals by the port's counter")
    if probes:
        errors, inside = [one for one, _ in probes], sum(error <= stated for error, stated in probes)
        print(f"probe: error {statistics.median(errors):.2f} ms at the median, at most {max(errors):.2f} ms,")
        print(f"{inside} of {len(probes)} times inside the error that stands beside it")
    return int(right < len(found) or false.count(0) < len(false))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
