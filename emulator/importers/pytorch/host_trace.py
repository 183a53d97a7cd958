"""PyTorch's host execution traces: schemas 1.0.1 (flat) and 1.0.2 to 1.1.1 (inputs and attributes as objects).

Source: PyTorch, torch/csrc/profiler/standalone/execution_trace_observer.cpp.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from emulator.importers.pytorch.call import Call
from emulator.importers.pytorch.names import (
    ARGUMENTS,
    CALL,
    DISPATCHED,
    GROUP_NOTE,
    LARGEST_WORLD,
    element_bytes,
    squeezed,
)
from emulator.wire.trace.process_groups import parse_process_groups

_GROUPS = "## process_group:init ##"
_TENSOR_FIELDS = 6  # id, storage, offset, elements, bytes of an element, device


class _Values(msgspec.Struct):
    values: list[Any] = []
    shapes: list[Any] = []
    types: list[Any] = []


class _Attribute(msgspec.Struct):
    name: str
    value: Any = None


class _GroupEntry(msgspec.Struct):
    pg_name: str
    pg_desc: str = ""
    ranks: list[int] = []
    group_size: Annotated[int, Meta(ge=0, le=LARGEST_WORLD)] = 0


class HostNode(msgspec.Struct):
    """A record of the host, of any schema."""

    id: int
    name: str
    ctrl_deps: int | None = None
    parent: int | None = None
    inputs: _Values | list[Any] = []
    outputs: _Values | list[Any] = []
    attrs: list[_Attribute] = []
    rf_id: int | None = None
    tid: int | None = None
    ts: float | None = None

    @property
    def parent_id(self) -> int | None:
        """The record that it was made within."""
        return self.parent if self.ctrl_deps is None else self.ctrl_deps

    @property
    def input_values(self) -> list[Any]:
        """Arguments."""
        return self.inputs if isinstance(self.inputs, list) else self.inputs.values

    @property
    def output_values(self) -> list[Any]:
        """Results."""
        return self.outputs if isinstance(self.outputs, list) else self.outputs.values

    def attributes(self) -> dict[str, Any]:
        """By name."""
        return {one.name: one.value for one in self.attrs}


class Tensor(NamedTuple):
    """A tensor among the arguments."""

    storage: int
    size_bytes: int


class HostCall(NamedTuple):
    """A call, and the thread and the record that it is from."""

    node_id: int
    thread: int
    call: Call


@dataclass(slots=True)
class HostTrace:
    """One process.

    Attributes:
        name: of the document.
        schema: version.
        pid: of the process, 0 if it is not recorded.
        is_linked: whether another tool has added times.
        nodes: ascending ids.
        groups: process group → world ranks, () for all.
        descriptions: description of a process group → its name.
        world_size: number of ranks of the job, 0 if it is not recorded.
    """

    name: str
    schema: str
    pid: int
    is_linked: bool
    nodes: Sequence[HostNode]
    groups: dict[str, tuple[int, ...]]
    descriptions: dict[str, str]
    world_size: int = 0

    def record_ids(self) -> dict[int, int]:
        """Record → its number among the functions that the profiler recorded, which Kineto has as well."""
        found = {}
        for node in self.nodes:
            number = node.rf_id if node.rf_id is not None else node.attributes().get("rf_id")
            if isinstance(number, int):
                found[node.id] = number
        return found

    def own_rank(self) -> int | None:
        """The rank that calls in the group of all ranks have recorded; None: they have not, or not one."""
        everyone = {name for name, ranks in self.groups.items() if not ranks}
        found = set()
        for node in self.nodes:
            if node.name == CALL:
                call = parameter_call(node, "")
                if call.group in everyone or (not everyone and call.group is None):
                    found.add(call.own_rank)
        found.discard(None)
        return found.pop() if len(found) == 1 else None

    def notes(self) -> dict[int, str]:
        """Record → process group that a note of the user around it names: `pg=NAME` in record_function."""
        found: dict[int, str] = {}
        for node in self.nodes:
            match = GROUP_NOTE.search(node.name)
            group = match["group"] if match else found.get(node.parent_id or 0)
            if group is not None:
                found[node.id] = group
        return found

    def calls(self) -> Iterator[HostCall]:
        """Calls of collectives in the order of their records; those within an operator of c10d belong to it.

        An operator of c10d is a call of its own wherever it is: while an asynchronous operation of Gloo is under way,
        its record passes for the parent of what comes next.
        """
        by_id = {node.id: node for node in self.nodes}
        thread_of = _threads(self.nodes)
        inner: dict[int, list[HostNode]] = {}
        outer: list[HostNode] = []
        owner: dict[int, int] = {}
        for node in self.nodes:
            parent = by_id.get(node.parent_id or 0)
            above = None if parent is None or parent.id >= node.id else owner.get(parent.id)
            is_operator = node.name.startswith(DISPATCHED) and _is_known(node.name)
            is_call = is_operator or node.name == CALL
            if above is not None and not is_operator:
                owner[node.id] = above
                if is_call:
                    inner.setdefault(above, []).append(node)
            elif is_call:
                owner[node.id] = node.id
                outer.append(node)
        for node in outer:
            call = self._call(node)
            for one in inner.get(node.id, ()):
                further = self._call(one)
                if further.kind is not None and further.kind is call.kind:
                    call = further.completed_by(call)
            yield HostCall(node.id, thread_of.get(node.id, 0), call)

    def _call(self, node: HostNode) -> Call:
        where = f"{self.name}, node {node.id}"
        return parameter_call(node, where) if node.name == CALL else _operator_call(node, where)


def decode_groups(nodes: Sequence[HostNode]) -> tuple[dict[str, tuple[int, ...]], dict[str, str], int]:
    """Process groups that the records define, their names by description, and the size of the one of all ranks, or 0.

    Raises:
        UnreadableGroups: a definition cannot be read.
    """
    groups: dict[str, tuple[int, ...]] = {}
    descriptions: dict[str, str] = {}
    world_size = 0
    for node in nodes:
        for text in node.input_values if node.name == _GROUPS else ():
            if isinstance(text, str):
                groups.update(parse_process_groups(text))
                entries = _entries(text)
                descriptions.update({one.pg_desc: one.pg_name for one in entries if one.pg_desc})
                world_size = max([world_size, *(one.group_size for one in entries if not one.ranks)])
    return groups, descriptions, world_size


def _entries(text: str) -> list[_GroupEntry]:
    try:
        return msgspec.json.decode(text, type=list[_GroupEntry])
    except msgspec.MsgspecError:
        return []


def tensors_of(value: Any) -> Iterator[Tensor]:
    """All tensors in an argument."""
    if not isinstance(value, list):
        return
    if len(value) >= _TENSOR_FIELDS and all(type(one) is int for one in value[: _TENSOR_FIELDS - 1]):
        yield Tensor(value[1], value[3] * value[4])
        return
    for one in value:
        yield from tensors_of(one)


def parameter_call(node: HostNode, where: str) -> Call:
    """A record_param_comms: tensors, sequence number, group, a rank, name, splits to send and to receive."""
    values, attributes = node.input_values, node.attributes()
    at = next((index for index, one in enumerate(values) if index >= 2 and isinstance(one, str)), None)
    name = attributes.get("collective_name") or (values[at] if at is not None else "")
    call = Call(name=str(name), where=where)
    if at is not None:
        tensors = [one for value in values[: max(0, at - 3)] for one in tensors_of(value)]
        if tensors:
            call.sent_bytes = sum(one.size_bytes for one in tensors)
            call.reads = frozenset(one.storage for one in tensors)
        results = list(tensors_of(node.output_values))
        if results:
            call.received_bytes = sum(one.size_bytes for one in results)
            call.writes = frozenset(one.storage for one in results)
        group, number = values[at - 2], values[at - 1]
        if isinstance(group, list) and group and isinstance(group[0], str):
            call.group = group[0]
            call.ranks = _regular_ranks(values[at + 3 : at + 6])
        elif isinstance(group, int):
            call.handle = group
        _set_rank(call, number)
        following = values[at + 1 : at + 3]
        if len(following) == len(("send", "recv")) and all(map(_is_splits, following)):
            call.send_splits, call.recv_splits = tuple(following[0]), tuple(following[1])
    _use_attributes(call, attributes)
    return call


def _regular_ranks(values: list[Any]) -> tuple[int, ...] | None:
    """Ranks from the first one, their distance and their number; None if that is not recorded."""
    if len(values) != len(("start", "stride", "size")) or not all(type(one) is int for one in values):
        return None
    start, stride, size = values
    if start < 0 or not 1 <= size <= LARGEST_WORLD or (stride < 1 and size > 1):
        return None
    return tuple(start + number * stride for number in range(size))


def _use_attributes(call: Call, attributes: dict[str, Any]) -> None:
    """What newer schemas say by name, which is more certain than a position."""
    if isinstance(name := attributes.get("pg_name"), str) and name:
        call.group = name
    if isinstance(size := attributes.get("pg_size"), int) and size > 0:
        call.group_size = size
    width = element_bytes(str(attributes.get("dtype", "")))
    if width is not None:
        for source, target in (("in_msg_nelems", "sent_bytes"), ("out_msg_nelems", "received_bytes")):
            if isinstance(count := attributes.get(source), int):
                setattr(call, target, count * width)


def _set_rank(call: Call, number: Any) -> None:
    if type(number) is int:
        if call.kind is not None and call.kind.name in ("SEND", "RECV"):
            call.peer = number
        elif call.kind is not None and call.kind.name in ("BROADCAST", "REDUCE", "GATHER", "SCATTER"):
            call.root = number
        else:
            call.own_rank = number


def _operator_call(node: HostNode, where: str) -> Call:
    values = node.input_values
    arguments = ARGUMENTS[squeezed(node.name.removeprefix(DISPATCHED))]
    call = Call(name=node.name, where=where)

    def value(at: int) -> Any:
        return values[at] if 0 <= at < len(values) else None

    for at, target, storages in (
        (arguments.inputs, "sent_bytes", "reads"),
        (arguments.outputs, "received_bytes", "writes"),
    ):
        if at >= 0:
            tensors = list(tensors_of(value(at)))
            setattr(call, target, sum(one.size_bytes for one in tensors))
            setattr(call, storages, frozenset(one.storage for one in tensors))
    for at, target in ((arguments.root, "root"), (arguments.peer, "peer"), (arguments.tag, "tag")):
        if type(number := value(at)) is int:
            setattr(call, target, number)
    if arguments.send_splits >= 0:
        send, recv = value(arguments.send_splits), value(arguments.recv_splits)
        if _is_splits(send) and _is_splits(recv):
            call.send_splits, call.recv_splits = tuple(send), tuple(recv)
    return call


def _is_splits(value: Any) -> bool:
    return isinstance(value, list) and all(type(one) is int for one in value)


def _is_known(name: str) -> bool:
    return squeezed(name.removeprefix(DISPATCHED)) in ARGUMENTS


def _threads(nodes: Sequence[HostNode]) -> dict[int, int]:
    """Record → thread."""
    found = {}
    for node in nodes:
        tid = node.tid if node.tid is not None else node.attributes().get("tid")
        found[node.id] = tid if isinstance(tid, int) else 0
    return found
