"""What the events of a Kineto trace say of calls of collectives.

Source: Kineto, libkineto/src/output_json.cpp; PyTorch, torch/csrc/autograd/profiler_kineto.cpp.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from emulator.annexes.importers.pytorch.call import (
    ARGUMENTS,
    CALL,
    DISPATCHED,
    GROUP_NOTE,
    LARGEST_WORLD,
    LIBRARY,
    Call,
    collective_kind,
    element_bytes,
    squeezed,
)
from emulator.annexes.importers.pytorch.kineto_events import KinetoEvent, KinetoEvents
from emulator.trace.files.attributes import UnreadableGroups, parse_rank_list
from emulator.trace.meaning.meaning import ROOTED
from emulator.trace.meaning.model import CommKind

_INTEGER = re.compile(r"-?\d{1,18}")


class DistributedInfo(msgspec.Struct):
    """Rank, world and process groups of the process."""

    rank: Annotated[int, Meta(ge=0, lt=LARGEST_WORLD)] | None = None
    world_size: Annotated[int, Meta(ge=0, le=LARGEST_WORLD)] | None = None
    pg_config: Any = None


class KinetoCall(NamedTuple):
    """A call, the outermost event that it is from, and that event's id in the host trace."""

    event: KinetoEvent
    record_id: int | None
    call: Call


@dataclass(frozen=True, slots=True)
class KinetoTrace:
    """One process.

    Attributes:
        world_size: 0 if it is not recorded.
        groups: process group → world ranks.
        descriptions: description of a process group → its name.
        mended: bytes of the document that were no JSON, and read all the same.
    """

    name: str
    world_size: int
    groups: dict[str, tuple[int, ...]]
    descriptions: dict[str, str]
    events: KinetoEvents
    mended: Sequence[int] = ()

    @classmethod
    def of(
        cls, name: str, events: KinetoEvents, info: DistributedInfo | None, *, mended: Sequence[int] = ()
    ) -> KinetoTrace:
        """The trace of a document.

        Raises:
            UnreadableGroups: a process group has ranks that cannot be read.
        """
        return cls(
            name=name,
            world_size=0 if info is None else info.world_size or 0,
            groups={} if info is None else dict(_groups(info.pg_config)),
            descriptions={} if info is None else dict(_descriptions(info.pg_config)),
            events=events,
            mended=mended,
        )

    def where(self, event: KinetoEvent) -> str:
        """The event, for messages."""
        return f"{self.name}, {event.name[:40]} at {event.ts:.3f} us"

    def calls(self) -> list[KinetoCall]:
        """Calls of collectives by start; those within another call on the same thread belong to it."""
        found: list[KinetoCall] = []
        open_on: dict[object, int] = {}
        for event in sorted((*self.events.calls, *self.events.notes), key=lambda one: (one.ts, -one.dur)):
            call = _call(event, self.where(event))
            if call is None:
                continue
            at = open_on.get(event.tid)
            if at is not None and event.ts < found[at].event.end:
                above = found[at]
                if call.kind is not None and above.call.kind in (None, call.kind):
                    found[at] = KinetoCall(above.event, above.record_id, call.completed_by(above.call))
            elif event.is_operator:
                open_on[event.tid] = len(found)
                found.append(KinetoCall(event, _record_id(event), call))
        return found

    def executions(self) -> list[KinetoEvent]:
        """Annotations of the library on CPU threads: the time that an operation of Gloo or MPI takes."""
        return [one for one in self.events.notes if LIBRARY.match(one.name)]

    def annotation_call(self, execution: KinetoEvent) -> Call:
        """What a library's record of an execution says of the call."""
        match = LIBRARY.match(execution.name)
        assert match is not None
        return _annotation(execution, match, self.name)

    def group_notes(self) -> list[tuple[KinetoEvent, str]]:
        """Annotations of the user that name a process group: `pg=NAME` within record_function."""
        found = [(one, GROUP_NOTE.search(one.name)) for one in self.events.notes]
        return [(one, match["group"]) for one, match in found if match]

    def kernel_call(self, event: KinetoEvent) -> Call | None:
        """What a kernel of the library says of its call, in newer versions; None: nothing."""
        return _parameters(event, self.where(event)) if "Collective name" in event.args else None


def execution_kind(event: KinetoEvent) -> str:
    """Name of the call that a library's annotation is about."""
    match = LIBRARY.match(event.name)
    return match["call"] if match else ""


def _groups(config: Any) -> Iterator[tuple[str, tuple[int, ...]]]:
    for entry in config if isinstance(config, list) else ():
        ranks = entry.get("ranks") if isinstance(entry, dict) else None
        if isinstance(ranks, str):
            ranks = list(parse_rank_list(ranks))
        if not isinstance(ranks, list) or not all(type(one) is int for one in ranks):
            raise UnreadableGroups(str(entry)[:80])
        yield str(entry.get("pg_name", "")), tuple(ranks)


def _descriptions(config: Any) -> Iterator[tuple[str, str]]:
    for entry in config if isinstance(config, list) else ():
        if isinstance(entry, dict) and entry.get("pg_desc"):
            yield str(entry["pg_desc"]), str(entry.get("pg_name", ""))


def _record_id(event: KinetoEvent) -> int | None:
    found = event.args.get("Record function id")
    return found if isinstance(found, int) else None


def _call(event: KinetoEvent, where: str) -> Call | None:
    if event.name == CALL:
        return _parameters(event, where)
    if event.name.startswith(DISPATCHED) and squeezed(event.name.removeprefix(DISPATCHED)) in ARGUMENTS:
        return _operator(event, where)
    match = LIBRARY.match(event.name)
    return _annotation(event, match, where) if match else None


def _parameters(event: KinetoEvent, where: str) -> Call:
    """record_param_comms: named arguments, in older versions only the shapes of its arguments."""
    said = event.args
    call = Call(name=str(said.get("Collective name", "")), where=where)
    if call.kind is not None:
        call.set_sizes(said, sent="In msg nelems", received="Out msg nelems")
    call.group = str(said["Process Group Name"]) if said.get("Process Group Name") not in (None, "") else None
    call.group_size = call.number(said, "Group size")
    listed = said.get("Process Group Ranks")
    call.ranks = _rank_list(listed)
    if call.ranks is None and listed not in (None, ""):  # without a list both are defaults that say nothing
        start, stride = call.number(said, "Global rank start"), call.number(said, "Global rank stride")
        call.ranks = _strided(start, stride, call.group_size or 0)
    if call.ranks is None and listed not in (None, ""):
        call.unread_ranks = str(listed)
    splits = said.get("In split size"), said.get("Out split size")
    call.send_splits, call.recv_splits = (() if one == [] else _rank_list(one) for one in splits)
    for name, one in zip(("In split size", "Out split size"), splits, strict=True):
        if one not in (None, "", []) and _rank_list(one) is None:
            is_shortened = isinstance(one, str) and "..." in one
            call.is_short_of_splits = True
            call.unread |= frozenset() if is_shortened else {name}
    if call.kind is not None:
        if not call.kind.is_collective:
            call.peer_in_world = call.number(said, "Dst Rank" if call.kind is CommKind.SEND else "Src Rank")
        if call.kind in ROOTED:
            root = call.number(said, "Rank")  # ProcessGroupNCCL passes the root there, and this rank for others
            call.root = _concrete(said, 3) if root is None else root
    if not call.name:
        call.sent_bytes = _shape_bytes(said, 0)
    return call


def _operator(event: KinetoEvent, where: str) -> Call:
    said, arguments = event.args, ARGUMENTS[squeezed(event.name.removeprefix(DISPATCHED))]
    call = Call(name=event.name, where=where)
    if arguments.inputs >= 0:
        call.sent_bytes = _shape_bytes(said, arguments.inputs)
        call.sent_elements = _elements(said, arguments.inputs)
    if arguments.outputs >= 0:
        call.received_bytes = _shape_bytes(said, arguments.outputs)
    call.root, call.peer = _concrete(said, arguments.root), _concrete(said, arguments.peer)
    call.tag = _concrete(said, arguments.tag)
    call.send_splits = _rank_list(_argument(said, arguments.send_splits))
    call.recv_splits = _rank_list(_argument(said, arguments.recv_splits))
    return call


def _annotation(event: KinetoEvent, match: re.Match[str], where: str) -> Call:
    shapes = event.args.get("Input Dims")
    elements = [_number_of_elements(one) for one in shapes] if isinstance(shapes, list) else [None]
    call = Call(name=match["call"], where=where, sent_bytes=_all_shape_bytes(event.args))
    call.sent_elements = tuple(one for one in elements if one is not None) if None not in elements else None
    if match["to"] is not None and collective_kind(match["call"]) is not None:
        call.peer = int(match["to"])
    return call


def _all_shape_bytes(said: dict[str, Any]) -> int | None:
    """Bytes of all arguments; None if those of one are not recorded."""
    shapes = said.get("Input Dims")
    sizes = [_shape_bytes(said, at) for at in range(len(shapes))] if isinstance(shapes, list) else []
    known = [one for one in sizes if one is not None]
    return sum(known) if known and len(known) == len(sizes) else None


def _shape_bytes(said: dict[str, Any], at: int) -> int | None:
    """Bytes of the tensors of an argument by its recorded shape and type; None if they are not recorded."""
    shapes, types = said.get("Input Dims"), said.get("Input type")
    if not isinstance(shapes, list) or not isinstance(types, list) or not at < min(len(shapes), len(types)):
        return None
    shape, kind = shapes[at], types[at]
    if kind == "TensorList":  # its element type is not recorded; the annotation of the library has it
        return None
    width, elements = element_bytes(str(kind)), _number_of_elements(shape)
    return None if width is None or elements is None else elements * width


def _number_of_elements(shape: Any) -> int | None:
    if not isinstance(shape, list) or not all(type(one) is int for one in shape):
        return None
    return math.prod(shape)


def _elements(said: dict[str, Any], at: int) -> tuple[int, ...] | None:
    """Elements of each tensor of an argument that is a list of tensors; None if they are not recorded."""
    shapes = said.get("Input Dims")
    listed = shapes[at] if isinstance(shapes, list) and at < len(shapes) else None
    found = [_number_of_elements(one) for one in listed] if isinstance(listed, list) else []
    return tuple(one for one in found if one is not None) if found and None not in found else None


def _concrete(said: dict[str, Any], at: int) -> int | None:
    """An argument that is a number."""
    text = str(_argument(said, at))
    return int(text) if _INTEGER.fullmatch(text) else None


def _argument(said: dict[str, Any], at: int) -> Any:
    """What is recorded of the value of an argument; None: nothing."""
    values = said.get("Concrete Inputs")
    return values[at] if isinstance(values, list) and 0 <= at < len(values) else None


def _strided(start: int | None, stride: int | None, size: int) -> tuple[int, ...] | None:
    """Ranks that follow each other at one distance, which Kineto says beside a list that it may shorten; else None."""
    if start is None or stride is None or not 0 <= start < LARGEST_WORLD or size < 2:
        return None
    if not 0 < stride < LARGEST_WORLD or start + (size - 1) * stride >= LARGEST_WORLD:
        return None
    return tuple(range(start, start + size * stride, stride))


def _rank_list(text: Any) -> tuple[int, ...] | None:
    if isinstance(text, list):
        return tuple(text) if text and all(type(one) is int for one in text) else None
    if not isinstance(text, str) or not text:
        return None
    try:
        return parse_rank_list(text)
    except UnreadableGroups:  # Kineto shortens long lists
        return None
