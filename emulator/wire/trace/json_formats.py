"""Traces as JSON, turned into the records of an .et file so that everything behind this module is the same.

Two forms are read: protobuf's JSON, one object after another, GlobalMetadata first (what chakra_jsonizer prints), and
one object with a list `workload_graph`. PyTorch's host traces and Kineto's are read by emulator.importers.
JSON is held in memory whole: a file may have at most MAX_JSON_BYTES.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path

from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import Message

from emulator.errors import TraceError
from emulator.wire._pb import et_pb2
from emulator.wire.trace import truncated_file
from emulator.wire.trace.compression import open_source
from emulator.wire.trace.frame_output import encode_frame
from emulator.wire.trace.frames import FrameBatch
from emulator.wire.trace.workload_graph import BadGraphNode, graph_node

MAX_JSON_BYTES = 128 << 20
BATCH_NODES = 4096

_SPACE = re.compile(r"[ \t\r\n]*")


def is_json_name(path: Path) -> bool:
    """Whether a file's name says that it is JSON, compressed or not."""
    return re.search(r"\.json(\.gz|\.zst)?$", path.name) is not None


def read_json_batches(path: Path) -> Iterator[FrameBatch]:
    """The records of a JSON trace: GlobalMetadata first, then Nodes; at least one batch.

    Raises:
        TraceError: not readable, too long, no JSON (with the line), or no trace in a form that is read.
    """
    messages: Iterator[Message]
    objects = _objects(_read_text(path), path)
    first, _ = next(objects)
    _refuse_other_formats(first, path)
    if "workload_graph" in first:
        messages = chain([et_pb2.GlobalMetadata()], _graph_nodes(first["workload_graph"], path))
    else:
        nodes = (_parsed(value, et_pb2.Node(), line, path) for value, line in objects)
        messages = chain([_parsed(first, et_pb2.GlobalMetadata(), 1, path)], nodes)
    while batch := list(islice(messages, BATCH_NODES)):
        yield _encoded(batch)


def _read_text(path: Path) -> str:
    with open_source(path) as source:
        data = source.read_at_least(MAX_JSON_BYTES + 1)
    if len(data) > MAX_JSON_BYTES:
        raise TraceError(f"is JSON of more than {MAX_JSON_BYTES >> 20} MiB: convert it to .et", path=path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TraceError("is not UTF-8 text, so no JSON", path=path, offset=error.start) from error


def _objects(text: str, path: Path) -> Iterator[tuple[dict[str, object], int]]:
    """The objects that stand one after another, at least one, and the line each begins on."""
    decoder = json.JSONDecoder()
    position, line = _skip_space(text, 0), 1
    line += text.count("\n", 0, position)
    if position == len(text):
        raise truncated_file.empty_file(path)
    while position < len(text):
        try:
            value, end = decoder.raw_decode(text, position)
        except json.JSONDecodeError as error:
            raise TraceError(f"bad JSON in line {error.lineno}: {error.msg}", path=path, offset=error.pos) from error
        except (ValueError, RecursionError) as error:
            raise TraceError(f"bad JSON after line {line}: {error}", path=path, offset=position) from error
        if not isinstance(value, dict):
            raise TraceError(f"line {line}: an object is needed here, not a {type(value).__name__}", path=path)
        yield value, line
        end = _skip_space(text, end)
        line += text.count("\n", position, end)
        position = end


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
        raise TraceError(f"line {line}: an empty object where a node belongs", path=path)
    try:
        return ParseDict(value, message)
    except (ParseError, ValueError, TypeError, AttributeError, RecursionError) as error:
        problem = " ".join(str(error).split()).replace("charkha.et.", "")
        raise TraceError(f"line {line}: no {kind}: {problem[:200]}", path=path) from error


def _graph_nodes(entries: object, path: Path) -> Iterator[Message]:
    if not isinstance(entries, list):
        raise TraceError("workload_graph is not a list", path=path)
    for index, entry in enumerate(entries):
        try:
            yield graph_node(entry)
        except BadGraphNode as error:
            raise TraceError(f"workload_graph[{index}]: {error}", path=path) from error


def _encoded(messages: Iterable[Message]) -> FrameBatch:
    payloads = [message.SerializeToString() for message in messages]
    raws = [encode_frame(payload) for payload in payloads]
    starts = [0]
    for raw in raws:
        starts.append(starts[-1] + len(raw))
    return FrameBatch(None, b"".join(raws), starts, payloads)
