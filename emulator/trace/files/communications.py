"""A communication node's attributes: every name and type in which traces carry them, as one record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from emulator._pb import et_pb2
from emulator.errors import TraceError
from emulator.trace.files.attributes import attribute_value
from emulator.trace.files.process_groups import UnreadableGroups, parse_rank_list
from emulator.trace.meaning.model import NodeType, RawCommunication

ROOT_NAMES = ("root_rank", "comm_root", "root")
GROUP_NAMES = ("pg_name", "comm_group")
"""The second one is STAGE's with STAGE_LEGACY_ATTR."""
DIMENSIONS = "involved_dim"
"""Dimensions of a simulated network over which a collective extends; one of all dimensions is one of the world."""
GROUP_RANK_NAMES = ("group_ranks", "pg_ranks", "involved_ranks")
IN_SPLIT_NAMES = ("charkha.in_splits", "in_split_sizes", "in_split_size", "in_splits")
OUT_SPLIT_NAMES = ("charkha.out_splits", "out_split_sizes", "out_split_size", "out_splits")
MEANT = frozenset(
    {
        *("is_cpu_op", "comm_type", "comm_size", "comm_src", "comm_dst", "comm_tag", DIMENSIONS),
        *(*GROUP_NAMES, *ROOT_NAMES, *GROUP_RANK_NAMES, *IN_SPLIT_NAMES, *OUT_SPLIT_NAMES),
    }
)
# What converters write on every node and no player needs.
IDLE = frozenset(
    {
        *("num_ops", "tensor_size", "op_type", "comm_priority", "stream", "rf_id", "seq_id", "tid", "fw_parent"),
        *("fw_tid", "scope", "op_schema", "kernel_backend", "kernel_file", "tensor_range", "inputs", "outputs"),
        "pg_desc",
    }
)
OWN_PREFIX = "charkha."


class CommunicationReader:
    """Reads the communication nodes of one file and counts what it does not understand.

    Attributes:
        unknown: names of attributes without a meaning here → on how many nodes.
    """

    def __init__(self, path: str) -> None:
        self.unknown: Counter[str] = Counter()
        self._path = path

    def read(self, node: et_pb2.Node, *, row: int) -> RawCommunication:
        """The node with its attributes by meaning; where a name occurs twice the first counts.

        Raises:
            TraceError: an attribute that matters has a type it cannot have.
        """
        values = self._values(node)
        named = next((values[name] for name in GROUP_NAMES if values.get(name) is not None), None)
        if named is None and _leaves_out(values.get(DIMENSIONS)):
            self.unknown[f"{DIMENSIONS} with a dimension left out"] += 1
        return RawCommunication(
            row=row,
            node_id=node.id,
            name=node.name,
            node_type=NodeType(node.type),
            comm_type=self._integer(values, ("comm_type",), node),
            comm_size=self._integer(values, ("comm_size",), node),
            pg_name=None if named is None else self._group_name(named, node),
            group_ranks=self._integers(values, GROUP_RANK_NAMES, node),
            src=self._integer(values, ("comm_src",), node),
            dst=self._integer(values, ("comm_dst",), node),
            tag=self._integer(values, ("comm_tag",), node),
            root=self._integer(values, ROOT_NAMES, node),
            in_splits=self._integers(values, IN_SPLIT_NAMES, node),
            out_splits=self._integers(values, OUT_SPLIT_NAMES, node),
            duration_micros=node.duration_micros,
        )

    def _values(self, node: et_pb2.Node) -> dict[str, object]:
        values: dict[str, object] = {}
        for attribute in node.attr:
            name = attribute.name
            if name in MEANT:
                values.setdefault(name, attribute_value(attribute))
            elif name not in IDLE and not name.startswith(OWN_PREFIX):
                self.unknown[name] += 1
        return values

    def _integer(self, values: dict[str, object], names: Iterable[str], node: et_pb2.Node) -> int | None:
        name, value = _first(values, names)
        if value is None or isinstance(value, int):
            return None if value is None else int(value)
        raise self._mistyped(node, name, value, "an integer")

    def _integers(self, values: dict[str, object], names: Iterable[str], node: et_pb2.Node) -> tuple[int, ...] | None:
        name, value = _first(values, names)
        if isinstance(value, str):
            try:
                value = parse_rank_list(value)
            except UnreadableGroups:
                self.unknown[f"{name} unreadable"] += 1
                return None
        if value is None or (isinstance(value, tuple) and all(isinstance(item, int) for item in value)):
            return value or None
        raise self._mistyped(node, name, value, "a list of integers")

    def _group_name(self, value: object, node: et_pb2.Node) -> str:
        if isinstance(value, (str, int)):
            return str(value)
        raise self._mistyped(node, " or ".join(GROUP_NAMES), value, "a string or an integer")

    def _mistyped(self, node: et_pb2.Node, name: str, value: object, wanted: str) -> TraceError:
        problem = f"attribute {name} is {str(value)[:40]!r}, not {wanted}"
        return TraceError(problem, path=self._path, node=node.id)


def _leaves_out(dimensions: object) -> bool:
    """Whether a collective extends over some dimensions only; the trace does not say which ranks those are."""
    return isinstance(dimensions, tuple) and not all(dimensions)


def _first(values: dict[str, object], names: Iterable[str]) -> tuple[str, object]:
    return next(((name, values[name]) for name in names if values.get(name) is not None), ("", None))
