"""Which documents are PyTorch's, and of which process: told from their content, not from their names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from emulator.errors import TraceError
from emulator.importers.documents import HEAD_BYTES, Document, read_documents
from emulator.importers.pytorch.host_trace import HostNode, HostTrace, decode_groups
from emulator.importers.pytorch.kineto import DistributedInfo, Event, KinetoTrace
from emulator.wire.trace.process_groups import UnreadableGroups

_HOST = re.compile(rb'^\s*\{\s*"schema"\s*:\s*"')
_KINETO = re.compile(rb'"(schemaVersion|deviceProperties|traceEvents)"\s*:')


class _HostDocument(msgspec.Struct):
    schema: str
    nodes: list[HostNode]
    pid: int = 0


class _KinetoDocument(msgspec.Struct):
    traceEvents: list[Event]  # noqa: N815 - as the file has it
    distributedInfo: DistributedInfo | None = None  # noqa: N815


def is_pytorch(head: bytes) -> bool:
    """Whether a document that begins so is a host trace or one of Kineto."""
    return bool(_HOST.search(head[:HEAD_BYTES]) or _KINETO.search(head[:HEAD_BYTES]))


def read_traces(path: Path) -> Iterator[HostTrace | KinetoTrace]:
    """Every trace of PyTorch in a file, an archive or a folder; other documents are passed over.

    Raises:
        TraceError: one cannot be read; it names the file and the place.
    """
    for document in read_documents(path):
        head = document.data[:HEAD_BYTES]
        if _HOST.search(head):
            yield _host(document)
        elif _KINETO.search(head):
            yield _kineto(document)


def _host(document: Document) -> HostTrace:
    decoded: _HostDocument = _decoded(document, _HostDocument)
    nodes = sorted(decoded.nodes, key=lambda one: one.id)
    if any(one.id == other.id for one, other in pairwise(nodes)):
        raise TraceError("has two nodes of the same id: the file is corrupt", path=document.name)
    is_linked = any(node.ts is not None for node in nodes)
    try:
        groups, descriptions, world_size = decode_groups(nodes)
    except UnreadableGroups as error:
        raise TraceError(f"defines a process group that cannot be read: {error}", path=document.name) from error
    return HostTrace(document.name, decoded.schema, decoded.pid, is_linked, nodes, groups, descriptions, world_size)


def _kineto(document: Document) -> KinetoTrace:
    decoded: _KinetoDocument = _decoded(document, _KinetoDocument)
    try:
        return KinetoTrace.of(document.name, decoded.traceEvents, decoded.distributedInfo)
    except UnreadableGroups as error:
        raise TraceError(f"defines a process group that cannot be read: {error}", path=document.name) from error


def _decoded(document: Document, kind: Any) -> Any:
    try:
        return msgspec.json.decode(document.data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise TraceError(f"is not a trace of PyTorch, or a corrupt one: {error}", path=document.name) from error
