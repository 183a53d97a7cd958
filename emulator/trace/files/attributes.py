"""Chakra's attributes: any of 30 value types in, plain Python values out, and the three types we write.

Those of a communication node become one record, under every name and type in which traces carry them.

PyTorch writes process groups into a trace as JSON text, quoted by whoever passed it on.
"""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from emulator._pb import et_pb2
from emulator.errors import TraceError
from emulator.trace.meaning.model import NodeType, RawCommunication

INIT_NAME = "process_group:init"
MAX_TEXT_BYTES = 16 << 20


class UnreadableGroups(ValueError):
    """Text that describes no process groups in any quoting known."""


def parse_process_groups(text: str, *, most_characters: int = MAX_TEXT_BYTES) -> dict[str, tuple[int, ...]]:
    """Name → world ranks, () = all, from a node's `inputs.values`.

    The text is a JSON list of objects with `pg_name` and `ranks`, or a list that holds that text as a string, in
    JSON's or Python's quoting.

    Raises:
        UnreadableGroups: it is neither.
    """
    entries = _literal(text, most_characters)
    while isinstance(entries, list) and len(entries) == 1 and isinstance(entries[0], str):
        entries = _literal(entries[0], most_characters)
    if not isinstance(entries, list):
        raise UnreadableGroups(text[:80])
    return dict(_group(entry) for entry in entries)


def parse_rank_list(text: str) -> tuple[int, ...]:
    """Ranks from a text like `[0, 1]`.

    Raises:
        UnreadableGroups: it is not a list of integers; Kineto, for one, shortens long ones with an ellipsis.
    """
    return _ranks(_literal(text, MAX_TEXT_BYTES))


def merge_groups(
    known: dict[str, tuple[int, ...]], new: Mapping[str, tuple[int, ...]], *, path: str, node: int
) -> None:
    """Add groups that a second description defines to those known.

    Raises:
        TraceError: both define a group, and differently.
    """
    for name, ranks in new.items():
        if known.setdefault(name, ranks) != ranks:
            raise TraceError(f"defines process group {name!r} a second time with other ranks", path=path, node=node)


def _group(entry: object) -> tuple[str, tuple[int, ...]]:
    if not isinstance(entry, dict) or not isinstance(entry.get("pg_name"), (str, int)):
        raise UnreadableGroups(str(entry)[:80])
    if "ranks" not in entry and entry.keys() - _GROUP_KEYS:  # one of them may be what holds the ranks
        raise UnreadableGroups(str(entry)[:80])
    return str(entry["pg_name"]), _ranks(entry.get("ranks", []))


_GROUP_KEYS = {"pg_name", "pg_desc", "pg_id", "backend", "backend_id", "backend_config", "group_size", "group_count"}
"""What a description of a process group has beside its ranks."""


def _ranks(value: object) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(rank) is int for rank in value):
        raise UnreadableGroups(str(value)[:80])
    return tuple(value)


def _literal(text: str, most: int) -> object:
    if len(text) > most:
        raise UnreadableGroups(f"{len(text)} characters")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise UnreadableGroups(text[:80]) from error


AttrValue: TypeAlias = int | float | str | Sequence[int]
"""What Charkha writes: an int as uint64 (int64 when negative), a float as double, a list as uint64s, text as string."""


def make_attribute(name: str, value: AttrValue) -> et_pb2.Attribute:
    """An attribute in the types that Charkha writes.

    Raises:
        ValueError: a number outside 64 bits, or a negative one in a list.
    """
    if isinstance(value, str):
        return et_pb2.Attribute(name=name, string_val=value)
    if isinstance(value, float):
        return et_pb2.Attribute(name=name, double_val=value)
    if not isinstance(value, int):
        return et_pb2.Attribute(name=name, uint64_list=et_pb2.Uint64List(values=value))
    if value < 0:
        return et_pb2.Attribute(name=name, int64_val=value)
    return et_pb2.Attribute(name=name, uint64_val=value)


def attribute_value(attribute: et_pb2.Attribute) -> object:
    """The value whatever its type: lists as tuples, None if there is none."""
    kind = attribute.WhichOneof("value")
    if kind is None:
        return None
    value = getattr(attribute, kind)
    return tuple(value.values) if kind.endswith("_list") else value


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
                value = attribute_value(attribute)
                if values.setdefault(name, value) != value:
                    self.unknown[f"{name} a second time"] += 1
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
