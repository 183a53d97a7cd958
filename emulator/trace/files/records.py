"""The records of a trace file as protobuf messages, and the checks that find a corrupt record.

protobuf treats a known field with the wrong wire type as unknown, so the field looks absent. Here that is an error.
Only fields that are not in the schema are accepted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from emulator._pb import et_pb2
from emulator.errors import TraceError
from emulator.trace.files.files import is_json_name
from emulator.trace.files.frames import FrameBatch, read_batches

WIRE_VARINT = 0
OLD_ATTRIBUTE_FIELD = 11  # attributes in files of before October 2023, which have no field 10; StorageInfo today
MOST_ELEMENTS = 1 << 20
"""Fields, and entries of lists, of a record: an empty message takes two bytes in a file, and a hundred in memory."""
MOST_ATTRIBUTES = 4096
"""Of the metadata, and of a node whose attributes are read."""
_LONG_RECORDS = 4
"""Times MOST_ELEMENTS: what all records of a file may have together that are long enough to be counted."""

_parse_node = et_pb2.Node.FromString


def open_batches(path: Path, *, most_elements: int = MOST_ELEMENTS) -> Iterator[FrameBatch]:
    """The records of a trace file in any of its formats: GlobalMetadata first, then Nodes; at least one batch.

    Raises:
        TraceError: not readable, cut short or corrupt.
    """
    if is_json_name(path):
        from emulator.trace.files.json_formats import read_json_batches as read  # seldom needed
    else:
        read = read_batches
    counted, kind = 0, et_pb2.GlobalMetadata.DESCRIPTOR
    for batch in read(path):
        for index, payload in enumerate(batch.payloads):
            if len(payload) > most_elements:  # a shorter one cannot have more
                found = _count_elements(memoryview(payload), kind, most_elements)
                counted += found
                if found > most_elements or counted > _LONG_RECORDS * most_elements:
                    problem = f"a record has more than {most_elements:,} dependencies, attributes and values"
                    raise TraceError(problem, path=path, offset=batch.offset(index))
            kind = et_pb2.Node.DESCRIPTOR
        yield batch


def read_nodes(path: Path, *, most_elements: int = MOST_ELEMENTS) -> Iterator[et_pb2.Node]:
    """The nodes of a trace file in any of its formats, one after another.

    Raises:
        TraceError: not readable, cut short or corrupt.
    """
    batches = open_batches(path, most_elements=most_elements)
    first = next(batches)
    parse_metadata(first, path)
    yield from parse_nodes(FrameBatch(first.base, first.data, first.starts[1:], first.payloads[1:]), path)
    for batch in batches:
        yield from parse_nodes(batch, path)


def parse_metadata(batch: FrameBatch, path: Path) -> et_pb2.GlobalMetadata:
    """The first record of a file, from its first batch.

    Raises:
        TraceError: it is not a GlobalMetadata; the message names the wire format of before October 2023.
    """
    payload, offset = batch.payloads[0], batch.offset(0)
    wire_types = _wire_types(payload)
    if wire_types.get(1) == WIRE_VARINT or wire_types.get(3) == WIRE_VARINT:
        if OLD_ATTRIBUTE_FIELD in wire_types and not _is_storage_node(payload):
            problem = "uses Chakra's wire format from before October 2023: convert it to the current one"
        else:
            problem = "starts with a node instead of the global metadata: its first record is missing"
        raise TraceError(problem, path=path, offset=offset)
    try:
        metadata = et_pb2.GlobalMetadata.FromString(payload)
    except DecodeError as error:
        problem = "is not a Chakra trace, or a corrupt one: its first record is not global metadata"
        raise TraceError(problem, path=path, offset=offset) from error
    if len(metadata.attr) > MOST_ATTRIBUTES:
        raise TraceError(f"its metadata has more than {MOST_ATTRIBUTES:,} attributes", path=path, offset=offset)
    return metadata


def parse_nodes(batch: FrameBatch, path: Path) -> list[et_pb2.Node]:
    """The records of a batch as nodes.

    Raises:
        TraceError: one is not a node, or has a known field in the wrong wire type (protobuf would treat it as unknown).
    """
    try:
        nodes = list(map(_parse_node, batch.payloads))
    except DecodeError:
        raise _first_bad_node(batch, path) from None
    for index, node in enumerate(nodes):
        unknown = UnknownFieldSet(node)
        if len(unknown):
            _check_wire_types(node, unknown, path=path, offset=batch.offset(index))
    return nodes


def check_attributes(node: et_pb2.Node, path: Path) -> None:
    """Check a node's attributes as `parse_nodes` checks nodes. It takes time: call it only if the attributes are used.

    Raises:
        TraceError: an attribute has a field in the wrong wire type, or there are too many.
    """
    check_attribute_count(node, path)
    for attribute in node.attr:
        check_message(attribute, path=path, node=node.id)


def check_attribute_count(node: et_pb2.Node, path: Path) -> None:
    """Refuse a node with more attributes than MOST_ATTRIBUTES.

    Raises:
        TraceError: it has more.
    """
    if len(node.attr) > MOST_ATTRIBUTES:
        raise TraceError(f"has more than {MOST_ATTRIBUTES:,} attributes", path=path, node=node.id)


def check_message(message: Message, *, path: Path, node: int) -> None:
    """Check a message within a node as `parse_nodes` checks nodes.

    Raises:
        TraceError: it has a field in the wrong wire type.
    """
    unknown = UnknownFieldSet(message)
    if len(unknown):
        _check_wire_types(message, unknown, path=path, node=node)


def _wire_types(payload: bytes) -> dict[int, int]:
    """Field number → wire type of the top level of a message; empty if the payload is not a message."""
    try:
        message = Empty.FromString(payload)  # Empty has no fields, so all are unknown
    except DecodeError:
        return {}
    unknown = UnknownFieldSet(message)
    fields = (unknown[index] for index in range(len(unknown)))
    return {field.field_number: field.wire_type for field in fields}


def _is_storage_node(payload: bytes) -> bool:
    try:
        return _parse_node(payload).type >= et_pb2.STORAGE_NODE
    except DecodeError:
        return False


def _first_bad_node(batch: FrameBatch, path: Path) -> TraceError:
    for index, payload in enumerate(batch.payloads):
        try:
            _parse_node(payload)
        except DecodeError as error:
            found = TraceError("is not a Chakra node: the file is corrupt", path=path, offset=batch.offset(index))
            found.__cause__ = error
            return found
    raise AssertionError("a batch failed to parse whose records all parse")


def _check_wire_types(message: Message, unknown: UnknownFieldSet, **where: Any) -> None:
    known = message.DESCRIPTOR.fields_by_number
    for number in (unknown[index].field_number for index in range(len(unknown))):
        if number in known:
            name, kind = known[number].name, message.DESCRIPTOR.name
            article = "an" if kind[0] in "AEIOU" else "a"
            problem = f"field {name} of {article} {kind} has the wrong wire type: the file is corrupt"
            raise TraceError(problem, **where)


def _count_elements(data: memoryview, kind: Any, most: int) -> int:
    """Fields and entries of lists in a message and those within, up to more than `most`; of bytes that are none, some.

    Walks over the bytes: a parser would make an object of every element first.
    """
    count, spans = 0, [(0, len(data), kind)]
    while spans and count <= most:
        at, end, kind = spans.pop()
        fields: Mapping[int, FieldDescriptor] = kind.fields_by_number
        while at < end and count <= most:
            tag, at = _varint(data, at)
            count += 1
            wire_type = tag & 7
            if wire_type == WIRE_VARINT:
                at = _varint(data, at)[1]
            elif wire_type in _FIXED_BYTES:
                at += _FIXED_BYTES[wire_type]
            elif wire_type == _WIRE_LENGTH:
                length, at = _varint(data, at)
                if (field := fields.get(tag >> 3)) is not None:
                    if field.message_type is not None:
                        spans.append((at, min(at + length, end), field.message_type))
                    elif field.type not in _TEXTS:
                        count += int(np.count_nonzero(np.frombuffer(data[at : at + length], dtype=np.uint8) < 0x80))
                at += length
    return count


_WIRE_LENGTH = 2
_FIXED_BYTES = {1: 8, 5: 4}
_TEXTS = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """A varint and the place after it; the parser refuses what is none."""
    value = shift = 0
    for byte in data[at : at + 10]:
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            break
        shift += 7
    return value, at
