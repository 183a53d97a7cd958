"""The tables of a run as CSV: a folder with one file per table, columns and units as in docs/results.md.

A text that a spreadsheet would take for a formula gets an apostrophe before it: names come from traces of others.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from emulator.annexes.exports.formats import Format
from emulator.host.files import writing
from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.schema import RunTable


def write(run: Run, folder: Path) -> Sequence[str]:
    """Write `<table>.csv` for every table of the run; an unknown value is an empty field.

    Raises:
        ResultError: a table is missing or damaged.
        HostError: the folder cannot be written.
    """
    with writing(folder):
        folder.mkdir(parents=True)
        for part in RunTable:
            schema = _plain(part.schema)
            with csv.CSVWriter(folder / f"{part.value}.csv", schema) as target:
                for batch in run.batches(part):
                    target.write_batch(_guarded(batch.cast(schema)))
    return ()


def _guarded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch whose texts are no formulas."""
    columns = [
        pc.replace_substring_regex(one, r"^([=+\-@\t\r])", r"'\1") if pa.types.is_string(one.type) else one
        for one in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _plain(schema: pa.Schema) -> pa.Schema:
    """The schema with labels as text: CSV has no dictionaries."""
    return pa.schema(
        [field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field for field in schema]
    )


CSV = Format("csv", ".csv.d", "a folder with a CSV file per table", write, is_folder=True)
