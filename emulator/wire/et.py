"""A rank's trace file as columns of numbers: read once, in batches, with the cost of a node that of a tight loop."""

from __future__ import annotations

from array import array
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from emulator.errors import TraceError
from emulator.trace.model import IdArray, IntArray, NodeType, RankTrace, RawCommunication
from emulator.wire._pb import et_pb2
from emulator.wire.attributes import attribute_value
from emulator.wire.communications import CommunicationReader
from emulator.wire.frames import FrameBatch
from emulator.wire.process_groups import INIT_NAME, UnreadableGroups, merge_groups, parse_process_groups
from emulator.wire.records import check_attributes, open_batches, parse_metadata, parse_nodes

MAX_MICROS = 1 << 53  # 285 years; beyond it is no time

_Scalar = TypeVar("_Scalar", bound=np.generic)
_numbers = attrgetter("id", "type", "start_time_micros", "duration_micros")


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
        self._is_cpu = bytearray()
        self._is_pytorch_op = bytearray()
        self._dep_id = array("Q")
        self._dep_end = array("q", [0])
        self._ctrl_count = array("q")
        self._communications: list[RawCommunication] = []
        self._groups: dict[str, tuple[int, ...]] = {}
        self._communication_reader = CommunicationReader(str(path))

    def add(self, batch: FrameBatch) -> None:
        """Append the nodes of a batch."""
        if not batch:
            return
        nodes = parse_nodes(batch, self._path)
        types = self._add_numbers(nodes)
        self._add_dependencies(nodes)
        self._add_flags(nodes, batch.payloads)
        for index in np.flatnonzero(types >= NodeType.COMM_SEND).tolist():
            self._add_communication(nodes[index], self._rows + index)
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
            is_cpu=np.frombuffer(self._is_cpu, dtype=np.bool_),
            is_pytorch_op=np.frombuffer(self._is_pytorch_op, dtype=np.bool_),
            start_micros=_joined(self._starts, np.int64),
            duration_micros=_joined(self._durations, np.int64),
            dep_offset=np.frombuffer(self._dep_end, dtype=np.int64),
            ctrl_count=np.frombuffer(self._ctrl_count, dtype=np.int64),
            dep_id=np.frombuffer(self._dep_id, dtype=np.uint64),
            communications=self._communications,
            groups=self._groups,
            attribute_names=dict(self._communication_reader.unknown),
        )

    def _add_numbers(self, nodes: list[et_pb2.Node]) -> npt.NDArray[np.int64]:
        ids, types, starts, durations = zip(*map(_numbers, nodes), strict=True)
        node_types = np.array(types, dtype=np.int64)
        self._check_values(nodes, node_types, (node_types < 0) | (node_types > NodeType.COMM_COLL), "unknown type")
        self._ids.append(np.array(ids, dtype=np.uint64))
        self._types.append(node_types.astype(np.int8))
        for column, values, name in ((self._starts, starts, "start time"), (self._durations, durations, "duration")):
            micros = np.array(values, dtype=np.uint64)
            self._check_values(nodes, micros, micros > MAX_MICROS, f"absurd {name} (in µs)")
            column.append(micros.astype(np.int64))
        return node_types

    def _check_values(
        self, nodes: list[et_pb2.Node], values: npt.NDArray[np.generic], is_bad: npt.NDArray[np.bool_], name: str
    ) -> None:
        for index in np.flatnonzero(is_bad)[:1].tolist():
            raise TraceError(f"{name} {values[index]}", path=self._path, node=nodes[index].id)

    def _add_dependencies(self, nodes: list[et_pb2.Node]) -> None:
        dependencies: list[int] = []
        ends: list[int] = []
        counts: list[int] = []
        before = len(self._dep_id)
        for node in nodes:
            ctrl = node.ctrl_deps[:]
            dependencies += ctrl
            dependencies += node.data_deps[:]
            counts.append(len(ctrl))
            ends.append(before + len(dependencies))
        self._dep_id.extend(dependencies)
        self._dep_end.extend(ends)
        self._ctrl_count.extend(counts)

    def _add_flags(self, nodes: list[et_pb2.Node], payloads: list[bytes]) -> None:
        is_cpu = bytearray(len(nodes))
        is_pytorch_op = bytearray(len(nodes))
        for index, payload in enumerate(payloads):
            # A search for the name is far cheaper than a walk over attributes that do not have it.
            has_cpu, has_rf = b"is_cpu_op" in payload, b"rf_id" in payload
            if has_cpu or has_rf:
                is_cpu[index], is_pytorch_op[index] = self._flags(nodes[index], has_cpu, has_rf)
        self._is_cpu += is_cpu
        self._is_pytorch_op += is_pytorch_op

    def _flags(self, node: et_pb2.Node, seek_cpu: bool, seek_rf: bool) -> tuple[bool, bool]:
        is_cpu = is_pytorch_op = False
        for attribute in node.attr:
            name = attribute.name
            if name == "rf_id":
                is_pytorch_op, seek_rf = True, False
            elif name == "is_cpu_op":
                seek_cpu = False
                is_cpu = attribute.bool_val or self._is_true(attribute, node)
            if not seek_cpu and not seek_rf:
                break
        return is_cpu, is_pytorch_op

    def _is_true(self, attribute: et_pb2.Attribute, node: et_pb2.Node) -> bool:
        value = attribute_value(attribute)
        if value is None or isinstance(value, int):
            return bool(value)
        problem = f"attribute is_cpu_op is {str(value)[:40]!r}, a boolean or an integer is needed"
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
