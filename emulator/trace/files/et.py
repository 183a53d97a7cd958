"""A rank's trace file as columns of numbers: read once, in batches, with the cost of a node that of a tight loop.

Names of nodes and their other attributes, which playing does not need, are read on their own.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from emulator._pb import et_pb2
from emulator.errors import TraceError
from emulator.trace.files.attributes import (
    INIT_NAME,
    MEANT,
    CommunicationReader,
    UnreadableGroups,
    attribute_value,
    merge_groups,
    parse_process_groups,
)
from emulator.trace.files.frames import FrameBatch
from emulator.trace.files.records import (
    check_attribute_count,
    check_attributes,
    check_message,
    open_batches,
    parse_metadata,
    parse_nodes,
    read_nodes,
)
from emulator.trace.meaning.model import (
    BoolArray,
    IdArray,
    IntArray,
    NodeType,
    RankTrace,
    RawCommunication,
    RawStorage,
    StorageAction,
    StorageLevel,
    is_communication,
    is_storage,
)

MAX_MICROS = 1 << 53  # 285 years; beyond it is not a time
MOST_DEPENDENCIES, MOST_DEPENDENCIES_A_NODE = 1 << 22, 64
"""Of a rank in any case, and on the average of its nodes."""

_Scalar = TypeVar("_Scalar", bound=np.generic)
_columns = attrgetter("id", "type", "start_time_micros", "duration_micros", "ctrl_deps", "data_deps")

# Two attributes matter on every node, and a walk over all attributes would be the most expensive part of reading.
# A search of the encoded node finds them instead; 0xd8 0x01 (bool_val) is not UTF-8, so no text can look like it.
_find_flags = re.compile(rb"\n\x05rf_id|\n\tis_cpu_op(?:\xd8\x01[\x00\x01])?").findall
_RF_ID, _CPU, _DEVICE = b"\n\x05rf_id", b"\n\tis_cpu_op\xd8\x01\x01", b"\n\tis_cpu_op\xd8\x01\x00"
_IS_CPU, _IS_PYTORCH_OP, _UNUSUAL = 1, 2, 4
_FLAGS = {
    (): 0,
    (_CPU,): _IS_CPU,
    (_DEVICE,): 0,
    (_RF_ID,): _IS_PYTORCH_OP,
    (_RF_ID, _CPU): _IS_PYTORCH_OP | _IS_CPU,
    (_CPU, _RF_ID): _IS_PYTORCH_OP | _IS_CPU,
    (_RF_ID, _DEVICE): _IS_PYTORCH_OP,
    (_DEVICE, _RF_ID): _IS_PYTORCH_OP,
}


def read_rank(path: Path, rank: int) -> RankTrace:
    """Read a rank's trace: `.et`, or one of the JSON forms, compressed or not.

    Raises:
        TraceError: not readable, cut short, corrupt, not a trace; with the offset or the node.
    """
    batches = open_batches(path)
    first = next(batches)
    metadata = parse_metadata(first, path)
    reader = _RankReader(path)
    reader.add(FrameBatch(first.base, first.data, first.starts[1:], first.payloads[1:]))
    for batch in batches:
        reader.add(batch)
    return reader.finish(rank, _schema(metadata))


class _RankReader:
    """Columns under construction: numpy blocks per batch, joined at the end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows = 0
        self._ids: list[IdArray] = []
        self._types: list[npt.NDArray[np.int8]] = []
        self._starts: list[IntArray] = []
        self._durations: list[IntArray] = []
        self._is_cpu: list[BoolArray] = []
        self._is_pytorch_op: list[BoolArray] = []
        self._dep_id = array("Q")
        self._dep_end = array("q", [0])
        self._ctrl_count = array("q")
        self._communications: list[RawCommunication] = []
        self._storage: list[RawStorage] = []
        self._groups: dict[str, tuple[int, ...]] = {}
        self._communication_reader = CommunicationReader(str(path))

    def add(self, batch: FrameBatch) -> None:
        """Append the nodes of a batch."""
        if not batch:
            return
        nodes = parse_nodes(batch, self._path)
        types = self._add_columns(nodes)
        self._add_flags(nodes, batch.payloads)
        for index in np.flatnonzero(is_communication(types)).tolist():
            self._add_communication(nodes[index], self._rows + index)
        for index in np.flatnonzero(is_storage(types)).tolist():
            self._storage += read_storage(nodes[index], row=self._rows + index, path=self._path)
        for index in np.flatnonzero(types == NodeType.METADATA).tolist():
            if INIT_NAME in nodes[index].name:
                self._add_groups(nodes[index])
        self._rows += len(nodes)

    def finish(self, rank: int, schema: str) -> RankTrace:
        """The trace.

        Raises:
            TraceError: two nodes have one id.
        """
        node_id = _joined(self._ids, np.uint64)
        self._check_distinct(node_id)
        return RankTrace(
            path=str(self._path),
            rank=rank,
            schema=schema,
            node_id=node_id,
            node_type=_joined(self._types, np.int8),
            is_cpu=_joined(self._is_cpu, np.bool_),
            is_pytorch_op=_joined(self._is_pytorch_op, np.bool_),
            start_micros=_joined(self._starts, np.int64),
            duration_micros=_joined(self._durations, np.int64),
            dep_offset=np.frombuffer(self._dep_end, dtype=np.int64),
            ctrl_count=np.frombuffer(self._ctrl_count, dtype=np.int64),
            dep_id=np.frombuffer(self._dep_id, dtype=np.uint64),
            communications=self._communications,
            groups=self._groups,
            attribute_names=dict(self._communication_reader.unknown),
            storage=self._storage,
        )

    def _add_columns(self, nodes: list[et_pb2.Node]) -> IntArray:
        ids: list[int] = []
        types: list[int] = []
        times: tuple[list[int], list[int]] = [], []
        ctrl_counts: list[int] = []
        ends: list[int] = []
        dependencies: list[int] = []
        for node_id, node_type, start, duration, ctrl_deps, data_deps in map(_columns, nodes):
            ids.append(node_id)
            types.append(node_type)
            times[0].append(start)
            times[1].append(duration)
            ctrl = ctrl_deps[:]
            dependencies += ctrl
            dependencies += data_deps[:]
            ctrl_counts.append(len(ctrl))
            ends.append(len(dependencies))
        self._ids.append(np.array(ids, dtype=np.uint64))
        self._starts.append(self._micros(nodes, times[0], "start time"))
        self._durations.append(self._micros(nodes, times[1], "duration"))
        self._ctrl_count.extend(ctrl_counts)
        before = len(self._dep_id)
        self._dep_end.extend([before + end for end in ends])
        self._dep_id.extend(dependencies)
        if len(self._dep_id) > MOST_DEPENDENCIES + MOST_DEPENDENCIES_A_NODE * (self._rows + len(nodes)):
            problem = f"has {len(self._dep_id):,} dependencies up to this node, more than {MOST_DEPENDENCIES_A_NODE}"
            raise TraceError(f"{problem} for each on the average", path=self._path, node=nodes[-1].id)
        return self._add_types(nodes, types)

    def _add_types(self, nodes: list[et_pb2.Node], types: list[int]) -> IntArray:
        numbers = np.array(types, dtype=np.int64)
        self._check_values(nodes, numbers, (numbers < 0) | (numbers > NodeType.CHECKPOINT), "unknown node type")
        self._types.append(numbers.astype(np.int8))
        return numbers

    def _micros(self, nodes: list[et_pb2.Node], values: list[int], name: str) -> IntArray:
        micros = np.array(values, dtype=np.uint64)
        self._check_values(nodes, micros, micros > MAX_MICROS, f"absurd {name} (in µs)")
        return micros.astype(np.int64)

    def _check_values(
        self, nodes: list[et_pb2.Node], values: npt.NDArray[np.generic], is_bad: npt.NDArray[np.bool_], name: str
    ) -> None:
        for index in np.flatnonzero(is_bad)[:1].tolist():
            raise TraceError(f"{name} {values[index]}", path=self._path, node=nodes[index].id)

    def _add_flags(self, nodes: list[et_pb2.Node], payloads: list[bytes]) -> None:
        flags = [_FLAGS.get(tuple(found), _UNUSUAL) for found in map(_find_flags, payloads)]
        if _UNUSUAL in flags:
            flags = [self._walk(node) if flag == _UNUSUAL else flag for node, flag in zip(nodes, flags, strict=True)]
        bits = np.array(flags, dtype=np.int8)
        self._is_cpu.append(bits & _IS_CPU != 0)
        self._is_pytorch_op.append(bits & _IS_PYTORCH_OP != 0)

    def _walk(self, node: et_pb2.Node) -> int:
        check_attribute_count(node, self._path)
        names = [attribute.name for attribute in node.attr]
        is_cpu = "is_cpu_op" in names and self._is_true(node.attr[names.index("is_cpu_op")], node)
        return (_IS_CPU if is_cpu else 0) | (_IS_PYTORCH_OP if "rf_id" in names else 0)

    def _is_true(self, attribute: et_pb2.Attribute, node: et_pb2.Node) -> bool:
        value = attribute_value(attribute)
        if value is None or isinstance(value, int):
            return bool(value)
        problem = f"attribute is_cpu_op is {str(value)[:40]!r}, not a boolean or an integer"
        raise TraceError(problem, path=self._path, node=node.id)

    def _add_communication(self, node: et_pb2.Node, row: int) -> None:
        check_attributes(node, self._path)
        self._communications.append(self._communication_reader.read(node, row=row))

    def _add_groups(self, node: et_pb2.Node) -> None:
        try:
            groups = parse_process_groups(node.inputs.values)
        except UnreadableGroups:
            self._communication_reader.unknown[f"{INIT_NAME} unreadable"] += 1
            return
        merge_groups(self._groups, groups, path=str(self._path), node=node.id)

    def _check_distinct(self, node_id: IdArray) -> None:
        ordered = np.sort(node_id)
        twice = ordered[:-1][ordered[1:] == ordered[:-1]]
        if len(twice):
            problem = f"{len(twice)} nodes have an id that another node has; node ids must be distinct"
            raise TraceError(problem, path=self._path, node=int(twice[0]))


def _joined(blocks: list[npt.NDArray[_Scalar]], kind: type[_Scalar]) -> npt.NDArray[_Scalar]:
    return np.concatenate(blocks) if blocks else np.empty(0, dtype=kind)


def _schema(metadata: et_pb2.GlobalMetadata) -> str:
    named = (attribute.string_val for attribute in metadata.attr if attribute.name == "schema")
    return next(named, "") or metadata.version


_ACTIONS = {
    et_pb2.FsOp.FS_OP_READ: StorageAction.READ,
    et_pb2.FsOp.FS_OP_PREAD: StorageAction.READ,
    et_pb2.FsOp.FS_OP_WRITE: StorageAction.WRITE,
    et_pb2.FsOp.FS_OP_PWRITE: StorageAction.WRITE,
}
_LEVELS = {"fs": StorageLevel.FILE, "page": StorageLevel.PAGE, "block": StorageLevel.BLOCK}


def read_storage(node: et_pb2.Node, *, row: int, path: Path) -> Iterator[RawStorage]:
    """The operation that a STORAGE, BATCH or CHECKPOINT node describes; nothing if it has no details.

    Raises:
        TraceError: a field has the wrong wire type, the level is unknown, or it is not that of the details.
    """
    if not node.HasField("storage"):
        return
    info = node.storage
    detail = info.WhichOneof("detail")
    check_message(info, path=path, node=node.id)
    if detail is not None:
        check_message(getattr(info, detail), path=path, node=node.id)
    is_file = detail == "fs"
    yield RawStorage(
        row=row,
        node_id=node.id,
        name=node.name,
        level=_level(info, detail, node, path),
        action=_ACTIONS.get(info.fs.op, StorageAction.OTHER) if is_file else StorageAction.OTHER,
        size_bytes=info.fs.size_bytes if is_file else 0,
        duration_micros=node.duration_micros,
    )


def _level(info: et_pb2.StorageInfo, detail: str | None, node: et_pb2.Node, path: Path) -> StorageLevel:
    """The stated level; where none is stated, that of the details."""
    implied = _LEVELS[detail] if detail is not None else StorageLevel.UNKNOWN
    if info.level not in range(len(StorageLevel)):
        raise TraceError(f"has storage level {info.level}; levels are numbered 0 to 4", path=path, node=node.id)
    stated = StorageLevel(info.level)
    if stated is StorageLevel.UNKNOWN:
        return implied
    if detail is not None and stated is not implied:
        problem = f"has storage level {stated.name}, but the details of an operation of level {implied.name}"
        raise TraceError(problem, path=path, node=node.id)
    return stated


@dataclass(frozen=True, slots=True)
class NodeTexts:
    """Texts of a rank's nodes.

    Attributes:
        names: of the nodes, in file order.
        idle: names of attributes that no player reads → number of nodes with them.
    """

    names: list[str]
    idle: Counter[str]


def read_texts(path: Path) -> NodeTexts:
    """Read them from a file of any format.

    Raises:
        TraceError: the file cannot be read.
    """
    found = NodeTexts([], Counter())
    for node in read_nodes(path):
        found.names.append(node.name)
        found.idle.update(attribute.name for attribute in node.attr if attribute.name not in MEANT)
    return found
