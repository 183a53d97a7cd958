"""What a format is that a run can be exported to, and its writing; emulator.plugins lists the formats."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from emulator.errors import InputError
from emulator.host.files import writing
from emulator.host.scratch import scratch_folder
from emulator.results.run_folder.places import check_file
from emulator.results.run_folder.reader import Run
from emulator.views.junit.run import run_to_xml


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
    """

    name: str
    suffix: str
    summary: str
    write: Callable[[Run, Path], Sequence[str]]
    is_folder: bool = False
    require: Callable[[], None] = lambda: None


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
