"""A run as a timeline for Perfetto (ui.perfetto.dev, trace_processor): a process per rank, and one for the job.

A rank has its iterations, the spans in which its device was busy, and a track per process group (more if its
communications overlap). The job has a slice per iteration, from the first start to the last end: its duration is the
JCT. Timestamps are those of the run folder, ns of the run's clock. The arguments of a slice, under `debug`, hold its
figures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from emulator.annexes.exports.formats import Format
from emulator.annexes.exports.perfetto_tracks import Lanes, Tracks, require
from emulator.host.files import writing
from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.schema import RunTable
from emulator.results.statistics.samples.table_columns import to_ints

_JOB = "job"
_ARGUMENTS = (
    "node_id",
    "index_in_group",
    "group_size",
    "size_bytes",
    "algorithm",
    "bytes_sent",
    "bytes_received",
    "early",
)
_USAGE = ("compute_ns", "communication_ns", "overlap_ns")


def write(run: Run, target: Path) -> Sequence[str]:
    """Write the timeline.

    Raises:
        HostError: it cannot be written.
        ResultError: a table of the run is missing or damaged.
    """
    with writing(target), target.open("wb") as file:
        line = Tracks(file, begin_ns=_begin_ns(run))
        _add_iterations(line, run)
        _add_compute(line, run)
        _add_communications(line, run)
    return ()


def _begin_ns(run: Run) -> int:
    """The first stamp of a run: on the clock of a controller it can be below 0."""
    first = [
        int(to_ints(run.table(part, [name])[name]).min(initial=0))
        for part, name in (
            (RunTable.ITERATIONS, "start_ns"),
            (RunTable.COMPUTE, "start_ns"),
            (RunTable.SAMPLES, "post_ns"),
        )
    ]
    last = int(to_ints(run.table(RunTable.SAMPLES, ["done_ns"])["done_ns"]).min(initial=0))
    return min(*first, last)


def _add_iterations(line: Tracks, run: Run) -> None:
    """Slices of the ranks, and of the job for iterations that every rank completed."""
    table = run.table(RunTable.ITERATIONS)
    columns = {name: to_ints(table[name]) for name in table.column_names}
    for iteration in np.unique(columns["iteration"]).tolist():
        rows = np.flatnonzero(columns["iteration"] == iteration)
        start, end = columns["start_ns"][rows], columns["end_ns"][rows]
        if len(rows) == run.manifest.trace.ranks:
            name, category = _name(iteration)
            line.slice((_JOB, "iterations"), name, int(start.min()), int(end.max()), {"iteration": name}, category)
        for row in rows.tolist():
            _add_rank_iteration(line, {name: int(column[row]) for name, column in columns.items()})


def _add_rank_iteration(line: Tracks, row: Mapping[str, int]) -> None:
    name, category = _name(row["iteration"])
    usage = {key: row[key] for key in _USAGE} | {"exposed_ns": row["communication_ns"] - row["overlap_ns"]}
    line.slice((f"rank {row['rank']}", "iterations"), name, row["start_ns"], row["end_ns"], usage, category)


def _name(iteration: int) -> tuple[str, str]:
    """(name, category) of an iteration's slice."""
    return (f"iteration {iteration}", "iteration") if iteration >= 0 else (f"warm-up {iteration}", "warm-up")


def _add_compute(line: Tracks, run: Run) -> None:
    for batch in run.batches(RunTable.COMPUTE):
        for span in batch.to_pylist():
            category = "compute" if span["iteration"] >= 0 else "warm-up"
            line.slice((f"rank {span['rank']}", "compute"), "compute", span["start_ns"], span["end_ns"], {}, category)


def _add_communications(line: Tracks, run: Run) -> None:
    lanes: dict[tuple[int, str], Lanes] = {}
    for sample in _samples(run):
        key = sample["rank"], sample["group"]
        lane = lanes.setdefault(key, Lanes()).place(sample["post_ns"], sample["done_ns"])
        track = sample["group"] if lane == 0 else f"{sample['group']} ({lane + 1})"
        facts = {name: sample[name] for name in _ARGUMENTS} | {"kind": sample["kind"]}
        category = "communication" if sample["iteration"] >= 0 else "warm-up"
        line.slice(
            (f"rank {sample['rank']}", track), sample["name"], sample["post_ns"], sample["done_ns"], facts, category
        )


def _samples(run: Run) -> Iterator[dict[str, Any]]:
    """Rows in the order of their post, as the lanes need them."""
    table = run.table(
        RunTable.SAMPLES, ["iteration", "rank", "group", "name", "kind", "post_ns", "done_ns", *_ARGUMENTS]
    )
    order = np.argsort(to_ints(table["post_ns"]), kind="stable")
    for batch in table.take(order).to_batches(max_chunksize=10_000):
        yield from batch.to_pylist()


PERFETTO = Format("perfetto", ".perfetto-trace", "a time line for ui.perfetto.dev", write, require=require)
