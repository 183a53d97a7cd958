"""Groups of runs whose times were recorded (tests/data/recorded-times.parquet), without their folders."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from emulator.results.comparison.comparability import check_comparability
from emulator.results.comparison.groups import ExcludedRun, MeasuredRun, RunGroup
from emulator.results.comparison.verdicts import ComparisonRules, GroupComparison, compare
from emulator.results.statistics.samples.classes import ClassKey
from emulator.results.statistics.samples.iterations import Measurements, Times
from tests.support.runs import manifest

FILE = Path(__file__).resolve().parents[1] / "data" / "recorded-times.parquet"


@cache
def recorded(name: str) -> Sequence[MeasuredRun]:
    """The runs of a set: zmq, roce, paced, slower; in the order they were made."""
    runs: dict[int, dict[ClassKey, list[tuple[int, int]]]] = {}
    for row in pq.read_table(FILE, filters=[("set", "=", name)]).to_pylist():
        key = ClassKey(row["collective"], row["members"], row["size_bytes"], row["algorithm"])
        runs.setdefault(row["run"], {}).setdefault(key, []).append((row["iteration"], row["time_ns"]))
    return [_run(name, number, classes) for number, classes in runs.items()]


def _run(name: str, number: int, classes: dict[ClassKey, list[tuple[int, int]]]) -> MeasuredRun:
    times = {key: Times(*np.array(rows, np.int64).T) for key, rows in classes.items()}
    created = f"2026-01-02T{number // 60:02}:{number % 60:02}:00+00:00"
    facts = manifest(run_id=f"{name}-{number}", created=created)
    return MeasuredRun(Path(f"{name}-{number}"), facts, Measurements(times, 0))


def slowed(run: MeasuredRun, factor: float) -> MeasuredRun:
    """The same run with every time stretched."""
    classes = {
        key: replace(times, time_ns=np.rint(times.time_ns * factor).astype(np.int64))
        for key, times in run.measurements.classes.items()
    }
    return replace(run, measurements=replace(run.measurements, classes=classes))


def group(name: str, runs: Sequence[MeasuredRun]) -> RunGroup:
    """Runs as a group."""
    return RunGroup(name, runs)


def compared(*groups: RunGroup, rules: ComparisonRules | None = None) -> GroupComparison:
    """The first group with every other one, quickly."""
    return compare(groups, check_comparability(groups), rules or ComparisonRules(resamples=199))


@cache
def slower_firmware() -> GroupComparison:
    """Six runs against six that take a fifth longer, of seven."""
    runs = recorded("paced")
    return compared(
        RunGroup("fw-a", runs[0:12:2]),
        RunGroup("fw-b", [slowed(run, 1.2) for run in runs[1:12:2]], [ExcludedRun(runs[20].folder, "aborted: lost")]),
    )


@cache
def too_few_runs() -> GroupComparison:
    """Two runs against two, which decide nothing."""
    runs = recorded("paced")
    return compared(RunGroup("fw-a", runs[0:4:2]), RunGroup("fw-b", [slowed(run, 1.2) for run in runs[1:4:2]]))


@cache
def three_versions() -> GroupComparison:
    """Each a tenth slower than the one before it."""
    runs = recorded("paced")
    return compared(*(RunGroup(f"v{n}", [slowed(run, 1 + 0.1 * n) for run in runs[n:15:3]]) for n in range(3)))
