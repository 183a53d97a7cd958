"""Writing traces: new ones, and copies of a trace in which a few nodes changed and every other byte is the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from emulator._pb import et_pb2
from emulator.errors import TraceError
from emulator.trace.files.attributes import AttrValue, make_attribute
from emulator.trace.files.compression import Encoding, open_source
from emulator.trace.files.files import is_json_name
from emulator.trace.files.frames import FrameBatch, FrameOutput, encode_frame, frame_output
from emulator.trace.files.records import open_batches, parse_metadata, parse_nodes

SCHEMA_VERSION = "0.0.4"
OWN_PREFIX = "charkha."
# Ours, but part of what is played, not of what was measured.
PLAYED = frozenset({"charkha.in_splits", "charkha.out_splits"})
# What the trace said before the first measurement: a later one must not take its place.
OLDEST_COUNTS = frozenset({"charkha.traced_duration_micros"})


@dataclass(frozen=True, slots=True)
class NodeChange:
    """What becomes of a node: its times in µs, and its `charkha.*` attributes (name → value)."""

    start_micros: int
    duration_micros: int
    attributes: Mapping[str, AttrValue] = field(default_factory=dict)

    def apply(self, node: et_pb2.Node) -> None:
        """Change a node."""
        node.start_time_micros = self.start_micros
        node.duration_micros = self.duration_micros
        _replace_own(node, self.attributes)


@dataclass(frozen=True, slots=True)
class KeptDependencies:
    """The control and data dependencies that a node keeps, by node id."""

    ctrl: frozenset[int]
    data: frozenset[int]

    def apply(self, node: et_pb2.Node) -> None:
        """Change a node."""
        node.ctrl_deps[:] = [one for one in node.ctrl_deps if one in self.ctrl]
        node.data_deps[:] = [one for one in node.data_deps if one in self.data]


Change = NodeChange | KeptDependencies


def rewrite_trace(
    source: Path,
    target: Path,
    changes: Mapping[int, Change],
    *,
    metadata: Mapping[str, AttrValue],
    encoding: Encoding | None = None,
) -> None:
    """Copy a rank's trace with changed nodes; every record that is not changed keeps its bytes.

    A node with new times and, where `metadata` has entries, the global metadata lose their earlier `charkha.*`
    attributes and get the new ones; a `charkha.traced_duration_micros` that is there stays, as do unknown fields and
    attributes.

    Args:
        source: a trace file of any form that is read.
        target: written as a whole or not at all; .et also where the source is JSON.
        changes: node id → change.
        metadata: attributes of the global metadata.
        encoding: of the target; None: as the source is compressed, JSON not.

    Raises:
        TraceError: the source cannot be read, or lacks a node of `changes`.
        HostError: the target cannot be written.
    """
    left = set(changes)
    with frame_output(target, encoding=encoding or _encoding(source)) as output:
        batches = open_batches(source)
        _copy_first(next(batches), source, output, metadata, changes, left)
        for batch in batches:
            _copy_nodes(batch, source, output, changes, left)
        if left:
            raise TraceError(
                "no longer has this node, which was there when the trace was read", path=source, node=min(left)
            )


def write_trace(path: Path, nodes: Iterable[et_pb2.Node], *, attributes: Mapping[str, AttrValue]) -> int:
    """Write a trace of one rank, streaming; compressed as its name says (`.gz`, `.zst`).

    Args:
        path: `<prefix>.<rank>.et`, replaced as a whole when all is written.
        nodes: in the order they get in the file.
        attributes: of the global metadata.

    Returns:
        How many nodes were written.

    Raises:
        HostError: the file cannot be written.
    """
    metadata = et_pb2.GlobalMetadata(
        version=SCHEMA_VERSION, attr=[make_attribute(name, value) for name, value in attributes.items()]
    )
    count = 0
    with frame_output(path, encoding=Encoding.of_name(path)) as output:
        output.write(encode_frame(metadata.SerializeToString()))
        for node in nodes:
            output.write(encode_frame(node.SerializeToString()))
            count += 1
    return count


def _encoding(source: Path) -> Encoding:
    if is_json_name(source):
        return Encoding.PLAIN
    with open_source(source) as opened:
        return opened.encoding


def _copy_first(
    batch: FrameBatch,
    source: Path,
    output: FrameOutput,
    metadata: Mapping[str, AttrValue],
    changes: Mapping[int, Change],
    left: set[int],
) -> None:
    message = parse_metadata(batch, source)
    if metadata:
        _replace_own(message, metadata)
        output.write(encode_frame(message.SerializeToString()))
    else:
        output.write(batch.raw(0, 1))
    _copy_nodes(FrameBatch(batch.base, batch.data, batch.starts[1:], batch.payloads[1:]), source, output, changes, left)


def _copy_nodes(
    batch: FrameBatch, source: Path, output: FrameOutput, changes: Mapping[int, Change], left: set[int]
) -> None:
    copied = 0
    for index, node in enumerate(parse_nodes(batch, source)):
        change = changes.get(node.id)
        if change is not None:
            output.write(batch.raw(copied, index))
            change.apply(node)
            output.write(encode_frame(node.SerializeToString()))
            copied = index + 1
            left.discard(node.id)
    output.write(batch.raw(copied, len(batch)))


def _replace_own(message: et_pb2.Node | et_pb2.GlobalMetadata, attributes: Mapping[str, AttrValue]) -> None:
    kept = [attribute for attribute in message.attr if _is_kept(attribute.name, attributes)]
    names = {attribute.name for attribute in kept}
    new = [make_attribute(name, value) for name, value in attributes.items() if name not in names & OLDEST_COUNTS]
    del message.attr[:]
    message.attr.extend(kept + new)


def _is_kept(name: str, attributes: Mapping[str, AttrValue]) -> bool:
    if not name.startswith(OWN_PREFIX) or name in OLDEST_COUNTS:
        return True
    return name in PLAYED and name not in attributes
