"""Traces as JSON, turned into the records of an .et file so that everything behind this module is the same.

Two forms are read: protobuf's JSON, one object after another, GlobalMetadata first (what chakra_jsonizer prints), and
one object with a list `workload_graph`. PyTorch's host traces and Kineto's are read by emulator.annexes.importers.
A file is read as it comes: an object, or a node of a long list, is held at a time.

Keys of nodes in a `workload_graph` are spelt in many ways (`ctrlDeps`, `ctrl_deps`).
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import msgspec
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import Message

from emulator._pb import et_pb2
from emulator.errors import TraceError
from emulator.schema import JSON
from emulator.trace.files import truncated_file
from emulator.trace.files.compression import ByteSource, open_source
from emulator.trace.files.frames import FrameBatch, encode_frame
from emulator.trace.files.json_elements import BadDocument, ElementReader
from emulator.units import digits

# Spellings without case and underscores → the field of Node.
FIELDS = {
    "id": "id",
    "name": "name",
    "nodetype": "type",
    "type": "type",
    "ctrldeps": "ctrl_deps",
    "datadeps": "data_deps",
    "runtime": "duration_micros",
    "duration": "duration_micros",
    "durationmicros": "duration_micros",
    "starttime": "start_time_micros",
    "starttimemicros": "start_time_micros",
    "storage": "storage",
}
# … → the attribute whose value is an integer.
INTEGERS = {
    "commtype": "comm_type",
    "commsize": "comm_size",
    "commsrc": "comm_src",
    "commdst": "comm_dst",
    "commtag": "comm_tag",
    "commpriority": "comm_priority",
    "tensorsize": "tensor_size",
    "numops": "num_ops",
    "rootrank": "root_rank",
}
MAX_UINT64 = (1 << 64) - 1
INT64_RANGE = range(-(1 << 63), 1 << 63)


class BadGraphNode(ValueError):
    """An entry of workload_graph that is not a node; the message says what is wrong."""


def graph_node(entry: object) -> et_pb2.Node:
    """The node an entry describes; keys without a field become attributes of their own name.

    Raises:
        BadGraphNode: no object, no id, or a value that its field cannot have.
    """
    if not isinstance(entry, dict):
        raise BadGraphNode("is not an object")
    node = et_pb2.Node()
    seen = set()
    for key, value in entry.items():
        plain = key.lower().replace("_", "")
        if plain in FIELDS:
            seen.add(FIELDS[plain])
            _set_field(node, FIELDS[plain], key, value)
        elif value is not None:
            node.attr.append(_attribute(key, plain, value))
    if "id" not in seen:
        raise BadGraphNode("has no id")
    return node


def _set_field(node: et_pb2.Node, field: str, key: str, value: object) -> None:
    if field == "name":
        if not isinstance(value, str):
            raise BadGraphNode(f"{key} is not a string")
        node.name = _text(value)
    elif field == "type":
        node.type = _enum_number(key, value, et_pb2.NodeType, "_NODE")  # type: ignore[assignment]
    elif field == "storage":
        _set_storage(node, key, value)
    elif field in ("ctrl_deps", "data_deps"):
        if not isinstance(value, list):
            raise BadGraphNode(f"{key} is not a list")
        (node.ctrl_deps if field == "ctrl_deps" else node.data_deps).extend(_unsigned(key, item) for item in value)
    else:
        setattr(node, field, _unsigned(key, value))


def _set_storage(node: et_pb2.Node, key: str, value: object) -> None:
    if not isinstance(value, dict):
        raise BadGraphNode(f"{key} is not an object")
    try:
        ParseDict(value, node.storage)
    except (ParseError, ValueError, TypeError, AttributeError, RecursionError) as error:
        problem = " ".join(str(error).split()).replace("charkha.et.", "")
        raise BadGraphNode(f"{key} is no StorageInfo: {problem[:200]}") from error


def _attribute(key: str, plain: str, value: object) -> et_pb2.Attribute:
    if plain == "commtype":
        return et_pb2.Attribute(name="comm_type", int64_val=_enum_number(key, value, et_pb2.CollectiveCommType, ""))
    if plain in INTEGERS:
        return et_pb2.Attribute(name=INTEGERS[plain], int64_val=_signed(key, value))
    if plain == "iscpuop":
        return et_pb2.Attribute(name="is_cpu_op", bool_val=bool(_signed(key, value)))
    if plain == "pgname":
        return et_pb2.Attribute(name="pg_name", string_val=_text(str(value)))
    return _free_attribute(_text(key), value)


def _free_attribute(name: str, value: object) -> et_pb2.Attribute:
    """An attribute of the type that the value has; what no type can hold is kept as its JSON text."""
    if isinstance(value, bool):
        return et_pb2.Attribute(name=name, bool_val=value)
    if isinstance(value, int) and value in INT64_RANGE:
        return et_pb2.Attribute(name=name, int64_val=value)
    if isinstance(value, float):
        return et_pb2.Attribute(name=name, double_val=value)
    if isinstance(value, str):
        return et_pb2.Attribute(name=name, string_val=_text(value))
    if isinstance(value, list) and all(type(item) is int and item in INT64_RANGE for item in value):
        return et_pb2.Attribute(name=name, int64_list=et_pb2.Int64List(values=value))
    return et_pb2.Attribute(name=name, string_val=json.dumps(value))


def _text(value: str) -> str:
    """Text that UTF-8 can hold: JSON can name half of a surrogate pair, protobuf cannot hold one."""
    return value.encode("utf-8", "replace").decode("utf-8")


def _integer(key: str, value: object) -> int:
    if isinstance(value, str) and (size := digits(value.strip().removeprefix("-"))) is not None:
        return -size if value.strip().startswith("-") else size
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, int):
        raise BadGraphNode(f"{key} is not an integer: {str(value)[:40]!r}")
    return value


def _unsigned(key: str, value: object) -> int:
    number = _integer(key, value)
    if not 0 <= number <= MAX_UINT64:
        raise BadGraphNode(f"{key} is outside 0 … 2**64 - 1: {number}")
    return number


def _signed(key: str, value: object) -> int:
    number = _integer(key, value)
    if number not in INT64_RANGE:
        raise BadGraphNode(f"{key} needs more than 64 bits: {number}")
    return number


def _enum_number(key: str, value: object, enum: object, suffix: str) -> int:
    if isinstance(value, str) and not value.lstrip("-").isdecimal():
        name = value.upper().removesuffix(suffix) + suffix
        numbers: dict[str, int] = dict(enum.items())  # type: ignore[attr-defined]
        if name not in numbers:
            raise BadGraphNode(f"{key} is unknown: {value[:40]!r}")
        return numbers[name]
    number = _signed(key, value)
    if not -(1 << 31) <= number < 1 << 31:
        raise BadGraphNode(f"{key} is unknown: {number}")
    return number


MAX_OBJECT_CHARACTERS = 64 << 20
HELD_BYTES = 4 << 20
"""A list of nodes up to this length is decoded at once: errors then have lines, not bytes."""
BATCH_NODES = 4096
_HEAD_BYTES = 1 << 16
_GRAPH = re.compile(rb'\s*\{(?:(?!"traceEvents").)*?"workload_graph"\s*:\s*\[', re.DOTALL)

_NOT_READ = (
    ParseError,
    ValueError,
    TypeError,
    AttributeError,
    ArithmeticError,
    LookupError,
    SystemError,
    RecursionError,
)
"""What protobuf raises on values that a field cannot have."""
_SPACE = re.compile(r"[ \t\r\n]*")


def read_json_batches(path: Path) -> Iterator[FrameBatch]:
    """The records of a JSON trace: GlobalMetadata first, then Nodes; at least one batch.

    Raises:
        TraceError: not readable, no JSON (with the line, or the byte), or no trace in a form that is read.
    """
    messages: Iterator[Message]
    if _is_long_graph(path):
        messages = chain([et_pb2.GlobalMetadata()], _graph_nodes(_long_graph(path), path))
    else:
        objects = _objects(path)
        first, _ = next(objects)
        _refuse_other_formats(first, path)
        if "workload_graph" in first:
            messages = chain([et_pb2.GlobalMetadata()], _graph_nodes(first["workload_graph"], path))
        else:
            nodes = (_parsed(value, et_pb2.Node(), line, path) for value, line in objects)
            messages = chain([_parsed(first, et_pb2.GlobalMetadata(), 1, path)], nodes)
    while batch := list(islice(messages, BATCH_NODES)):
        yield _encoded(batch)


def _is_long_graph(path: Path) -> bool:
    """Whether a file is one list of nodes that is too long to be held."""
    with open_source(path) as source:
        head = source.read_at_least(HELD_BYTES + 1)
    return len(head) > HELD_BYTES and _GRAPH.match(head[:_HEAD_BYTES]) is not None


def _long_graph(path: Path) -> Iterator[object]:
    try:
        with open_source(path) as source:
            reader = ElementReader(source, "workload_graph", element=dict[str, Any], around=_Around)
            for _, batch in reader.batches():
                yield from batch
    except BadDocument as error:
        raise TraceError(f"workload_graph: {error}", path=path) from error


class _Around(msgspec.Struct):
    """What is beside the list of nodes: nothing that is used."""


class _Text:
    """A text that is being read: what is here of it, and the offset in characters of its first one."""

    def __init__(self, source: ByteSource, path: Path) -> None:
        self._source, self._path = source, path
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._bytes_read = 0
        self.here, self.offset = "", 0

    def more(self) -> bool:
        """Read on, as much again as is here; False: there is nothing more."""
        if len(self.here) > MAX_OBJECT_CHARACTERS:
            problem = f"has an object of more than {MAX_OBJECT_CHARACTERS >> 20} MiB"
            raise TraceError(problem, path=self._path, offset=self.offset)
        block = self._source.read_at_least(max(1, len(self.here)))
        pending = len(self._decoder.getstate()[0])
        try:
            self.here += self._decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            offset = self._bytes_read - pending + error.start
            raise TraceError("is not UTF-8 text and therefore not JSON", path=self._path, offset=offset) from error
        self._bytes_read += len(block)
        return bool(block)

    def drop(self, count: int) -> None:
        """Go on after so many characters."""
        self.here = self.here[count:]
        self.offset += count


def _objects(path: Path) -> Iterator[tuple[dict[str, object], int]]:
    """The objects that stand one after another, at least one, and the line each begins on."""
    with open_source(path) as source:
        text, line, position, is_empty = _Text(source, path), 1, 0, True
        while True:
            begin = _skip_space(text.here, position)
            line += text.here.count("\n", position, begin)
            try:
                value, position = JSON.raw_decode(text.here, begin)
            except json.JSONDecodeError as error:
                lines = text.here.count("\n", begin, error.pos)
                text.drop(begin)
                position = 0
                if text.more():
                    continue
                if not text.here:
                    break
                at = text.offset + error.pos - begin
                raise TraceError(f"bad JSON in line {line + lines}: {error.msg}", path=path, offset=at) from error
            except (ValueError, RecursionError) as error:
                raise TraceError(
                    f"bad JSON after line {line}: {error}", path=path, offset=text.offset + begin
                ) from error
            if not isinstance(value, dict):
                raise TraceError(f"line {line}: expected an object, not a {type(value).__name__}", path=path)
            is_empty = False
            yield value, line
            line += text.here.count("\n", begin, position)
    if is_empty:
        raise truncated_file.empty_file(path)


def _skip_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _refuse_other_formats(first: dict[str, object], path: Path) -> None:
    form = None
    if "traceEvents" in first:
        form = "a Kineto trace"
    elif "nodes" in first and "workload_graph" not in first:
        form = f"a PyTorch host trace (schema {first.get('schema', 'unnamed')})"
    if form is not None:
        problem = f"is {form}, not a Chakra trace: name the folder with the traces of all ranks ({path.parent})"
        raise TraceError(problem, path=path)
    if "workload_graph" not in first and not first.keys() <= {"version", "attr"}:
        keys = ", ".join(sorted(first)[:5])
        problem = (
            f"is not a Chakra trace: the first object must be the global metadata or have workload_graph; has {keys}"
        )
        raise TraceError(problem, path=path)


def _parsed(value: dict[str, object], message: Message, line: int, path: Path) -> Message:
    kind = message.DESCRIPTOR.name
    if not value and kind == "Node":
        raise TraceError(f"line {line}: an empty object instead of a node", path=path)
    try:
        return ParseDict(value, message)
    except _NOT_READ as error:
        problem = " ".join(str(error).split()).replace("charkha.et.", "")
        raise TraceError(f"line {line}: no {kind}: {problem[:200]}", path=path) from error


def _graph_nodes(entries: object, path: Path) -> Iterator[Message]:
    if not isinstance(entries, list | Iterator):
        raise TraceError("workload_graph is not a list", path=path)
    for index, entry in enumerate(entries):
        try:
            yield graph_node(entry)
        except (BadGraphNode, *_NOT_READ) as error:
            raise TraceError(f"workload_graph[{index}]: {error}", path=path) from error


def _encoded(messages: Iterable[Message]) -> FrameBatch:
    payloads = [message.SerializeToString() for message in messages]
    raws = [encode_frame(payload) for payload in payloads]
    starts = [0]
    for raw in raws:
        starts.append(starts[-1] + len(raw))
    return FrameBatch(None, b"".join(raws), starts, payloads)
