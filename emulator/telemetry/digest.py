"""The completions of an iteration, summed up by class while the run goes on."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from emulator.results.collectives import MERGE_COLUMNS, merge
from emulator.results.schema import SAMPLES_SCHEMA, Columns, to_batch
from emulator.results.summary import ClassSummary, classify

LARGEST_ITERATION = 1_000_000
"""Rows of an iteration beyond which it is not summed up: the controller has other things to do."""
_SCHEMA = pa.schema([SAMPLES_SCHEMA.field(name) for name in MERGE_COLUMNS])


class IterationDigest:
    """Collects the rows of one iteration after the other."""

    def __init__(self) -> None:
        self._rows: dict[int, list[pa.RecordBatch]] = {}

    def add(self, samples: Columns) -> None:
        """Rows as they are recorded, all of one iteration."""
        batch = to_batch(_SCHEMA, {name: samples[name] for name in MERGE_COLUMNS if name in samples})
        if batch.num_rows:
            self._rows.setdefault(batch["iteration"][0].as_py(), []).append(batch)

    def take(self, iteration: int) -> Sequence[ClassSummary] | None:
        """The classes of an iteration that is over; None where it was too large. Earlier ones are forgotten."""
        batches = self._rows.get(iteration, [])
        self._rows = {one: rows for one, rows in self._rows.items() if one > iteration}
        if sum(batch.num_rows for batch in batches) > LARGEST_ITERATION:
            return None
        table = pa.Table.from_batches(batches, _SCHEMA).unify_dictionaries().combine_chunks()
        return classify(merge(table))
