"""Whether memory, descriptors and threads of controller, agents and service grow: slopes with 95 % intervals.

    python -m lab.benchmarks.soak [--minutes N] [--json FILE]

Plays all-reduces with compute between them over loopback, continuously and at a modest rate, and reads /proc every few
seconds. Meanwhile a user of a service queues short runs, follows them, and loads pages. Neighbouring readings are not
independent: a slope is a least-squares fit through the means of equal spans of time, its interval is Student's t. The
first part, in which caches fill, is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event

import numpy as np

from emulator.annexes.service.client import Client
from lab.benchmarks.started_service import StartedService, started_service

_SPANS = 12
_ITERATION_S = 2  # of compute
_END_S = 60
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_COMMAND = (sys.executable, "-P", "-m", "emulator")


@dataclass(frozen=True, slots=True)
class Reading:
    """What a process occupied.

    Attributes:
        at_s: since the start.
        resident_bytes, descriptors, threads: at that time.
        cpu_s: consumed until then.
    """

    at_s: float
    resident_bytes: int
    descriptors: int
    threads: int
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Slope:
    """Growth per hour.

    Attributes:
        per_hour, low, high: estimate and bounds of its 95 % interval.
        first, last: means of the first and last span.
    """

    per_hour: float
    low: float
    high: float
    first: float
    last: float

    def text(self, unit: str, scale: float = 1) -> str:
        """In a unit of `scale`."""
        rate, low, high = (f"{value / scale:+.3f}" for value in (self.per_hour, self.low, self.high))
        return f"{self.first / scale:.2f} → {self.last / scale:.2f} {unit}, {rate} {unit}/h [{low}, {high}]"


def main() -> None:
    """Play, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--skip", type=float, default=0.2, metavar="SHARE", help="share of the time to leave out first")
    parser.add_argument("--every", type=float, default=5, metavar="S", help="seconds between readings")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--rate", type=int, default=10, help="all-reduces a second, about")
    parser.add_argument("--bytes", default="64K", help="size of an all-reduce")
    parser.add_argument(
        "--queue-every", type=float, default=30, metavar="S", help="seconds between runs at the service"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every reading")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="charkha-soak-") as folder:
        readings = _soak(args, Path(folder))
    if args.json:
        args.json.write_text(json.dumps({name: [asdict(one) for one in all_] for name, all_ in readings.items()}))
    for name, found in readings.items():
        _print(name, [one for one in found if one.at_s >= args.skip * args.minutes * 60])


def _soak(args: argparse.Namespace, folder: Path) -> dict[str, list[Reading]]:
    """Readings by name of process."""
    trace, run = str(folder / "trace"), str(folder / "run")
    collective = ("collective", "all_reduce", "-n", str(args.ranks), "-b", args.bytes)
    pauses = ("--count", str(_ITERATION_S * args.rate), "--gap-micros", str(1_000_000 // args.rate))
    subprocess.run(
        [*_COMMAND, "trace", "generate", *collective, *pauses, "--out", trace], check=True, stdout=subprocess.DEVNULL
    )
    iterations = 2 + int(2 * args.minutes * 60 / _ITERATION_S)  # never the end of the run within the time
    play = ("--iterations", str(iterations), "--pace", "continuous", "--no-report", "--out", run)
    readings: dict[str, list[Reading]] = {}
    with (
        _service(folder, args.queue_every) as (service, user),
        subprocess.Popen([*_COMMAND, "run", trace, *play], stdout=subprocess.DEVNULL) as charkha,
    ):
        for at_s in _ticks(args.minutes * 60, args.every):
            if charkha.poll() is not None:
                raise SystemExit(f"charkha ended with exit code {charkha.returncode} after {at_s:.0f} s")
            agents = {f"agent {place}": pid for place, pid in enumerate(_agents(charkha.pid))}
            for name, pid in {"controller": charkha.pid, **agents, "service": service.process.pid}.items():
                readings.setdefault(name, []).append(_reading(pid, at_s))
            if user.done():
                user.result()
        charkha.send_signal(signal.SIGINT)
        charkha.wait(_END_S)
    print(f"the service played {user.result()} runs")
    return readings


@contextmanager
def _service(folder: Path, every_s: float) -> Iterator[tuple[StartedService, Future[int]]]:
    """A service with a user, whose future has the number of runs once the service is to end."""
    is_over = Event()
    with started_service(folder) as service, ThreadPoolExecutor(1) as pool:
        user = pool.submit(_use, service.url, service.token, every_s, is_over)
        try:
            yield service, user
        finally:
            is_over.set()
        user.result()


def _use(url: str, token: str, every_s: float, is_over: Event) -> int:
    """Queue short runs, follow each to its end, and look at it; returns their number."""
    client = Client(url, token)
    (spec,) = client.compose(trace="transformer-8r", iterations=2).specs.values()
    runs = 0
    while not is_over.is_set():
        (run,) = client.submit(dut="loopback", spec=spec)
        for _ in client.follow_run(run.id):
            pass
        client.get_report(run.id)
        for page in ("", "runs", f"runs/{run.id}", f"runs/{run.id}/report"):
            request = urllib.request.Request(f"{url}{page}", headers={"Authorization": f"Bearer {token}"})
            with urllib.request.urlopen(request, timeout=_END_S) as answer:
                answer.read()
        runs += 1
        is_over.wait(every_s)
    return runs


def _ticks(duration_s: float, every_s: float) -> Iterator[float]:
    begin = time.monotonic()
    while (at_s := time.monotonic() - begin) < duration_s:
        yield at_s
        time.sleep(every_s)


def _agents(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task").glob("*/children")
    found = sorted(int(child) for listed in children for child in listed.read_text().split())
    return [child for child in found if b"agent" in Path(f"/proc/{child}/cmdline").read_bytes()]


def _reading(pid: int, at_s: float) -> Reading:
    process = Path(f"/proc/{pid}")
    resident = int((process / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    cpu_s = (int(fields[11]) + int(fields[12])) * _TICK_S  # utime and stime, proc_pid_stat(5)
    return Reading(at_s, resident, sum(1 for _ in (process / "fd").iterdir()), int(fields[17]), cpu_s)


def slope(at_s: list[float], values: list[float]) -> Slope:
    """Growth of a series of readings; at least `_SPANS` of them."""
    from scipy import stats

    times = np.array([span.mean() for span in np.array_split(np.array(at_s), _SPANS)]) / 3600
    means = np.array([span.mean() for span in np.array_split(np.array(values), _SPANS)])
    fit = stats.linregress(times, means)
    reach = stats.t.ppf(0.975, _SPANS - 2) * (fit.stderr if np.ptp(means) else 0)
    return Slope(fit.slope, fit.slope - reach, fit.slope + reach, means[0], means[-1])


def _print(name: str, readings: list[Reading]) -> None:
    if len(readings) < _SPANS:
        print(f"{name}: {len(readings)} readings, too few for a slope")
        return
    at_s = [one.at_s for one in readings]
    span_s = at_s[-1] - at_s[0]
    cpu = (readings[-1].cpu_s - readings[0].cpu_s) / span_s
    print(f"{name}: {len(readings)} readings over {span_s / 60:.1f} min, {cpu:.1%} of a core")
    print(f"  resident     {slope(at_s, [one.resident_bytes for one in readings]).text('MB', 1e6)}")
    print(f"  descriptors  {slope(at_s, [one.descriptors for one in readings]).text('open')}")
    print(f"  threads      {slope(at_s, [one.threads for one in readings]).text('threads')}")


if __name__ == "__main__":
    main()
