"""What the records of a host trace say of process groups and of calls of collectives.

Source: PyTorch, torch/csrc/profiler/standalone/execution_trace_observer.cpp;
torch/csrc/distributed/c10d/ParamCommsUtils.hpp.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta

from emulator.annexes.importers.pytorch.call import (
    ARGUMENTS,
    CALL,
    DISPATCHED,
    LARGEST_WORLD,
    Call,
    squeezed,
)
from emulator.annexes.importers.pytorch.host_records import (
    GROUPS,
    HostNode,
    HostRecords,
    Integers,
    has_unread_tensor,
    tensors_of,
)
from emulator.trace.files.attributes import parse_process_groups
from emulator.trace.meaning.meaning import ROOTED

_BLOCK = 1 << 16


class _GroupEntry(msgspec.Struct):
    pg_name: str
    pg_desc: str = ""
    ranks: list[int] = []
    group_size: Annotated[int, Meta(ge=0, le=LARGEST_WORLD)] = 0


class HostCall(NamedTuple):
    """A call, and the record that it is from; its number among the functions that the profiler recorded, and thread."""

    node_id: int
    record_id: int
    thread: int
    call: Call


class Use(NamedTuple):
    """A record that is a call, or that reads what calls before it wrote: the storages, none for the call itself."""

    record_id: int
    storages: frozenset[int]


@dataclass(frozen=True, slots=True)
class HostTrace:
    """One process.

    Attributes:
        groups: process group → world ranks, () for all.
        descriptions: description of a process group → its name.
        world_size: number of ranks of the job, 0 if it is not recorded.
        mended: bytes of the document that were no JSON, and read all the same.
    """

    name: str
    records: HostRecords
    groups: dict[str, tuple[int, ...]]
    descriptions: dict[str, str]
    world_size: int = 0
    mended: Sequence[int] = ()

    @classmethod
    def of(cls, name: str, records: HostRecords, *, mended: Sequence[int] = ()) -> HostTrace:
        """The trace of a document.

        Raises:
            UnreadableGroups: a process group is defined in a way that cannot be read.
        """
        kept = [records.kept[node_id] for node_id in sorted(records.kept)]
        return cls(name, records, *_decode_groups(kept), mended)

    def own_rank(self) -> int | None:
        """The rank that calls in the group of all ranks have recorded; None: they have not, or not one."""
        everyone = {name for name, ranks in self.groups.items() if not ranks}
        found = set()
        for node in self.records.kept.values():
            if node.name == CALL:
                call = parameter_call(node, "")
                if call.group in everyone or (not everyone and call.group is None):
                    found.add(call.own_rank)
        found.discard(None)
        return found.pop() if len(found) == 1 else None

    def notes(self) -> dict[int, str]:
        """Record → process group that a note of the user around it names: `pg=NAME` in record_function."""
        found: dict[int, str] = {}
        if not self.records.notes:
            return found
        for node_id, parent in zip(_numbers(self.records.ids), _numbers(self.records.parents), strict=True):
            group = self.records.notes.get(node_id) or found.get(parent)
            if group is not None:
                found[node_id] = group
        return found

    def calls(self) -> list[HostCall]:
        """Calls of collectives in the order of their records; those within an operator of c10d belong to it.

        An operator of c10d is a call of its own wherever it is: while an asynchronous operation of Gloo is under way,
        its record passes for the parent of what comes next.
        """
        inner: dict[int, list[HostNode]] = {}
        outer: list[tuple[HostNode, int, int]] = []
        owner: dict[int, int] = {}
        kept = self.records.kept
        records = self.records
        columns = records.ids, records.parents, records.record_ids, records.threads
        for node_id, parent, record_id, thread in zip(*map(_numbers, columns), strict=True):
            above = owner.get(parent) if parent < node_id else None
            if above is None and node_id not in kept:
                continue
            node = kept.get(node_id)
            is_operator = node is not None and node.name.startswith(DISPATCHED) and _is_known(node.name)
            is_call = node is not None and (is_operator or node.name == CALL)
            if above is not None and not is_operator:
                owner[node_id] = above
                if node is not None and is_call:
                    inner.setdefault(above, []).append(node)
            elif node is not None and is_call:
                owner[node_id] = node_id
                outer.append((node, record_id, thread))
        return [
            HostCall(node.id, record_id, thread, self._completed(node, inner.get(node.id, ())))
            for node, record_id, thread in outer
        ]

    def others(self, calls: Sequence[HostCall]) -> list[str]:
        """Operators that look like communication of other libraries, the outermost ones: those that make no call."""
        others = self.records.others
        if not others:
            return []
        parent_of = dict(zip(_numbers(self.records.ids), _numbers(self.records.parents), strict=True))
        around = {above for one in calls for above in _above(one.node_id, parent_of)}
        within = {one.node_id for one in calls} | others.keys()
        left = (one for one in sorted(others.keys() - around) if within.isdisjoint(_above(one, parent_of)))
        return [f"{self.name}, node {one} ({others[one][:40]})" for one in left]

    def uses(self, calls: Sequence[HostCall]) -> list[Use]:
        """Who reads the results of calls, in the order of the records: the calls, and leaves that read after them."""
        records = self.records
        call_of = {one.node_id: one for one in calls}
        written: set[int] = set()
        found: list[Use] = []
        if not calls:
            return found
        first = int(np.searchsorted(records.ids, calls[0].node_id))
        for row, node_id in enumerate(records.ids[first:].tolist(), first):
            call = call_of.get(node_id)
            if call is not None:
                written |= call.call.writes or frozenset()
                found.append(Use(call.record_id, frozenset()))
            elif records.is_leaf[row] and records.record_ids[row] >= 0:
                storages = written.intersection(records.reads.of(row))
                if storages:
                    found.append(Use(int(records.record_ids[row]), frozenset(storages)))
        return found

    def _completed(self, node: HostNode, inner: Sequence[HostNode]) -> Call:
        call = self._call(node)
        for one in inner:
            further = self._call(one)
            if further.kind is not None and further.kind is call.kind:
                call = further.completed_by(call)
        return call

    def _call(self, node: HostNode) -> Call:
        where = f"{self.name}, node {node.id}"
        return parameter_call(node, where) if node.name == CALL else _operator_call(node, where)


def _above(node_id: int, parent_of: Mapping[int, int]) -> Iterator[int]:
    """The records around one, the innermost first."""
    seen = {node_id}
    above = parent_of.get(node_id)
    while above is not None and above not in seen:
        yield above
        seen.add(above)
        above = parent_of.get(above)


def _numbers(column: Integers) -> Iterator[int]:
    """The values as Python's numbers, without a list of them all."""
    for first in range(0, len(column), _BLOCK):
        yield from column[first : first + _BLOCK].tolist()


def _decode_groups(nodes: Sequence[HostNode]) -> tuple[dict[str, tuple[int, ...]], dict[str, str], int]:
    """Process groups that the records define, their names by description, and the size of the one of all ranks, or 0.

    Raises:
        UnreadableGroups: a definition cannot be read.
    """
    groups: dict[str, tuple[int, ...]] = {}
    descriptions: dict[str, str] = {}
    world_size = 0
    for node in nodes:
        for text in node.input_values if node.name == GROUPS else ():
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


def parameter_call(node: HostNode, where: str) -> Call:
    """A record_param_comms: tensors, sequence number, group, a rank, name, splits to send and to receive."""
    values, attributes = node.input_values, {one.name: one.value for one in node.attrs}
    at = next((index for index, one in enumerate(values) if index >= 2 and isinstance(one, str)), None)
    said, said_before = attributes.get("collective_name"), values[at] if at is not None else ""
    call = Call(name=said if said and isinstance(said, str) else said_before, where=where)
    if not isinstance(said, str | None):
        call.unread |= {"collective_name"}
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
        tensors_alone = [*values[: max(0, at - 3)], *node.output_values]
        if has_unread_tensor(values[: at - 2]) or has_unread_tensor(tensors_alone, all_are=True):
            call.unread |= {"tensors"}
        following = [*values[at + 1 : at + 3], None, None]
        call.send_splits, call.recv_splits = _splits(following[0]), _splits(following[1])
    _use_attributes(call, attributes)
    if len(attributes) < len(node.attrs):
        counts = Counter(one.name for one in node.attrs)
        call.unread |= {f"attribute {name[:40]}" for name, count in counts.items() if count > 1}
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
    if isinstance(name := attributes.get("pg_name"), str | None):
        call.group = name or call.group
    else:
        call.unread |= {"pg_name"}
    call.group_size = call.number(attributes, "pg_size")
    call.set_sizes(attributes, sent="in_msg_nelems", received="out_msg_nelems")
    call.unread |= {f"attribute {name[:40]}" for name in attributes.keys() - _KNOWN_ATTRIBUTES}


_KNOWN_ATTRIBUTES = frozenset(
    {
        *("collective_name", "dtype", "in_msg_nelems", "out_msg_nelems", "pg_name", "pg_desc", "pg_size"),
        *("in_split_size", "out_split_size", "global_rank_start", "global_rank_stride", "is_asynchronized_op"),
        *("rf_id", "fw_parent", "seq_id", "scope", "tid", "fw_tid", "op_schema", "kernel_backend", "kernel_file"),
        *("tensor_range", "debug"),
    }
)
"""Of a call, as PyTorch names them; splits and ranks stand among its inputs as well."""


def _set_rank(call: Call, number: Any) -> None:
    if type(number) is int:
        if call.kind is not None and not call.kind.is_collective:
            call.peer = number
        elif call.kind in ROOTED:
            call.root = number
        else:
            call.own_rank = number
    elif number is not None:
        call.unread |= {"rank"}


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
            if has_unread_tensor(value(at), all_are=True):
                call.unread |= {"tensors"}
            setattr(call, target, sum(one.size_bytes for one in tensors))
            setattr(call, storages, frozenset(one.storage for one in tensors))
    for at, target in ((arguments.root, "root"), (arguments.peer, "peer"), (arguments.tag, "tag")):
        if type(number := value(at)) is int:
            setattr(call, target, number)
    if has_unread_tensor([values, node.output_values]):
        call.unread |= {"tensors"}
    if arguments.send_splits >= 0:
        call.send_splits, call.recv_splits = (
            _splits(value(arguments.send_splits)),
            _splits(value(arguments.recv_splits)),
        )
    return call


def _splits(value: Any) -> tuple[int, ...] | None:
    return tuple(value) if isinstance(value, list) and all(type(one) is int for one in value) else None


def _is_known(name: str) -> bool:
    return squeezed(name.removeprefix(DISPATCHED)) in ARGUMENTS
