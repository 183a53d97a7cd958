"""The importers: formats of traces other than Chakra's, each recognised by the content of its files."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Protocol

from emulator.annexes.importers.agreement import check_agreement
from emulator.annexes.importers.aicb import is_aicb, read_aicb
from emulator.annexes.importers.documents import document_heads
from emulator.annexes.importers.flight_recorder.dumps import is_flight_recorder
from emulator.annexes.importers.flight_recorder.reading import read_flight_recorder
from emulator.annexes.importers.kvbench import is_kvbench, read_kvbench
from emulator.annexes.importers.losses import Fate
from emulator.annexes.importers.model import ImportedTrace
from emulator.annexes.importers.nccl_inspector import KNOWN_FORMAT, is_nccl_inspector, read_nccl_inspector
from emulator.annexes.importers.nccl_log import is_nccl_log, read_nccl_log
from emulator.annexes.importers.pytorch.documents import is_pytorch
from emulator.annexes.importers.pytorch.reading import read_pytorch
from emulator.annexes.importers.text_files import HEADS, file_head, file_heads, source_files
from emulator.errors import InputError, TraceError, format_ranks
from emulator.suggestions import did_you_mean
from emulator.trace.files.files import has_et_files
from emulator.trace.meaning.imported import GUESSED, ImportFacts, ImportLoss, refuse_guesses

CHAKRA = "chakra"
"""Name of what is read without an importer."""


class Reader(Protocol):
    """Reads the traces of a job."""

    def __call__(
        self, path: Path, *, ranks: int | None = None, on_rank: Callable[[int, int], None] | None = None
    ) -> ImportedTrace:
        """Read a folder, an archive or a file.

        Args:
            ranks: how many ranks the user asks for: only a source that says nothing of them needs it.
            on_rank: called with (ranks read, ranks in all).

        Raises:
            TraceError: it cannot be read.
        """
        ...


@dataclass(frozen=True, slots=True)
class Version:
    """A version that files carry: what refuses to be read in another one may be the fault of the reader.

    Attributes:
        what: whose version, for messages.
        pattern: of it in the first bytes of a file.
        known: those that the reader was written for.
    """

    what: str
    pattern: re.Pattern[bytes]
    known: Sequence[str]


HOST_SCHEMA = Version(
    "execution trace schema",
    re.compile(rb'"schema"\s*:\s*"(\d[\d.]{0,20})'),
    ("1.0.1", "1.0.2", "1.0.3", "1.1.0", "1.1.1"),
)
KINETO_SCHEMA = Version("Kineto schema", re.compile(rb'"schemaVersion"\s*:\s*(\d{1,9})'), ("1",))
DUMP = Version("dump", re.compile(rb"(?<![_a-z])version.{1,10}?(\d{1,3}\.\d{1,3})", re.DOTALL), ("2.10",))
INSPECTOR = Version(
    "Inspector output", re.compile(rb'"inspector_output_format_version"\s*:\s*"([^"]{1,20})"'), (KNOWN_FORMAT,)
)
NCCL = Version("NCCL", re.compile(rb"NCCL version (\d{1,3}\.\d{1,3})"), tuple(f"2.{minor}" for minor in range(18, 29)))


@dataclass(frozen=True, slots=True)
class Importer:
    """A format.

    Attributes:
        is_head: whether a document that begins with these bytes is of this format.
        versions: that its files carry.
    """

    name: str
    title: str
    is_head: Callable[[bytes], bool]
    read: Reader
    versions: Sequence[Version] = ()

    def other_version(self, path: Path) -> str:
        """ " (what; known: …)" of a source in a version that this reader does not know, else ""."""
        for head in chain(document_heads(path), file_heads(path)):
            for one in self.versions if self.is_head(head) else ():
                found = {version.decode("utf-8", "replace") for version in one.pattern.findall(head)}
                if other := sorted(found.difference(one.known)):
                    return f" ({one.what} {other[0]}; known: {', '.join(one.known)})"
        return ""


IMPORTERS: Mapping[str, Importer] = {
    one.name: one
    for one in (
        Importer(
            "pytorch",
            "PyTorch execution traces, Kineto traces, or both",
            is_pytorch,
            read_pytorch,
            (HOST_SCHEMA, KINETO_SCHEMA),
        ),
        Importer("flight-recorder", "PyTorch Flight Recorder dumps", is_flight_recorder, read_flight_recorder, (DUMP,)),
        Importer(
            "nccl-inspector", "logs of NCCL's Inspector plugin", is_nccl_inspector, read_nccl_inspector, (INSPECTOR,)
        ),
        Importer("nccl-log", "logs of NCCL with NCCL_DEBUG=INFO", is_nccl_log, read_nccl_log, (NCCL,)),
        Importer("aicb", "workloads of AICB for SimAI", is_aicb, read_aicb),
        Importer("kvbench", "traffic matrices of NIXL's KVBench", is_kvbench, read_kvbench),
    )
}


def find_importer(path: Path) -> Importer | None:
    """The importer for a path; None: it holds traces of Chakra, or nothing that is known.

    A folder with .et files is a trace of Chakra, whatever else is in it.
    """
    if has_et_files(path):
        return None
    for head in chain(document_heads(path), file_heads(path)):
        for one in IMPORTERS.values():
            if one.is_head(head):
                return one
    return None


def importer_named(name: str) -> Importer:
    """An importer by its name.

    Raises:
        InputError: there is none.
    """
    if name not in IMPORTERS:
        known = (CHAKRA, *IMPORTERS)
        advice = did_you_mean(name, known) or f"; there are {', '.join(known)}"
        raise InputError(f"there is no format {name!r}{advice}")
    return IMPORTERS[name]


def import_trace(
    importer: Importer,
    path: Path,
    *,
    ranks: int | None = None,
    strict: bool = False,
    on_rank: Callable[[int, int], None] | None = None,
) -> ImportedTrace:
    """Read the traces of a job, and check that its ranks agree.

    Args:
        strict: refuse guesses, and ranks without a file.

    Raises:
        TraceError: they cannot be read, disagree, or are refused; it names the file and the record.
    """
    try:
        trace = importer.read(path, ranks=ranks, on_rank=on_rank)
    except RecursionError as error:
        raise TraceError("has values nested too deeply to be read", path=path) from error
    except TraceError as error:
        if not (version := importer.other_version(path)):
            raise
        problem = f"{error.problem}{version}"
        raise TraceError(problem, path=error.path, offset=error.offset, node=error.node, rank=error.rank) from error
    world_size = len(trace.ranks) + len(trace.missing)
    if ranks is not None and ranks != world_size:
        alone = ": without --ranks, `check` and `view` show the one that was recorded" if len(trace.ranks) == 1 else ""
        raise TraceError(f"is of a job of {world_size} ranks, --ranks asks for {ranks}{alone}", path=path)
    check_agreement(trace)
    _count_other_formats(trace, importer)
    if strict:
        _refuse_guesses(trace)
    return trace


def _count_other_formats(trace: ImportedTrace, importer: Importer) -> None:
    """Say of files in the same folder that another importer would read that they were left out."""
    for file in source_files(trace.source)[:HEADS]:
        with suppress(TraceError, OSError):
            head = file_head(file)
            found = next((one for one in IMPORTERS.values() if one.is_head(head)), importer)
            if not importer.is_head(head) and found is not importer:
                trace.losses.count(Fate.DROPPED, f"files of another format: --from {found.name} reads them", str(file))


def check_complete(trace: ImportedTrace) -> None:
    """Refuse a trace without all ranks: it cannot be played.

    Raises:
        TraceError: ranks are missing.
    """
    if trace.missing:
        shown = ", ".join(map(str, trace.missing[:6])) + (", …" if len(trace.missing) > 6 else "")
        problem = f"is of a job of {len(trace.ranks) + len(trace.missing)} ranks; there is no trace of rank {shown}"
        raise TraceError(f"{problem}: record all ranks", path=trace.source)


def rank_alone(trace: ImportedTrace, rank: int | None) -> int | None:
    """The rank to look at alone: the chosen one, else the one that was recorded of several; None: all were.

    Raises:
        TraceError: the chosen one was not recorded, or several were, but not all.
    """
    recorded = [one.rank for one in trace.ranks]
    if rank is not None and rank not in recorded:
        raise TraceError(f"has no rank {rank}; there are {format_ranks(recorded)}", path=trace.source)
    if rank is None and not (trace.missing and len(recorded) == 1):
        check_complete(trace)
        return None
    return recorded[0] if rank is None else rank


def _refuse_guesses(trace: ImportedTrace) -> None:
    check_complete(trace)
    guesses = [
        ImportLoss(GUESSED, what, tally.count, tuple(tally.first))
        for fate, what, tally in trace.losses
        if fate is Fate.GUESSED
    ]
    refuse_guesses(ImportFacts(trace.format, tuple(guesses)), trace.source)
