"""Everything that the report of a run needs, read once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from emulator.results.run_folder.manifest import RUNNING, Manifest, Trials
from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.schema import RunTable
from emulator.results.statistics.class_summary import ClassSummary
from emulator.results.statistics.method.distribution import Distribution, distribution
from emulator.results.statistics.samples.classes import JCT, ClassKey
from emulator.results.statistics.samples.iterations import Measurements, Times, measurements
from emulator.results.statistics.samples.measured_rows import labels_and_codes, to_ints
from emulator.results.statistics.samples.transfers import Steps, read_steps
from emulator.results.statistics.summary import RunSummary, summarise
from emulator.results.statistics.worst.stragglers import Lateness, lateness
from emulator.results.verdict.judge import Verdict, judge
from emulator.results.verdict.rules import rules_of
from emulator.trace.meaning.model import IntArray

_SAMPLE_COLUMNS = ("iteration", "rank", "kind", "post_ns", "done_ns")


@dataclass(frozen=True, slots=True)
class Spans:
    """Communications of all ranks, one per row, warm-up included; `kind` is an index into `kinds`."""

    iteration: IntArray
    rank: IntArray
    kind: IntArray
    post_ns: IntArray
    done_ns: IntArray
    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Compute:
    """Times in which the device of a rank computed, one per row, warm-up included."""

    iteration: IntArray
    rank: IntArray
    start_ns: IntArray
    end_ns: IntArray


@dataclass(frozen=True, slots=True)
class PageFacts:
    """Facts of one run.

    Attributes:
        summary: the figures of the table of the run; the report shows the same.
        measured: the times of every class.
        usage: columns of iterations.parquet, warm-up included.
        spans: from samples.parquet.
        compute: empty if no device computed, or the run is of a Charkha that did not record it.
        flows, flow_events, timeline, counters: tables of the run; empty if nothing was recorded.
        steps: None if none were recorded.
        late_posts, late_ends: which ranks post and complete last; None during the run.
        verdict: by the rules that the run was played with.
    """

    manifest: Manifest
    summary: RunSummary
    measured: Measurements
    usage: Mapping[str, IntArray]
    spans: Spans
    compute: Compute
    flows: pa.Table
    flow_events: pa.Table
    timeline: pa.Table
    counters: pa.Table
    steps: Steps | None
    late_posts: Lateness | None
    late_ends: Lateness | None
    verdict: Verdict

    @property
    def is_running(self) -> bool:
        """Whether the run has not ended yet."""
        return self.manifest.status == RUNNING

    @property
    def excluded(self) -> frozenset[int]:
        """Iterations that do not count, in addition to warm-up."""
        return frozenset(one.iteration for one in self.manifest.trials.excluded)

    @property
    def jct(self) -> Times | None:
        """JCT of the iterations that count; None if there is none."""
        return self.measured.classes.get(ClassKey(JCT, self.manifest.trace.ranks))

    def times(self, row: ClassSummary) -> Times:
        """The measurements behind a row of the table."""
        return self.measured.classes[row.key]

    def distribution(self, row: ClassSummary) -> Distribution:
        """The statistics of a row of the table."""
        return distribution(row.key, self.times(row))


def read_facts(run: Run) -> PageFacts:
    """Read a run that is complete, aborted or still running.

    Raises:
        ResultError: a table of the run is missing or damaged.
    """
    usage = run.table(RunTable.ITERATIONS)
    columns = {name: to_ints(usage[name]) for name in usage.column_names}
    if run.manifest.status == RUNNING:
        run = replace(run, manifest=replace(run.manifest, trials=_trials_so_far(columns, run.manifest)))
    is_over = run.manifest.status != RUNNING
    summary = summarise(run)
    return PageFacts(
        manifest=run.manifest,
        summary=summary,
        measured=measurements(run),
        usage=columns,
        spans=_spans(run),
        compute=_compute(run),
        flows=run.table(RunTable.FLOWS),
        flow_events=run.table(RunTable.FLOW_EVENTS),
        timeline=run.table(RunTable.TIMELINE),
        counters=run.table(RunTable.COUNTERS),
        steps=read_steps(run),
        late_posts=lateness(run, "post") if is_over else None,
        late_ends=lateness(run, "done") if is_over else None,
        verdict=judge(summary, rules_of(run)),
    )


def class_names(rows: Sequence[ClassSummary]) -> list[str]:
    """Names of classes in charts."""
    return [str(row.key) for row in rows]


def _trials_so_far(usage: Mapping[str, IntArray], manifest: Manifest) -> Trials:
    """Counts of iterations during the run, when the manifest does not have them yet."""
    numbers, ranks = np.unique(usage["iteration"], return_counts=True)
    whole = numbers[ranks == manifest.trace.ranks]
    warmup = int(np.count_nonzero(numbers < 0))
    return Trials(attempted=len(numbers), warmup=warmup, included=int(np.count_nonzero(whole >= 0)))


def _compute(run: Run) -> Compute:
    table = run.table(RunTable.COMPUTE)
    return Compute(**{name: to_ints(table[name]) for name in table.column_names})


def _spans(run: Run) -> Spans:
    table = run.table(RunTable.SAMPLES, _SAMPLE_COLUMNS)
    kinds, codes = labels_and_codes(table["kind"])
    columns = {name: to_ints(table[name]) for name in _SAMPLE_COLUMNS if name != "kind"}
    return Spans(**columns, kind=codes, kinds=kinds)
