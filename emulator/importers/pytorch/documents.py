"""Which documents are PyTorch's, and of which process: told from their content, not from their names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from emulator.errors import TraceError
from emulator.importers.documents import HEAD_BYTES, Document, find_documents
from emulator.importers.pytorch.host_trace import HostNode, HostTrace, decode_groups
from emulator.importers.pytorch.kineto import DistributedInfo, Event, KinetoTrace
from emulator.wire.trace.process_groups import UnreadableGroups

_HOST = re.compile(rb'^\s*\{\s*"schema"\s*:\s*"')
_KINETO = re.compile(rb'"(schemaVersion|deviceProperties|traceEvents)"\s*:')


class Form(Enum):
    """The two kinds of trace; the value is for messages."""

    HOST = "host"
    KINETO = "Kineto"


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose trace a document is.

    Attributes:
        pid: of the process, 0 if it is not recorded.
        rank: as recorded; None: it is not.
        is_linked: a host trace to which another tool has added times.
    """

    document: Document
    form: Form
    pid: int
    rank: int | None
    is_linked: bool = False

    @property
    def name(self) -> str:
        """Of the document."""
        return self.document.name


class _HostDocument(msgspec.Struct):
    schema: str
    nodes: list[HostNode]
    pid: int = 0


class _KinetoDocument(msgspec.Struct):
    traceEvents: list[Event]  # noqa: N815 - as the file has it
    distributedInfo: DistributedInfo | None = None  # noqa: N815


class _Origin(msgspec.Struct, gc=False):
    """What tells the process of an event."""

    cat: str | None = None
    pid: int | str | None = None


class _KinetoOrigin(msgspec.Struct):
    traceEvents: list[_Origin]  # noqa: N815
    distributedInfo: DistributedInfo | None = None  # noqa: N815


def is_pytorch(head: bytes) -> bool:
    """Whether a document that begins so is a host trace or one of Kineto."""
    return _form(head) is not None


def find_traces(path: Path) -> Iterator[Identity]:
    """Every trace of PyTorch in a file, an archive or a folder; other documents are passed over.

    Raises:
        TraceError: one cannot be read; it names the file and the place.
    """
    for document in find_documents(path):
        data = document.read()
        form = _form(data[:HEAD_BYTES])
        if form is Form.HOST:
            host = _host(document, data)
            yield Identity(document, form, host.pid, host.own_rank(), host.is_linked)
        elif form is Form.KINETO:
            origin: _KinetoOrigin = _decoded(document, data, _KinetoOrigin)
            pids = (one.pid for one in origin.traceEvents if one.cat == "cpu_op" and isinstance(one.pid, int))
            info = origin.distributedInfo
            yield Identity(document, form, next(pids, 0), None if info is None else info.rank)


def read_host(document: Document) -> HostTrace:
    """Read a host trace.

    Raises:
        TraceError: it cannot be read; the message has the file and the place.
    """
    return _host(document, document.read())


def read_kineto(document: Document) -> KinetoTrace:
    """Read a trace of Kineto.

    Raises:
        TraceError: it cannot be read; the message has the file and the place.
    """
    decoded: _KinetoDocument = _decoded(document, document.read(), _KinetoDocument)
    try:
        return KinetoTrace.of(document.name, decoded.traceEvents, decoded.distributedInfo)
    except UnreadableGroups as error:
        raise TraceError(f"defines a process group that cannot be read: {error}", path=document.name) from error


def _form(head: bytes) -> Form | None:
    if _HOST.search(head[:HEAD_BYTES]):
        return Form.HOST
    return Form.KINETO if _KINETO.search(head[:HEAD_BYTES]) else None


def _host(document: Document, data: bytes) -> HostTrace:
    decoded: _HostDocument = _decoded(document, data, _HostDocument)
    nodes = sorted(decoded.nodes, key=lambda one: one.id)
    if any(one.id == other.id for one, other in pairwise(nodes)):
        raise TraceError("has two nodes of the same id: the file is corrupt", path=document.name)
    is_linked = any(node.ts is not None for node in nodes)
    try:
        groups, descriptions, world_size = decode_groups(nodes)
    except UnreadableGroups as error:
        raise TraceError(f"defines a process group that cannot be read: {error}", path=document.name) from error
    return HostTrace(document.name, decoded.schema, decoded.pid, is_linked, nodes, groups, descriptions, world_size)


def _decoded(document: Document, data: bytes, kind: Any) -> Any:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise TraceError(f"is not a trace of PyTorch, or a corrupt one: {error}", path=document.name) from error
