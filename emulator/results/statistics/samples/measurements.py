"""All measured times of a run, by class: the input of statistics and comparisons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.schema import RunTable
from emulator.results.statistics.method.descriptive import percentile
from emulator.results.statistics.samples.classes import JCT, ClassKey, class_rows
from emulator.results.statistics.samples.collectives import MERGE_COLUMNS, merge
from emulator.results.statistics.samples.iterations import iteration_durations
from emulator.results.statistics.samples.measured_rows import read_measured
from emulator.results.statistics.traffic.network_traffic import hosts_of_ranks
from emulator.trace.meaning.model import IntArray


@dataclass(frozen=True, slots=True)
class Times:
    """The measurements of one class in one run, without warm-up and excluded iterations.

    Attributes:
        iteration: iteration of each measurement.
        time_ns: cct, or JCT for the class of iterations; never negative.
        early: how many had payload that arrived before its rank had posted.
        negative: how many were left out because their time is below zero.
    """

    iteration: IntArray
    time_ns: IntArray
    early: int = 0
    negative: int = 0

    def __len__(self) -> int:
        return len(self.time_ns)

    def percentile_ns(self, q: float) -> float | None:
        """The q-quantile, see `percentile`."""
        return percentile(self.time_ns, q)

    def only(self, iterations: IntArray) -> Times:
        """Those of some iterations; `early` and `negative` stay those of the run."""
        kept = np.isin(self.iteration, iterations)
        return replace(self, iteration=self.iteration[kept], time_ns=self.time_ns[kept])


@dataclass(frozen=True, slots=True)
class Measurements:
    """The times of all classes of a run, JCT included; `incomplete` measurements lacked a member and are left out."""

    classes: Mapping[ClassKey, Times]
    incomplete: int


def measurements(run: Run) -> Measurements:
    """Read the times of a run.

    Raises:
        ResultError: a table of the run is missing or damaged.
    """
    samples, hosts = read_measured(run, RunTable.SAMPLES, MERGE_COLUMNS), hosts_of_ranks(run.manifest)
    merged = merge(samples, hosts, until=run.manifest.cct_until)
    classes: dict[ClassKey, Times] = {}
    durations = iteration_durations(run.table(RunTable.ITERATIONS), run.manifest)
    if durations:
        iterations, jct_ns = np.array(list(durations.items()), np.int64).T
        classes[ClassKey(JCT, run.manifest.trace.ranks)] = Times(iterations, jct_ns)
    for key, rows in class_rows(merged):
        valid = rows[merged.cct_ns[rows] >= 0]
        early, negative = int(np.count_nonzero(merged.early[rows])), len(rows) - len(valid)
        classes[key] = Times(merged.iteration[valid], merged.cct_ns[valid], early, negative)
    return Measurements(classes, merged.incomplete)
