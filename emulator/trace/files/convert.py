"""A trace of any form that is read, as plain .et files in one folder."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from emulator.errors import HostError
from emulator.trace.files.compression import Encoding
from emulator.trace.files.files import TraceSet
from emulator.trace.files.import_report import REPORT_FILE
from emulator.trace.files.load import LoadedTrace
from emulator.trace.files.rewrite import KeptDependencies, rewrite_trace
from emulator.trace.files.write_workload import GROUP_FILE, trace_folder
from emulator.trace.meaning.order import left_dependencies

_FORM = re.compile(r"(\.(et|json))?(\.(gz|zst))?$")


def convert_trace(loaded: LoadedTrace, folder: Path, *, lenient: bool = False) -> Sequence[Path]:
    """Write every rank as `<prefix>.<rank>.et`: protobuf, not compressed. Records that were protobuf keep their bytes.

    Args:
        loaded: the trace; that it was read proves that it can be converted.
        folder: made where it is absent.
        lenient: leave out the dependencies that a lenient reading leaves out.

    Returns:
        The files, in the order of the ranks, then comm_group.json and import.json where the trace has them.

    Raises:
        InputError: the folder is not empty.
        HostError: something cannot be written; what was written is removed again.
    """
    prefix = trace_name(loaded.files)
    ranks = [folder / f"{prefix}.{rank}.et" for rank in range(len(loaded.files))]
    groups = loaded.group_file if loaded.groups else None
    report = loaded.files.folder / REPORT_FILE
    copies = {} if groups is None else {folder / GROUP_FILE: groups}
    if loaded.imported.losses and report.is_file():
        copies[folder / REPORT_FILE] = report
    paths = [*ranks, *copies]
    with trace_folder(folder, paths):
        for source, path, trace in zip(loaded.files.paths, ranks, loaded.traces, strict=True):
            changes = {
                node_id: KeptDependencies(frozenset(ctrl), frozenset(data))
                for node_id, (ctrl, data) in (left_dependencies(trace) if lenient else {}).items()
            }
            rewrite_trace(source, path, changes, metadata={}, encoding=Encoding.PLAIN)
        for target, source in copies.items():
            _copy(source, target)
    return paths


def trace_name(files: TraceSet) -> str:
    """Prefix for files that are made from these; never empty."""
    return _FORM.sub("", files.prefix) or "trace"


def _copy(source: Path, target: Path) -> None:
    try:
        shutil.copyfile(source, target)
    except OSError as error:
        raise HostError(f"cannot write {target}: {error.strerror or error}; choose a different place") from error
