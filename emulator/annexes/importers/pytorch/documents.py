"""Which documents are PyTorch's, and of which process: told from their content, not from their names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec

from emulator.annexes.importers.documents import JsonDocument, find_documents
from emulator.annexes.importers.pytorch.host_records import HostNode, RecordCollector
from emulator.annexes.importers.pytorch.host_trace import HostTrace
from emulator.annexes.importers.pytorch.kineto import DistributedInfo, KinetoTrace
from emulator.annexes.importers.pytorch.kineto_events import EventCollector, RawEvent
from emulator.errors import TraceError
from emulator.trace.files.attributes import UnreadableGroups
from emulator.trace.files.json_elements import NOT_READ, BadDocument, ElementReader

_HOST = re.compile(rb'^\s*\{\s*"schema"\s*:\s*"')
_KINETO = re.compile(rb'"(schemaVersion|deviceProperties|traceEvents)"\s*:')
_RECORDS, _EVENTS = "nodes", "traceEvents"


class Form(Enum):
    """The two kinds of trace; the value is for messages."""

    HOST = "host"
    KINETO = "Kineto"


@dataclass(frozen=True, slots=True)
class TraceIdentity:
    """Whose trace a document is.

    Attributes:
        pid: of the process, 0 if it is not recorded.
        rank: as Kineto recorded it; None: it is not, or the trace is one of the host.
    """

    document: JsonDocument
    form: Form
    pid: int
    rank: int | None = None

    @property
    def name(self) -> str:
        """Of the document."""
        return self.document.name


class _TraceHost(msgspec.Struct):
    schema: str = ""
    pid: int = 0


class _Kineto(msgspec.Struct):
    distributedInfo: DistributedInfo | None = None  # noqa: N815 - as the file has it


class _Origin(msgspec.Struct, gc=False):
    """What tells the process of an event."""

    cat: str | None = None
    pid: int | str | None = None


def is_pytorch(head: bytes) -> bool:
    """Whether a document that begins so is a host trace or one of Kineto."""
    return _form(head) is not None


def find_traces(path: Path) -> Iterator[TraceIdentity]:
    """Every trace of PyTorch in a file, an archive or a folder; other documents are passed over.

    Raises:
        TraceError: one cannot be read; it names the file and the place.
    """
    for document in find_documents(path):
        form = _form(document.head())
        if form is Form.HOST:
            with _reading(document, _RECORDS, HostNode, _TraceHost) as reader:
                yield TraceIdentity(document, form, reader.head.pid)
        elif form is Form.KINETO:
            yield _kineto_identity(document)


def read_host(document: JsonDocument) -> HostTrace:
    """Read a host trace.

    Raises:
        TraceError: it cannot be read; the message has the file and the place.
    """
    collector = RecordCollector()
    with _reading(document, _RECORDS, HostNode, _TraceHost) as reader:
        for _, batch in reader.batches():
            for node in batch:
                collector.add(node)
        try:
            return HostTrace.of(document.name, collector.finish(), mended=reader.mended)
        except ValueError as error:
            raise BadDocument(str(error)) from error


def read_kineto(document: JsonDocument, *, wanted: Collection[int] = ()) -> KinetoTrace:
    """Read a trace of Kineto.

    Args:
        wanted: record function ids of operators that are to be kept.

    Raises:
        TraceError: it cannot be read; the message has the file and the place.
    """
    collector = EventCollector(wanted)
    with _reading(document, _EVENTS, RawEvent, _Kineto) as reader:
        for first, batch in reader.batches():
            for number, event in enumerate(batch, first):
                try:
                    collector.add(event)
                except NOT_READ as error:
                    raise BadDocument(f"record {number}, arguments: {error}") from error
        info = reader.head.distributedInfo or (reader.tail and reader.tail.distributedInfo)
        events = collector.finish()
        if len(events.processes) > 1:
            listed = ", ".join(str(one)[:20] for one in events.processes[:4])
            problem = (
                f"has threads of {len(events.processes)} processes ({listed}{', …' * (len(events.processes) > 4)})"
            )
            raise TraceError(
                f"{problem}: traces of several ranks merged into one; give the file of each rank", path=document.name
            )
        return KinetoTrace.of(document.name, events, info or None, mended=reader.mended)


def _kineto_identity(document: JsonDocument) -> TraceIdentity:
    """Reads only as far as it needs to."""
    pid = 0
    with _reading(document, _EVENTS, _Origin, _Kineto) as reader:
        info = reader.head.distributedInfo
        for _, batch in reader.batches():
            pid = pid or next((one.pid for one in batch if one.cat == "cpu_op" and isinstance(one.pid, int)), 0)
            if pid and info is not None:
                break
        if info is None and reader.tail is not None:
            info = reader.tail.distributedInfo
    return TraceIdentity(document, Form.KINETO, pid, None if info is None else info.rank)


def _form(head: bytes) -> Form | None:
    if _HOST.search(head):
        return Form.HOST
    return Form.KINETO if _KINETO.search(head) else None


@contextmanager
def _reading(document: JsonDocument, key: str, element: Any, around: Any) -> Iterator[ElementReader[Any, Any]]:
    try:
        with document.open() as source:
            yield ElementReader(source, key, element=element, around=around)
    except BadDocument as error:
        raise TraceError(f"cannot be read as a trace of PyTorch: {error}", path=document.name) from error
    except UnreadableGroups as error:
        raise TraceError(f"defines a process group that cannot be read: {error}", path=document.name) from error
