"""Control values into protobuf (proto/control.proto) and back.

What is encoded decodes to an equal value. A message that cannot be understood is the peer's fault. gRPC carries the
bytes as they are: protobuf is not seen outside this module.

A value has the fields of its message: how each is copied follows from its type.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache, partial
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec
import numpy as np
from google.protobuf.message import DecodeError

from emulator._pb import control_pb2 as pb
from emulator.control import conversation as control
from emulator.control.conversation import AgentValue, ControllerValue
from emulator.control.flows import MOST_GAPS, FlowReport
from emulator.control.observations import (
    ChainRecords,
    Completions,
    ComputeSpans,
    MemberChain,
    RankSteps,
    StepRecords,
    Timeline,
)
from emulator.errors import PlanError, RemoteProtocolError, RunError
from emulator.planner.rank_program import Chunk
from emulator.schema import decode, parse_json
from emulator.trace.meaning.model import Resource
from emulator.transports.registry import transport_named
from emulator.units import NS_PER_S

_SCALARS = (bool, int, float, str, bytes)


def _encode(
    envelope: type[pb.AgentMessage | pb.ControllerMessage],
    value: Any,
    job: int | None = None,
) -> bytes:
    message = envelope(job=job)
    target = getattr(message, message_name(value.__class__))
    target.SetInParent()
    _fill(target, value, value.__class__)
    data: bytes = message.SerializeToString()
    if len(data) > control.LARGEST_MESSAGE_BYTES:
        most = control.LARGEST_MESSAGE_BYTES >> 20
        raise RunError(
            f"the message {type(value).__name__} has {len(data) / (1 << 20):.0f} MiB, but the control stream takes "
            f"at most {most} MiB: use more agents or fewer ranks"
        )
    return data


def _decode(
    envelope: type[pb.AgentMessage | pb.ControllerMessage], data: bytes, *, are_numbers_checked: bool = False
) -> control.JobMessage[Any]:
    message = envelope()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise RemoteProtocolError("the peer sent a damaged control message") from error
    kind = message.WhichOneof("message")
    if kind is None:
        raise RemoteProtocolError("the peer sent a control message unknown to this version")
    try:
        if are_numbers_checked:
            _check_numbers(message)
        value = _read(_KINDS[kind], getattr(message, kind))
    except (ValueError, TypeError, OverflowError, PlanError) as error:
        raise RemoteProtocolError(f"the peer sent a malformed {kind} message: {error}") from error
    return control.JobMessage(value, message.job if message.HasField("job") else None)


encode_agent = partial(_encode, pb.AgentMessage)
encode_controller = partial(_encode, pb.ControllerMessage)
"""The message for a value that is about a job, or about none. RunError: it is too large for the control stream."""
decode_agent = partial(_decode, pb.AgentMessage, are_numbers_checked=True)
decode_controller = partial(_decode, pb.ControllerMessage)
"""The value in a message, and the job that it is about. RemoteProtocolError: it is damaged, of an unknown kind, or has
columns that do not fit; an agent's also where a number cannot be."""


@cache
def message_name(kind: Any) -> str:
    """Of the message of a type of value: `clock_query` of ClockQuery."""
    if kind is control.Continue:  # `continue` is a word of Python
        return "continue_through"
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


_VALUES = (*get_args(AgentValue), *get_args(ControllerValue))
_KINDS: Mapping[str, type[Any]] = {message_name(kind): kind for kind in _VALUES}


# --- by type ------------------------------------------------------------------------------------------------------


class _ElementCopy(NamedTuple):
    """How one content is copied: `fill` writes it into a message of its own, None: it is a scalar; `read` checks it."""

    fill: Callable[[Any, Any], None] | None
    read: Callable[[Any], Any]


class _Field(NamedTuple):
    """How a field of a value gets into the message and out of it."""

    name: str
    write: Callable[[Any, Any], None]
    read: Callable[[Any], Any]


def _fill(message: Any, value: Any, kind: Any) -> None:
    for field in _fields(kind):
        content = getattr(value, field.name)
        if content is not None:
            field.write(message, content)


def _read(kind: Any, message: Any) -> Any:
    value = kind(**{field.name: field.read(message) for field in _fields(kind)})
    if kind in _CHECKS:
        _CHECKS[kind](value)
    return value


@cache
def _fields(kind: Any) -> Sequence[_Field]:
    """Of a dataclass or named tuple: all that it is made with."""
    hints = get_type_hints(kind, include_extras=True)
    names = [one.name for one in fields(kind) if one.init] if is_dataclass(kind) else kind._fields
    return [_OWN[kind, name] if (kind, name) in _OWN else _field(name, hints[name]) for name in names]


def _field(name: str, hint: Any) -> _Field:
    kinds = [one for one in get_args(hint) if one is not NoneType] if get_origin(hint) in (Union, UnionType) else [hint]
    if len(kinds) > 1:
        return _choice(name)
    is_optional, kind = kinds[0] is not hint, kinds[0]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is np.ndarray:
        return _column(name, get_args(arguments[1])[0])
    if origin is Mapping:
        return _mapping(name, _element(arguments[1]))
    if origin in (Sequence, tuple, frozenset):
        return _repeated(name, _element(arguments[0]), frozenset if origin is frozenset else tuple, is_optional)
    return _single(name, _element(kind), is_optional)


def _element(hint: Any) -> _ElementCopy:
    if get_origin(hint) is Sequence:  # protobuf has none of sequences
        return _ElementCopy(lambda message, ranks: message.ranks.extend(ranks), lambda message: tuple(message.ranks))
    if metadata := getattr(hint, "__metadata__", None):
        return _ElementCopy(None, metadata[0])
    if is_dataclass(hint) or hasattr(hint, "_fields"):
        return _ElementCopy(lambda message, value: _fill(message, value, hint), lambda message: _read(hint, message))
    return _ElementCopy(None, _as_it_is if hint in _SCALARS else hint)


def _as_it_is(content: Any) -> Any:
    return content


def _single(name: str, element: _ElementCopy, is_optional: bool) -> _Field:
    get, (fill, read) = attrgetter(name), element

    def write(message: Any, content: Any) -> None:
        if fill is None:
            setattr(message, name, content)
        else:
            fill(get(message), content)

    if is_optional:
        return _Field(name, write, lambda message: read(get(message)) if message.HasField(name) else None)
    return _Field(name, write, get if read is _as_it_is else lambda message: read(get(message)))


def _repeated(name: str, element: _ElementCopy, build: Callable[[Any], Any], is_optional: bool) -> _Field:
    get, (fill, read) = attrgetter(name), element

    def write(message: Any, contents: Any) -> None:
        if fill is None:
            get(message).extend(contents)
        else:
            for content in contents:
                fill(get(message).add(), content)

    def read_all(message: Any) -> Any:
        found = build(get(message) if read is _as_it_is else map(read, get(message)))
        return found or None if is_optional else found

    return _Field(name, write, read_all)


def _mapping(name: str, element: _ElementCopy) -> _Field:
    get, (fill, read) = attrgetter(name), element

    def write(message: Any, contents: Any) -> None:
        for key, content in contents.items():
            if fill is None:
                get(message)[key] = content
            else:
                get(message)[key].SetInParent()
                fill(get(message)[key], content)

    return _Field(name, write, lambda message: {key: read(content) for key, content in get(message).items()})


def _column(name: str, kind: type[Any]) -> _Field:
    get = attrgetter(name)
    return _Field(
        name,
        lambda message, content: get(message).extend(content.tolist()),
        lambda message: np.array(get(message), kind),
    )


_KIND_OF = {bool: "flag", int: "number", float: "ratio", str: "text"}


def _choice(name: str) -> _Field:
    """One of several types of scalars; None: none of them."""

    def read(message: Any) -> Any:
        kind = message.WhichOneof(name)
        return kind and getattr(message, kind)

    return _Field(name, lambda message, content: setattr(message, _KIND_OF[type(content)], content), read)


def _read_options(message: Any) -> Any:
    transport = transport_named(message.transport)
    if transport.options is None or not message.options:
        return None
    plain = parse_json(message.options.encode())
    if isinstance(plain, Mapping) and (
        strange := [*plain.keys() - {field.name for field in fields(transport.options)}]
    ):
        raise ValueError(f"{transport.title} has no option {strange[0]!r}")
    return decode(plain, transport.options)


_OWN: Mapping[tuple[type[Any], str], _Field] = {
    (control.JobSetup, "options"): _Field(
        "options",
        lambda message, options: setattr(message, "options", msgspec.json.encode(options).decode()),
        _read_options,
    )
}
"""Fields whose type depends on another one."""


# --- what types do not say ----------------------------------------------------------------------------------------

_LONGEST_NS, _LARGEST = 1 << 62, 1 << 53
"""Of times, whose differences then have 64 bits, and of all else, of which many can be added up."""


_SHORT = 32
"""Below that many numbers Python compares them as fast as numpy does."""


def _range(column: Any) -> tuple[int, int]:
    numbers = np.array(column)  # protobuf lends it their memory
    return int(numbers.min()), int(numbers.max())


def _check_numbers(message: Any) -> None:
    """Check the numbers of an agent: they are subtracted, added up and stored.

    Raises:
        ValueError: one that no run reaches, is infinite, or is none.
    """
    for field, value in message.ListFields():
        values = value if field.is_repeated else (value,)
        if field.message_type is not None:
            if field.message_type.GetOptions().map_entry:
                values = [one for one in value.values() if hasattr(one, "ListFields")]
            for one in values:
                _check_numbers(one)
        elif field.cpp_type == field.CPPTYPE_DOUBLE:
            if not all(map(math.isfinite, values)):
                raise ValueError(f"{field.name} is not a finite number")
            if max(map(abs, values), default=0) > _LONGEST_NS:
                raise ValueError(f"numbers that no run reaches ({field.name})")
        elif field.cpp_type in (field.CPPTYPE_INT64, field.CPPTYPE_UINT64) and field.name != "node_id":
            most = _LONGEST_NS if field.name.endswith("_ns") else _LARGEST
            least, greatest = (min(values), max(values)) if len(values) < _SHORT else _range(values)
            if not -most <= least <= greatest <= most:
                raise ValueError(f"numbers that no run reaches ({field.name})")


def _check_setup(setup: control.Setup) -> None:
    if not 0 < setup.report_interval_ns <= NS_PER_S:
        raise ValueError("reports more than a second apart, or none")
    for job in setup.jobs.values():
        if job.message_bytes < 1 or len({place.rank for place in job.ranks}) < len(job.ranks):
            raise ValueError("messages of no size, or a rank twice")


def _check_columns(value: Any, *names: str) -> None:
    if len({len(getattr(value, name)) for name in names}) != 1:
        raise ValueError("columns of unequal length")


def _check_completions(completions: Completions) -> None:
    _check_columns(completions, *(field.name for field in _fields(Completions)[1:]))


def _check_report(report: FlowReport) -> None:
    if len({(one.direction, one.observer) for one in report.figures}) < len(report.figures):
        raise ValueError("a direction of a flow twice")
    gaps = [gap for one in report.figures for gap in one.gaps]
    if len(gaps) > MOST_GAPS + 1 or any(one.end_ns < one.start_ns for one in gaps):
        raise ValueError("more gaps of a flow than are kept, or one that ends before it begins")


def _check_records(records: StepRecords) -> None:
    if any(block.iteration != records.iteration for block in records.blocks):
        raise ValueError("steps of several iterations")


def _check_steps(steps: RankSteps) -> None:
    _check_columns(steps, "receiver", "send_lane", "step", "size_bytes", "start_ns", "post_ns", "acknowledged_ns")
    _check_columns(steps, "sender", "receive_lane", "arrival_ns")


def _check_chains(records: ChainRecords) -> None:
    if any(block.iteration != records.iteration for block in records.blocks):
        raise ValueError("chains of several iterations")


def _check_chain(chain: MemberChain) -> None:
    _check_columns(chain, "receiver", "send_lane", "cause", "sent_ns")
    _check_columns(chain, "sender", "receive_lane", "received_ns")
    if any(cause > len(chain.sender) for cause in chain.cause):
        raise ValueError("a transfer that waited for one that never came")


def _check_timeline(timeline: Timeline) -> None:
    _check_columns(timeline, "flow", "start_ns", "bytes", "retransmits", "ecn_marks")
    if timeline.bin_ns < 1 or len(set(timeline.flows)) < len(timeline.flows):
        raise ValueError("bins of no length, or a flow twice")
    if len(timeline.flow) and not 0 <= timeline.flow.min() <= timeline.flow.max() < len(timeline.flows):
        raise ValueError("bins of a flow that is not listed")


def _check_chunk(chunk: Chunk) -> None:
    _check_columns(chunk, "node_id", "resource", "duration_ns", "dependencies")
    if int(chunk.dependencies.sum()) != len(chunk.distance):
        raise ValueError("dependencies do not add up")
    on_network = np.flatnonzero(chunk.resource == Resource.NETWORK) + chunk.first_position
    if sorted(chunk.communications) != on_network.tolist():
        raise ValueError("communications that are not those of its nodes")


_CHECKS: Mapping[type[Any], Callable[[Any], None]] = {
    control.Setup: _check_setup,
    Completions: _check_completions,
    ComputeSpans: lambda spans: _check_columns(spans, "rank", "start_ns", "end_ns"),
    FlowReport: _check_report,
    StepRecords: _check_records,
    RankSteps: _check_steps,
    ChainRecords: _check_chains,
    MemberChain: _check_chain,
    Timeline: _check_timeline,
    Chunk: _check_chunk,
}
"""Of values whose fields must fit together."""
