"""What a run can be exported to: the name of each format, and who writes it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from emulator.annexes.exports import kvbench, nccl_inspector, nccl_tests, perfetto, tables
from emulator.annexes.exports.astra_sim import package as astra_sim
from emulator.errors import InputError
from emulator.host.scratch import scratch_folder
from emulator.results.run_folder.places import check_file
from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.stream import writing
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
    """

    name: str
    suffix: str
    summary: str
    write: Callable[[Run, Path], Sequence[str]]
    is_folder: bool = False
    require: Callable[[], None] = lambda: None


def _text(render: Callable[[Run], str]) -> Callable[[Run, Path], Sequence[str]]:
    def write(run: Run, target: Path) -> Sequence[str]:
        content = render(run)
        with writing(target):
            target.write_text(content, encoding="utf-8", errors="backslashreplace")
        return ()

    return write


FORMATS: Mapping[str, Format] = {
    one.name: one
    for one in (
        Format(
            "perfetto", ".perfetto-trace", "a time line for ui.perfetto.dev", perfetto.write, False, perfetto.require
        ),
        Format("nccl-tests", ".txt", "the table of nccl-tests, or what it writes with -J", _text(nccl_tests.to_text)),
        Format("nccl-tests-json", ".json", "what nccl-tests writes with -J", _text(nccl_tests.to_json)),
        Format("nccl-inspector", ".inspector.log", "JSON lines as NCCL's Inspector writes them", nccl_inspector.write),
        Format("kvbench", ".kvbench.txt", "the table of NIXL's KVBench, or its JSON", _text(kvbench.to_text)),
        Format("kvbench-json", ".kvbench.json", "what KVBench writes as JSON", _text(kvbench.to_json)),
        Format("astra-sim", ".astra-sim", "a folder for ASTRA-sim: workload, network", astra_sim.write, is_folder=True),
        Format("csv", ".csv.d", "a folder with a CSV file per table", tables.write, is_folder=True),
        Format("junit", ".junit.xml", "test results, a case per class", _text(run_to_xml)),
    )
}


def export(run: Run, name: str, target: Path | None) -> tuple[Path, Sequence[str]]:
    """Write a run in one of FORMATS. It appears under its name when it is whole; a failed export leaves nothing.

    Args:
        run: to be exported.
        name: of the format.
        target: where to; None: in the current folder, named after the run.

    Returns:
        What was written, and notes for the user.

    Raises:
        InputError: the target exists, or nothing can be made there.
        ResultError: the run cannot be read.
        HostError: it cannot be written, or a library is missing.
    """
    chosen = FORMATS[name]
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


def export_to_stream(run: Run, name: str, stream: IO[bytes]) -> Sequence[str]:
    """Write a run in a format that is one file; returns notes for the user.

    Raises:
        InputError: the format is a folder.
        ResultError, HostError: as for `export`.
    """
    chosen = FORMATS[name]
    if chosen.is_folder:
        raise InputError(f"--out -: {name} is a folder, not one file")
    chosen.require()
    with scratch_folder() as scratch:
        notes = chosen.write(run, scratch / name)
        with (scratch / name).open("rb") as file:
            shutil.copyfileobj(file, stream)
    return notes
