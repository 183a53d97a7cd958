"""The completions of an iteration, summed up by class while the run goes on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from emulator.run_folder.observer import RunObserver
from emulator.run_folder.schema import SAMPLES_SCHEMA, Columns, to_batch
from emulator.statistics.collectives import MERGE_COLUMNS, merge
from emulator.statistics.summary import ClassSummary, classify

LARGEST_ITERATION = 1_000_000
"""Rows of an iteration beyond which it is not summed up: the controller has other things to do."""
_SCHEMA = pa.schema([SAMPLES_SCHEMA.field(name) for name in MERGE_COLUMNS])


class ClassObserver(Protocol):
    """Who follows the classes of a run."""

    def summed_up(self, iteration: int, classes: Sequence[ClassSummary]) -> None:
        """The classes of an iteration that is over."""
        ...


class IterationDigest(RunObserver):
    """Collects the rows of one iteration after the other, and tells its classes, unless it was too large.

    Args:
        told: who is told, in order.
    """

    def __init__(self, told: Sequence[ClassObserver]) -> None:
        self._told = told
        self._rows: dict[int, list[pa.RecordBatch]] = {}

    def recorded(self, samples: Columns) -> None:
        """See RunObserver."""
        batch = to_batch(_SCHEMA, {name: samples[name] for name in MERGE_COLUMNS if name in samples})
        if batch.num_rows:
            self._rows.setdefault(batch["iteration"][0].as_py(), []).append(batch)

    def iteration_done(self, iteration: int, jct_ns: int) -> None:
        """See RunObserver."""
        batches = self._rows.get(iteration, [])
        self._rows = {one: rows for one, rows in self._rows.items() if one > iteration}
        if sum(batch.num_rows for batch in batches) > LARGEST_ITERATION:
            return
        table = pa.Table.from_batches(batches, _SCHEMA).unify_dictionaries().combine_chunks()
        classes = classify(merge(table))
        for one in self._told:
            one.summed_up(iteration, classes)
