"""The records of a host trace as columns, a file at a time: of most of them only ids and storages are kept.

Source: PyTorch, torch/csrc/profiler/standalone/execution_trace_observer.cpp; schemas 1.0.1 (flat) and 1.0.2 to 1.1.1
(inputs and attributes as objects).
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta

from emulator.annexes.importers.pytorch.call import (
    CALL,
    DISPATCHED,
    GROUP_NOTE,
    is_other_communication_operator,
)

GROUPS = "## process_group:init ##"
Integers = npt.NDArray[np.int64]
_TENSOR_FIELDS = 6  # id, storage, offset, elements, bytes of an element, device
_DEVICE = re.compile(r"[a-z]{2,20}(:\d{1,4})?")
_LARGEST_NUMBER = 1 << 62
_NONE = -1
_Id = Annotated[int, Meta(ge=0, le=_LARGEST_NUMBER)]


class _RecordValues(msgspec.Struct, gc=False):
    values: list[Any] = []


class _Attribute(msgspec.Struct, gc=False):
    name: str
    value: Any = None


class HostNode(msgspec.Struct, gc=False):
    """A record of the host, of any schema."""

    id: _Id
    name: str
    ctrl_deps: _Id | None = None
    parent: _Id | None = None
    inputs: _RecordValues | list[Any] = []
    outputs: _RecordValues | list[Any] = []
    attrs: list[_Attribute] = []
    rf_id: Any = None
    tid: Any = None
    ts: float | None = None

    @property
    def input_values(self) -> list[Any]:
        """Arguments."""
        return self.inputs if isinstance(self.inputs, list) else self.inputs.values

    @property
    def output_values(self) -> list[Any]:
        """Results."""
        return self.outputs if isinstance(self.outputs, list) else self.outputs.values

    def number(self, name: str) -> int:
        """A number that is a field in one schema and an attribute in others; -1: there is none."""
        value = getattr(self, name)
        if value is None:
            value = next((one.value for one in self.attrs if one.name == name), None)
        return value if type(value) is int and 0 <= value < _LARGEST_NUMBER else _NONE


class Tensor(NamedTuple):
    """A tensor among the arguments."""

    storage: int
    size_bytes: int


def tensors_of(value: Any) -> Iterator[Tensor]:
    """All tensors in an argument."""
    if not isinstance(value, list):
        return
    if _is_tensor(value):
        yield Tensor(value[1], value[3] * value[4])
        return
    for one in value:
        yield from tensors_of(one)


def _is_tensor(value: list[Any]) -> bool:
    return len(value) >= _TENSOR_FIELDS and all(type(one) is int for one in value[: _TENSOR_FIELDS - 1])


def has_unread_tensor(value: Any, *, all_are: bool = False) -> bool:
    """Whether something in an argument looks like a tensor, by its place in memory, and cannot be read.

    Args:
        all_are: tensors stand there, or none: anything else is one that cannot be read.
    """
    if not isinstance(value, list):
        return all_are and value not in (None, "", "<None>")
    if _is_tensor(value):
        return False
    if len(value) == _TENSOR_FIELDS and isinstance(value[-1], str) and _DEVICE.fullmatch(value[-1]):
        return True
    return any(has_unread_tensor(one, all_are=all_are) for one in value)


@dataclass(frozen=True, slots=True)
class HostRecords:
    """The records of a process by ascending ids; a row each.

    Attributes:
        ids, parents, record_ids, threads: int64; parent -1: none; number among the functions that the profiler
            recorded, which Kineto has as well, -1: none.
        is_leaf: no record was made within it.
        kept: id → records that may be calls or define process groups.
        notes: id → process group that a user's note names.
        others: id → name, of operators that look like communication of other libraries.
        is_linked: whether another tool has added times.
    """

    ids: Integers
    parents: Integers
    record_ids: Integers
    threads: Integers
    is_leaf: npt.NDArray[np.bool_]
    reads: Storages
    writes: Storages
    kept: Mapping[int, HostNode]
    notes: Mapping[int, str]
    others: Mapping[int, str]
    is_linked: bool

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Storages:
    """Storages of the tensors among the arguments, or the results, of every record.

    Attributes:
        order: int64, position of a row in the document.
        ends: int64, ends of its storages by that position, after a 0.
        values: int64.
    """

    order: Integers
    ends: Integers
    values: Integers

    def of(self, row: int) -> Sequence[int]:
        """Those of a record."""
        at = self.order[row]
        found: list[int] = self.values[self.ends[at] : self.ends[at + 1]].tolist()
        return found


class _StorageColumns:
    def __init__(self) -> None:
        self.ends, self.values = array("q", [0]), array("q")

    def add(self, arguments: list[Any]) -> None:
        self.values.extend({one.storage for one in tensors_of(arguments) if abs(one.storage) < _LARGEST_NUMBER})
        self.ends.append(len(self.values))

    def finish(self, order: Integers) -> Storages:
        return Storages(order, np.frombuffer(self.ends, dtype=np.int64), np.frombuffer(self.values, dtype=np.int64))


class RecordCollector:
    """Collects the records of a document as they come."""

    def __init__(self) -> None:
        self._columns = {name: array("q") for name in ("id", "parent", "rf_id", "tid")}
        self._reads, self._writes = _StorageColumns(), _StorageColumns()
        self._kept: dict[int, HostNode] = {}
        self._notes: dict[int, str] = {}
        self._others: dict[int, str] = {}
        self._is_linked = False

    def add(self, node: HostNode) -> None:
        """Take a record."""
        parent = node.parent if node.ctrl_deps is None else node.ctrl_deps
        numbers = node.id, _NONE if parent is None else parent, node.number("rf_id"), node.number("tid")
        for column, number in zip(self._columns.values(), numbers, strict=True):
            column.append(number)
        self._reads.add(node.input_values)
        self._writes.add(node.output_values)
        if node.name == CALL or node.name == GROUPS or node.name.startswith(DISPATCHED):
            self._kept[node.id] = node
        elif note := GROUP_NOTE.search(node.name):
            self._notes[node.id] = note["group"]
        elif is_other_communication_operator(node.name):
            self._others[node.id] = node.name
        self._is_linked = self._is_linked or node.ts is not None

    def finish(self) -> HostRecords:
        """What was collected.

        Raises:
            ValueError: two records have one id.
        """
        ids, parents, record_ids, threads = (np.frombuffer(one, dtype=np.int64) for one in self._columns.values())
        order = np.argsort(ids, kind="stable")
        ids = ids[order]
        twice = ids[1:][ids[1:] == ids[:-1]]
        if len(twice):
            raise ValueError(f"has two nodes of id {twice[0]}")
        return HostRecords(
            ids=ids,
            parents=parents[order],
            record_ids=record_ids[order],
            threads=threads[order],
            is_leaf=~np.isin(ids, parents),
            reads=self._reads.finish(order),
            writes=self._writes.finish(order),
            kept=self._kept,
            notes=self._notes,
            others=self._others,
            is_linked=self._is_linked,
        )
