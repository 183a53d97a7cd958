"""Completions of one iteration at a time, summarised by class while the run is played."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from emulator.results.run_folder.observer import RunObserver
from emulator.results.run_folder.schema import SAMPLES_SCHEMA, Columns, to_batch
from emulator.results.statistics.class_summary import ClassSummary, summarise_classes
from emulator.results.statistics.samples.collectives import MERGE_COLUMNS, merge

LARGEST_ITERATION = 1_000_000
"""Rows; larger iterations are not summarised, because that would keep the controller from its work."""
_SCHEMA = pa.schema([SAMPLES_SCHEMA.field(name) for name in MERGE_COLUMNS])


class ClassObserver(Protocol):
    """Follows the classes of a run."""

    def summed_up(self, iteration: int, classes: Sequence[ClassSummary]) -> None:
        """Take the classes of an iteration that is over."""
        ...


class IterationDigest(RunObserver):
    """Collects the samples of an iteration and passes its classes on, unless the iteration is too large.

    Args:
        observers: receive the classes, in this order.
    """

    def __init__(self, observers: Sequence[ClassObserver]) -> None:
        self._observers = observers
        self._rows: dict[int, list[pa.RecordBatch]] = {}

    def recorded(self, samples: Columns) -> None:
        """See RunObserver."""
        batch = to_batch(_SCHEMA, {name: samples[name] for name in MERGE_COLUMNS if name in samples})
        if batch.num_rows:
            self._rows.setdefault(batch["iteration"][0].as_py(), []).append(batch)

    def iteration_done(self, iteration: int, jct_ns: int) -> None:
        """See RunObserver."""
        batches = self._rows.get(iteration, [])
        self._rows = {number: rows for number, rows in self._rows.items() if number > iteration}
        if sum(batch.num_rows for batch in batches) > LARGEST_ITERATION:
            return
        table = pa.Table.from_batches(batches, _SCHEMA).unify_dictionaries().combine_chunks()
        classes = summarise_classes(merge(table))
        for one in self._observers:
            one.summed_up(iteration, classes)
