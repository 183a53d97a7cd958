"""What a format is that a run can be exported to, and its writing; emulator.plugins lists the formats.

Tables as CSV are a folder with one file per table, columns and units as in docs/results.md. A text that a spreadsheet
would take for a formula gets an apostrophe before it: names come from traces of others.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from emulator.errors import InputError
from emulator.host.files import scratch_folder, writing
from emulator.results.run_folder.places import check_file
from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.schema import RunTable
from emulator.views.junit import run_to_xml


@dataclass(frozen=True, slots=True)
class Format:
    """A format that is written to disk.

    Attributes:
        name: on the command line.
        suffix: of the file or folder that is written if no name is given.
        summary: one line for the help.
        write: writes the run to a path that does not exist yet; returns notes for the user.
        is_folder: the result is a folder, not one file.
        require: raises HostError if a package is missing.
        write_span: writes what happened between two times, `span` in ns; None: the format has no part of a run.
    """

    name: str
    suffix: str
    summary: str
    write: Callable[[Run, Path], Sequence[str]]
    is_folder: bool = False
    require: Callable[[], None] = lambda: None
    write_span: Callable[..., Sequence[str]] | None = None


def as_text(render: Callable[[Run], str]) -> Callable[[Run, Path], Sequence[str]]:
    """The `write` of a format that is one text."""

    def write(run: Run, target: Path) -> Sequence[str]:
        content = render(run)
        with writing(target):
            target.write_text(content, encoding="utf-8", errors="backslashreplace")
        return ()

    return write


JUNIT = Format("junit", ".junit.xml", "test results, a case per class", as_text(run_to_xml))


def export(run: Run, chosen: Format, target: Path | None) -> tuple[Path, Sequence[str]]:
    """Write a run in a format. It appears under its name when it is whole; a failed export leaves nothing.

    Args:
        run: to be exported.
        chosen: the format.
        target: where to; None: in the current folder, named after the run.

    Returns:
        What was written, and notes for the user.

    Raises:
        InputError: the target exists, or nothing can be made there.
        ResultError: the run cannot be read.
        HostError: it cannot be written, or a library is missing.
    """
    chosen.require()
    target = Path(run.folder.resolve().name + chosen.suffix) if target is None else target
    check_file(target, "--out")
    with writing(target):
        unfinished = Path(tempfile.mkdtemp(prefix=".charkha-", dir=target.parent))
    try:
        notes = chosen.write(run, unfinished / target.name)
        with writing(target):
            (unfinished / target.name).rename(target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return target, notes


def export_to_stream(run: Run, chosen: Format, stream: IO[bytes]) -> Sequence[str]:
    """Write a run in a format that is one file; returns notes for the user.

    Raises:
        InputError: the format is a folder.
        ResultError, HostError: as for `export`.
    """
    if chosen.is_folder:
        raise InputError(f"--out -: {chosen.name} is a folder, not one file")
    chosen.require()
    with scratch_folder() as scratch:
        notes = chosen.write(run, scratch / chosen.name)
        with (scratch / chosen.name).open("rb") as file:
            shutil.copyfileobj(file, stream)
    return notes


def write_csv(run: Run, folder: Path) -> Sequence[str]:
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


_FORMULA = "^([=+\\-@\uff1d\uff0b\uff0d\uff20\\t\\r])"  # spreadsheets take the wide ones too, in some languages


def _guarded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch whose texts are no formulas."""
    columns = [
        pc.replace_substring_regex(one, _FORMULA, r"'\1") if pa.types.is_string(one.type) else one
        for one in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _plain(schema: pa.Schema) -> pa.Schema:
    """The schema with labels as text: CSV has no dictionaries."""
    return pa.schema(
        [field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field for field in schema]
    )


CSV = Format("csv", ".csv.d", "a folder with a CSV file per table", write_csv, is_folder=True)
