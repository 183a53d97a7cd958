"""From samples to what the measured trace says of each communication node.

A `NodeAnnotation` has the fields of the change that the trace writer applies to a node, so that this layer need not
know how a trace is written.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from emulator.host.parquet import to_table
from emulator.results.run_folder.manifest import Manifest
from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.schema import RunTable
from emulator.results.statistics.samples.collectives import MERGE_COLUMNS, merge
from emulator.results.statistics.samples.measured_rows import (
    UNKNOWN,
    labels_and_codes,
    measured_rows,
    read_measured,
    to_ints,
)
from emulator.trace.files.load import REPORT_FILE, LoadedTrace
from emulator.trace.files.rewrite import NodeChange, rewrite_trace
from emulator.trace.meaning.model import IntArray
from emulator.units import NS_PER_US

Attribute: TypeAlias = int | str | Sequence[int]
TIME_BASE = "iteration_start"
"""start_time_micros of communication nodes counts from the start of their iteration; other nodes keep what they had."""

BLOCK_ROWS = 2_000_000
_COLUMNS = ("iteration", "rank", "node_id", "instance", "algorithm", "post_ns", "done_ns", "traced_ns")


@dataclass(frozen=True, slots=True)
class NodeAnnotation:
    """What a communication node gets.

    Attributes:
        start_micros, duration_micros: its new start_time_micros and duration_micros.
        attributes: `charkha.*` name → value; integers are not negative.
    """

    start_micros: int
    duration_micros: int
    attributes: Mapping[str, Attribute]


@dataclass(frozen=True, slots=True)
class _Context:
    """What the annotations of all ranks share: time per instance, start per iteration."""

    run_id: str
    cct_ns: Mapping[int, int]
    starts_ns: Mapping[int, int]


def annotate(run: Run, *, block_rows: int = BLOCK_ROWS) -> Iterator[tuple[int, dict[int, NodeAnnotation]]]:
    """(rank, node id → annotation) of every rank that has measured samples, ascending ranks.

    Args:
        run: with at least one measured iteration, else nothing comes.
        block_rows: samples held at once; ranks are worked off in blocks of about that many.

    Raises:
        ResultError: a table of the run is missing or damaged.
    """
    context = _Context(run.manifest.run_id, _median_cct(run), _iteration_starts(run))
    for low, high in _rank_blocks(run, block_rows):
        yield from _Rows(_rows_of_ranks(run, low, high)).annotations(context)


def write_measured_trace(run: Run, loaded: LoadedTrace, folder: Path) -> None:
    """Write the trace again with the measured times in its communication nodes; one file per rank.

    Args:
        run: its samples.
        loaded: the trace that was played.
        folder: must not exist.

    Raises:
        ResultError: a table of the run is missing or damaged.
        HostError: a file cannot be written.
    """
    folder.mkdir()
    metadata = trace_metadata(run.manifest)
    unmeasured = set(range(len(loaded.files)))
    for rank, annotated in annotate(run):
        unmeasured.remove(rank)
        _rewrite(loaded, rank, folder, {node_id: _change(one) for node_id, one in annotated.items()}, metadata)
    for rank in sorted(unmeasured):
        _rewrite(loaded, rank, folder, {}, metadata)
    if loaded.group_file is not None and loaded.groups:
        shutil.copyfile(loaded.group_file, folder / "comm_group.json")
    if (report := loaded.files.folder / REPORT_FILE).is_file() and loaded.imported.losses:
        shutil.copyfile(report, folder / REPORT_FILE)


def _rewrite(
    loaded: LoadedTrace,
    rank: int,
    folder: Path,
    changes: Mapping[int, NodeChange],
    metadata: Mapping[str, str | float],
) -> None:
    source = loaded.files.paths[rank]
    stem, json, _ = source.name.rpartition(".json")  # JSON becomes .et
    rewrite_trace(source, folder / (f"{stem}.et" if json else source.name), changes, metadata=metadata)


def _change(annotation: NodeAnnotation) -> NodeChange:
    return NodeChange(annotation.start_micros, annotation.duration_micros, annotation.attributes)


def trace_metadata(manifest: Manifest) -> dict[str, str | float]:
    """Attributes for the global metadata of the measured trace."""
    return {
        "charkha.time_base": TIME_BASE,
        "charkha.scale_bytes": float(manifest.scaling.bytes),
        "charkha.compute": manifest.scaling.compute,
    }


def round_to_micros(duration_ns: int) -> int:
    """Nanoseconds as microseconds, half up."""
    return (duration_ns + NS_PER_US // 2) // NS_PER_US


def _median_cct(run: Run) -> dict[int, int]:
    """Instance → lower median of its time over the measured iterations, where it has one."""
    merged = merge(read_measured(run, RunTable.SAMPLES, MERGE_COLUMNS), until=run.manifest.cct_until)
    valid = merged.cct_ns >= 0
    instance, cct_ns = merged.instance[valid], merged.cct_ns[valid]
    order = np.lexsort((cct_ns, instance))
    distinct, first, count = np.unique(instance[order], return_index=True, return_counts=True)
    return dict(zip(distinct.tolist(), cct_ns[order][first + (count - 1) // 2].tolist(), strict=True))


def _iteration_starts(run: Run) -> dict[int, int]:
    """Iteration → when its first rank started; its first post where no rank completed the iteration."""
    starts = _earliest(run, RunTable.SAMPLES, "post_ns")
    return starts | _earliest(run, RunTable.ITERATIONS, "start_ns")


def _earliest(run: Run, part: RunTable, column: str) -> dict[int, int]:
    found: dict[int, int] = {}
    for batch in run.batches(part, ["iteration", column]):
        times = to_ints(batch.column(column))
        iterations = to_ints(batch.column("iteration"))
        for iteration in np.unique(iterations).tolist():
            earliest = int(times[iterations == iteration].min())
            found[iteration] = min(earliest, found.get(iteration, earliest))
    return found


def _rank_blocks(run: Run, block_rows: int) -> Iterator[tuple[int, int]]:
    """Ranges of ranks (low, high excluded) whose samples are about `block_rows`, at least one rank each."""
    counts = np.zeros(0, np.int64)
    for batch in run.batches(RunTable.SAMPLES, ["rank"]):
        more = np.bincount(to_ints(batch.column("rank")), minlength=len(counts))
        counts = more + np.pad(counts, (0, len(more) - len(counts)))
    low = held = 0
    for rank, rows in enumerate(counts.tolist()):
        if held and held + rows > block_rows:
            yield low, rank
            low, held = rank, 0
        held += rows
    if held:
        yield low, len(counts)


def _rows_of_ranks(run: Run, low: int, high: int) -> pa.Table:
    schema = pa.schema([RunTable.SAMPLES.schema.field(name) for name in _COLUMNS])
    chosen = []
    for batch in run.batches(RunTable.SAMPLES, _COLUMNS):
        counted = measured_rows(batch, run.manifest)
        rank = to_ints(counted["rank"])
        chosen.append(counted.filter(pa.array((rank >= low) & (rank < high))))
    return to_table(chosen, schema)


class _Rows:
    """Samples of some ranks, those of one node side by side, in order of iteration."""

    def __init__(self, table: pa.Table) -> None:
        self._algorithms, algorithm = labels_and_codes(table["algorithm"])
        numbers = [name for name in _COLUMNS if name not in ("algorithm", "node_id")]
        columns = {name: to_ints(table[name]) for name in numbers} | {"algorithm": algorithm}
        node_id = np.asarray(table["node_id"].to_numpy(), np.uint64)
        order = np.lexsort((columns["iteration"], node_id, columns["rank"]))
        self._columns = {name: column[order] for name, column in columns.items()}
        self._node_id = node_id[order]
        self._own_ns = self._columns["done_ns"] - self._columns["post_ns"]
        fresh = (np.diff(self._columns["rank"]) != 0) | (self._node_id[1:] != self._node_id[:-1])
        self._starts = np.flatnonzero(np.concatenate(([len(order) > 0], fresh)))
        self._counts = np.diff(self._starts, append=len(order))

    def annotations(self, context: _Context) -> Iterator[tuple[int, dict[int, NodeAnnotation]]]:
        """(rank, node id → annotation), ascending ranks."""
        rank, found = UNKNOWN, dict[int, NodeAnnotation]()
        medians = self._medians()
        for start, count, median in zip(self._starts.tolist(), self._counts.tolist(), medians.tolist(), strict=True):
            if self._at("rank", start) != rank:
                if found:
                    yield rank, found
                rank, found = self._at("rank", start), {}
            rows = slice(start, start + count)
            found[int(self._node_id[start])] = self._annotation(rows, median, context)
        if found:
            yield rank, found

    def _at(self, name: str, row: int) -> int:
        return int(self._columns[name][row])

    def _medians(self) -> IntArray:
        """Per node the row with its lower median; of equal ones the middle in order of iteration."""
        node = np.repeat(np.arange(len(self._starts)), self._counts)
        order = np.lexsort((self._own_ns, node))
        middle: IntArray = order[self._starts + (self._counts - 1) // 2]
        return middle

    def _annotation(self, rows: slice, median: int, context: _Context) -> NodeAnnotation:
        duration_ns = int(self._own_ns[median])
        start_ns = max(0, self._at("post_ns", median) - context.starts_ns[self._at("iteration", median)])
        attributes: dict[str, Attribute] = {
            "charkha.duration_ns": duration_ns,
            "charkha.start_ns": start_ns,
            "charkha.samples_ns": self._own_ns[rows].tolist(),
            "charkha.algorithm": self._algorithms[self._at("algorithm", median)],
            "charkha.run_id": context.run_id,
            "charkha.traced_duration_micros": max(0, self._at("traced_ns", median)) // NS_PER_US,
        }
        cct_ns = context.cct_ns.get(self._at("instance", median))
        if cct_ns is not None:
            attributes["charkha.cct_ns"] = cct_ns
        return NodeAnnotation(round_to_micros(start_ns), max(1, round_to_micros(duration_ns)), attributes)
