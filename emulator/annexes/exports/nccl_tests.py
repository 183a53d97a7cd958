"""A run in the two forms that nccl-tests writes, so that what reads those reads this: its table, and its JSON (`-J`).

A table per collective and group size, a row per size and algorithm. Time is the mean cct, as nccl-tests averages.
In-place and out-of-place are the same operation: the table repeats the measurement, the JSON has null in place.
Statistics per iteration are those of every other view (lower median, deviation of the sample), but p95 and p99 are the
nearest rank whatever the count.

Source: nccl-tests 2.19, src/util.cu (layout and names), doc/PERFORMANCE.md (factors).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from emulator.annexes.exports.formats import Format, as_text
from emulator.errors import ResultError
from emulator.results.run_folder.manifest import Manifest
from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.schema import RunTable
from emulator.results.statistics.method.nccl_conventions import busbw_factor, count_elements, root_of
from emulator.results.statistics.samples.classes import ClassKey, class_rows
from emulator.results.statistics.samples.collectives import MERGE_COLUMNS, MergedSamples, merge
from emulator.results.statistics.samples.measured_rows import read_measured
from emulator.trace.meaning.model import CommKind, IntArray
from emulator.trace.meaning.names import class_name
from emulator.units import NS_PER_US
from emulator.views.nccl_table import NcclRow, nccl_table


@dataclass(frozen=True, slots=True)
class MeasuredClass:
    """Every measurement of one class (kind, group size, size, algorithm).

    Attributes:
        kind: a pair of send and receive is a SEND.
        members: ranks in the group.
        size_bytes: as nccl-tests counts it.
        algorithm: "" for send and receive.
        cct_ns: times of the measured iterations, in the order they were played, without negative ones.
        early: measurements part of whose payload moved before the last post: nccl-tests' speeds are of all bytes.
    """

    kind: CommKind
    members: int
    size_bytes: int
    algorithm: str
    cct_ns: IntArray
    early: int

    @property
    def label(self) -> str:
        """Name of the collective, `send_recv` for a pair."""
        return class_name(self.kind)

    @property
    def busbw_factor(self) -> float | None:
        """Bus bandwidth over algorithm bandwidth; None if the class has no bandwidth."""
        return busbw_factor(self.kind, members=self.members) if self.size_bytes and not self.early else None


def measured_classes(run: Run) -> Sequence[MeasuredClass]:
    """The classes of a run, by collective, group size, size and algorithm.

    Raises:
        ResultError: a table of the run is missing or damaged.
    """
    merged = merge(read_measured(run, RunTable.SAMPLES, MERGE_COLUMNS), until=run.manifest.cct_until)
    return [_measured_class(key, merged, rows) for key, rows in class_rows(merged)]


def _measured_class(key: ClassKey, merged: MergedSamples, rows: IntArray) -> MeasuredClass:
    cct_ns = merged.cct_ns[rows]
    return MeasuredClass(
        kind=CommKind(int(merged.kind[rows[0]])),
        members=key.members,
        size_bytes=key.size_bytes,
        algorithm=key.algorithm,
        cct_ns=cct_ns[cct_ns >= 0],
        early=int(np.count_nonzero(merged.early[rows] | ~merged.had_all_to_move[rows])),
    )


JSON_VERSION = 3
"""Of the layout of nccl-tests' JSON."""


def to_text(run: Run) -> str:
    """Tables as nccl-tests prints them.

    Raises:
        ResultError: the run cannot be read, or has no measured collective.
    """
    return "\n".join(line for table in _tables(run) for line in _table_lines(run.manifest, table)) + "\n"


def to_json(run: Run) -> str:
    """What nccl-tests writes with `-J FILE -I 1`; of several collectives the results stand one after another.

    Raises:
        ResultError: the run cannot be read, or has no measured collective.
    """
    rows = [row for table in _tables(run) for row in table]
    manifest = run.manifest
    speeds = [speed[1] for speed in map(_speed, rows) if speed is not None]
    document = {
        "version": JSON_VERSION,
        "start_time": manifest.created,
        "args": list(manifest.command_line),
        "env": [],
        "generator": f"charkha {manifest.versions.get('charkha', '')}".strip(),
        "run_id": manifest.run_id,
        "config": {
            "minimum_bytes": min(row.size_bytes for row in rows),
            "maximum_bytes": max(row.size_bytes for row in rows),
            "warmup_iters": manifest.trials.warmup,
            "iterations": manifest.trials.included,
            "aggregated_iterations": 1,
            "validation": 0,
            "per_iter_timing": "true",
            "per_iter_skip": 0,
            "ranks": manifest.trace.ranks,
        },
        "results": [_result(row) for row in rows],
        "average_bus_bandwidth": {"bandwidth": _mean(speeds), "okay": "unchecked"},
        "errors": [] if manifest.reason is None else [manifest.reason],
    }
    return json.dumps(document, indent=1) + "\n"


def _tables(run: Run) -> list[list[MeasuredClass]]:
    classes = [one for one in measured_classes(run) if len(one.cct_ns)]
    if not classes:
        raise ResultError("has no measured collective", path=run.folder)
    return [list(rows) for _, rows in groupby(classes, key=lambda one: (one.kind, one.members))]


def _table_lines(manifest: Manifest, rows: Sequence[MeasuredClass]) -> Iterator[str]:
    trials = manifest.trials
    lines = [
        NcclRow(row.kind, row.members, row.size_bytes, row.algorithm, _time_us(row), not row.early) for row in rows
    ]
    note = f"charkha run {manifest.run_id}"
    yield from nccl_table(lines, label=rows[0].label, warmup=trials.warmup, iterations=trials.included, notes=[note])
    yield "#"


def _result(row: MeasuredClass) -> dict[str, Any]:
    algbw, busbw = _speed(row) or (None, None)
    return {
        "size": row.size_bytes,
        "count": _count(row),
        "type": "uint8",
        "redop": "none",
        "root": str(root_of(row.kind)),
        "collective": row.label,
        "ranks": row.members,
        "algorithm": row.algorithm,
        "out_of_place": {"time": _time_us(row), "alg_bw": algbw, "bus_bw": busbw, "nwrong": None},
        "out_of_place_per_iter": _per_iteration(row),
        "in_place": None,
        "actual_iterations": len(row.cct_ns),
        "experiment_name": f"{row.label}_{row.members}r",
    }


def _per_iteration(row: MeasuredClass) -> dict[str, Any]:
    times = row.cct_ns / NS_PER_US
    ordered = np.sort(times)
    mean, deviation = float(np.mean(times)), float(np.std(times, ddof=1)) if len(times) > 1 else 0.0
    return {
        "skipped_iterations": 0,
        "min_us": float(ordered[0]),
        "max_us": float(ordered[-1]),
        "avg_us": mean,
        "p50_us": float(ordered[(len(ordered) - 1) // 2]),
        "p95_us": _nearest_rank(ordered.tolist(), 95),
        "p99_us": _nearest_rank(ordered.tolist(), 99),
        "stdev_us": deviation,
        "cv_pct": 100 * deviation / mean if mean else 0.0,
        "times_us": times.tolist(),
    }


def _nearest_rank(ordered: Sequence[float], percent: int) -> float:
    """As nccl-tests defines it: of few iterations the largest, not unknown."""
    return ordered[min(len(ordered), math.ceil(len(ordered) * percent / 100)) - 1]


def _time_us(row: MeasuredClass) -> float:
    return float(np.mean(row.cct_ns)) / NS_PER_US


def _speed(row: MeasuredClass) -> tuple[float, float] | None:
    """(algbw, busbw), 1e9 bytes per second; None if the class has none."""
    time_us, factor = _time_us(row), row.busbw_factor
    if factor is None or time_us <= 0:
        return None
    algbw = row.size_bytes / time_us / 1e3
    return algbw, algbw * factor


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _count(row: MeasuredClass) -> int:
    return count_elements(row.kind, size_bytes=row.size_bytes, members=row.members)


NCCL_TESTS = Format("nccl-tests", ".txt", "the table of nccl-tests, or what it writes with -J", as_text(to_text))
NCCL_TESTS_JSON = Format("nccl-tests-json", ".json", "what nccl-tests writes with -J", as_text(to_json))
