"""Control values into protobuf (proto/control.proto) and back.

What is encoded decodes to an equal value. A message that cannot be understood is the peer's fault. gRPC carries the
bytes as they are: protobuf is not seen outside this module.

Most values have the fields of their messages, and are copied field by field. Only the others have functions here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass, replace
from functools import cache
from ipaddress import ip_address, ip_network
from typing import Any, TypeVar, get_args

import numpy as np
from google.protobuf.message import DecodeError

from emulator._pb import control_pb2 as pb
from emulator.control import conversation as control
from emulator.control.conversation import AgentValue, ControllerValue, Places
from emulator.control.flows import FlowFigures, FlowReport, FlowTask
from emulator.control.observations import (
    Completions,
    ComputeSpans,
    FlowCounters,
    FlowEvents,
    RankSteps,
    RankSummary,
    StepRecords,
)
from emulator.control.parameter import Parameter
from emulator.errors import RemoteProtocolError, RunError
from emulator.host.nic import NicFacts
from emulator.planner.group_layout import Layouts
from emulator.planner.rank_program import Chunk, PlannedCommunication, PlaySettings
from emulator.trace.meaning.model import CommKind, Resource
from emulator.units import NS_PER_S

NO_ROOT = 0xFFFFFFFF
T = TypeVar("T")
_SCALARS = (int, float, str, bytes)


def encode_agent(value: AgentValue, job: int | None = None) -> bytes:
    """The message an agent sends for a value that is about a job, or about none."""
    return _encode(pb.AgentMessage(job=job), value)


def encode_controller(value: ControllerValue, job: int | None = None) -> bytes:
    """The message the controller sends for a value that is about a job, or about none."""
    return _encode(pb.ControllerMessage(job=job), value)


def decode_agent(data: bytes) -> control.JobMessage[Any]:
    """The value in an agent's message, and the job that it is about.

    Raises:
        RemoteProtocolError: it is damaged, of an unknown kind, or has columns that do not fit or impossible numbers.
    """
    return _decode(pb.AgentMessage(), data, are_numbers_checked=True)


def decode_controller(data: bytes) -> control.JobMessage[Any]:
    """The value in a message of the controller, and the job that it is about; errors as of `decode_agent`."""
    return _decode(pb.ControllerMessage(), data)


def _encode(message: Any, value: Any) -> bytes:
    target = getattr(message, _name(value.__class__))
    target.SetInParent()
    _ENCODERS.get(type(value), _copy_fields)(target, value)
    data: bytes = message.SerializeToString()
    if len(data) > control.LARGEST_MESSAGE_BYTES:
        most = control.LARGEST_MESSAGE_BYTES >> 20
        raise RunError(
            f"the message {type(value).__name__} has {len(data) / (1 << 20):.0f} MiB, but the control stream takes "
            f"at most {most} MiB: use more agents or fewer ranks"
        )
    return data


def _decode(
    message: pb.AgentMessage | pb.ControllerMessage, data: bytes, *, are_numbers_checked: bool = False
) -> control.JobMessage[Any]:
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
        value = _DECODERS[kind](getattr(message, kind))
    except (ValueError, TypeError, OverflowError) as error:
        raise RemoteProtocolError(f"the peer sent a malformed {kind} message: {error}") from error
    return control.JobMessage(value, message.job if message.HasField("job") else None)


_LONGEST_NS, _LARGEST = 1 << 62, 1 << 53
"""Of times, whose differences then have 64 bits, and of all else, of which many can be added up."""


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
        elif field.cpp_type in (field.CPPTYPE_INT64, field.CPPTYPE_UINT64) and field.name != "node_id":
            most = _LONGEST_NS if field.name.endswith("_ns") else _LARGEST
            if values and not -most <= min(values) <= max(values) <= most:
                raise ValueError(f"numbers that no run reaches ({field.name})")


@cache
def _name(kind: type[Any]) -> str:
    """Of the message of a type of value: `clock_query` of ClockQuery."""
    if kind is control.Continue:  # `continue` is a word of Python
        return "continue_through"
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


@cache
def _field_names(kind: type[Any]) -> Sequence[str]:
    """Asked for once: `fields` makes a tuple of a generator each time, which fills the free lists of CPython."""
    return [item.name for item in fields(kind)]


def _copy_fields(target: Any, value: Any) -> None:
    """For values that have the same fields as their message; None is absent."""
    for name in _field_names(value.__class__):
        content = getattr(value, name)
        if isinstance(content, _SCALARS):
            setattr(target, name, content)
        elif isinstance(content, np.ndarray):
            getattr(target, name).extend(content.tolist())
        elif isinstance(content, Mapping):
            getattr(target, name).update(content)
        elif content and is_dataclass(content[0]):
            for one in content:
                _copy_fields(getattr(target, name).add(), one)
        elif content is not None:
            getattr(target, name).extend(content)


def _copied(kind: type[Any]) -> Callable[[Any], Any]:
    """Decoder of values that have the same fields as their message: what is absent has the default of the value."""
    required = [item.name for item in fields(kind) if item.default is MISSING and item.default_factory is MISSING]

    def decode_copied(message: Any) -> Any:
        content = {name: getattr(message, name) for name in required}
        content |= {found.name: given for found, given in message.ListFields()}
        return kind(**{name: _plain(given) for name, given in content.items()})

    return decode_copied


def _plain(content: Any) -> Any:
    """A field of a message as a plain value: a repeated one is a tuple."""
    if isinstance(content, _SCALARS):
        return content
    return dict(content) if isinstance(content, Mapping) else tuple(content)


def _each(kind: type[T], messages: Iterable[Any]) -> list[T]:
    return list(map(_copied(kind), messages))


def _decode_hello(message: Any) -> control.Hello:
    ports = [replace(one, addresses=tuple(map(_address, one.addresses))) for one in _each(control.Port, message.ports)]
    hello: control.Hello = _copied(control.Hello)(message)
    return replace(hello, ports=tuple(ports))


def _encode_bound(target: Any, value: control.Bound) -> None:
    _encode_places(target, value)
    for nic in value.nics:
        _copy_fields(target.nics.add(), nic)


def _encode_places(target: Any, value: control.Bound | control.Directory) -> None:
    for rank, (host, port) in value.places.items():
        target.places.add(rank=rank, host=host, port=port)


def _decode_places(message: Any) -> Places:
    return {place.rank: (_address(place.host), place.port) for place in message.places}


def _address(text: str) -> str:
    """A numeric IP address without a zone: nothing else may reach the host's commands and sockets."""
    return str(ip_address(_without_zone(text)))


def _prefix(text: str) -> str:
    return str(ip_network(_without_zone(text)))


def _without_zone(text: str) -> str:
    if "%" in text:  # whatever follows it, ipaddress takes
        raise ValueError(f"{text!r} has a zone")
    return text


def _encode_setup(target: Any, value: control.Setup) -> None:
    _copy_fields(target, replace(value, jobs=()))
    for job in value.jobs:
        _encode_job_setup(target.jobs.add(), job)


def _encode_job_setup(target: Any, value: control.JobSetup) -> None:
    settings = value.settings
    target.number, target.run_id = value.number, value.run_id
    for place in value.ranks:
        _copy_fields(target.ranks.add(), place)
    for ranks in settings.groups:
        target.groups.add(ranks=ranks)
    target.transport, target.message_bytes, target.seed = value.transport, value.message_bytes, value.seed
    target.credits, target.instances = settings.credits, settings.instances
    target.algorithms.extend(settings.algorithms)
    target.algorithm_files.update(settings.algorithm_files)
    target.nodes.extend(settings.layouts.nodes)
    target.rails.extend(settings.layouts.rails)
    target.transport_options.update(value.transport_options)
    target.record_steps = settings.record_steps
    for domain in value.domains:
        _copy_fields(target.domains.add(), domain)


def _decode_setup(message: Any) -> control.Setup:
    flows = tuple(replace(flow, host=_address(flow.host)) for flow in _each(FlowTask, message.flows))
    interval_ns = message.report_interval_ns or control.REPORT_INTERVAL_NS
    if interval_ns > NS_PER_S:
        raise ValueError("reports more than a second apart")
    jobs, networks = [*map(_decode_job_setup, message.jobs)], tuple(map(_prefix, message.networks))
    return control.Setup(jobs, networks, flows, interval_ns)


def _decode_job_setup(message: Any) -> control.JobSetup:
    settings = PlaySettings(
        credits=message.credits,
        instances=message.instances,
        algorithms=tuple(message.algorithms),
        groups=tuple(tuple(group.ranks) for group in message.groups),
        record_steps=message.record_steps,
        algorithm_files=dict(message.algorithm_files),
        layouts=Layouts(message.nodes, message.rails),
    )
    return control.JobSetup(
        message.number,
        message.run_id,
        [replace(place, host=_address(place.host)) for place in _each(control.RankPlace, message.ranks)],
        message.transport,
        message.message_bytes,
        message.seed,
        settings,
        dict(message.transport_options),
        tuple(control.DomainPlace(list(one.ranks), one.rate_bps, one.latency_ns) for one in message.domains),
    )


def _encode_chunk(target: Any, value: Chunk) -> None:
    target.rank, target.first_position = value.rank, value.first_position
    for name in ("node_id", "resource", "duration_ns", "dependencies", "distance"):
        getattr(target, name).extend(getattr(value, name).tolist())
    for position, communication in value.communications.items():
        target.communications.add(
            position=position,
            kind=communication.kind,
            group=communication.group,
            size_bytes=communication.size_bytes,
            instance=communication.instance,
            peer=max(communication.peer, 0),
            root=communication.root if communication.root >= 0 else NO_ROOT,
            algorithm=communication.algorithm,
            send_splits=communication.send_splits,
            recv_splits=communication.recv_splits,
        )


def _decode_chunk(message: Any) -> Chunk:
    chunk = Chunk(
        rank=message.rank,
        first_position=message.first_position,
        node_id=np.array(message.node_id, np.uint64),
        resource=np.array(message.resource, np.uint32),
        duration_ns=np.array(message.duration_ns, np.uint64),
        dependencies=np.array(message.dependencies, np.uint32),
        distance=np.array(message.distance, np.uint64),
        communications={entry.position: _decode_communication(entry) for entry in message.communications},
    )
    if len({len(chunk.node_id), len(chunk.resource), len(chunk.duration_ns), len(chunk.dependencies)}) != 1:
        raise ValueError("columns of unequal length")
    if int(chunk.dependencies.sum()) != len(chunk.distance):
        raise ValueError("dependencies do not add up")
    on_network = np.flatnonzero(chunk.resource == Resource.NETWORK) + chunk.first_position
    if sorted(chunk.communications) != on_network.tolist() or len(message.communications) != len(on_network):
        raise ValueError("communications that are not those of its nodes")
    return chunk


def _decode_communication(entry: Any) -> PlannedCommunication:
    kind = CommKind(entry.kind)
    return PlannedCommunication(
        kind=kind,
        group=entry.group,
        size_bytes=entry.size_bytes,
        instance=entry.instance,
        peer=-1 if kind.is_collective else entry.peer,
        root=-1 if entry.root == NO_ROOT else entry.root,
        algorithm=entry.algorithm,
        send_splits=tuple(entry.send_splits) or None,
        recv_splits=tuple(entry.recv_splits) or None,
    )


_COMPLETION_COLUMNS = {
    "rank": np.int64,
    "node_id": np.uint64,
    "post_ns": np.int64,
    "done_ns": np.int64,
    "arrival_ns": np.int64,
    "bytes_sent": np.int64,
    "bytes_received": np.int64,
    "early": np.bool_,
    "read_delay_ns": np.int64,
    "core_wait_ns": np.int64,
}


def _decode_completions(message: Any) -> Completions:
    columns: dict[str, Any] = {
        name: np.array(getattr(message, name), kind) for name, kind in _COMPLETION_COLUMNS.items()
    }
    if not len(columns["core_wait_ns"]):  # of an agent that does not count it yet
        columns["core_wait_ns"] = np.full(len(columns["rank"]), -1, np.int64)
    if len({len(column) for column in columns.values()}) != 1:
        raise ValueError("columns of unequal length")
    return Completions(message.iteration, **columns)


_SPAN_COLUMNS = ("rank", "start_ns", "end_ns")


def _decode_compute_spans(message: Any) -> ComputeSpans:
    columns = [np.array(getattr(message, name), np.int64) for name in _SPAN_COLUMNS]
    if len({len(column) for column in columns}) != 1:
        raise ValueError("columns of unequal length")
    return ComputeSpans(message.iteration, *columns)


_SENT_COLUMNS = ("receiver", "send_lane", "step", "size_bytes", "start_ns", "post_ns", "acknowledged_ns")
_RECEIVED_COLUMNS = ("sender", "receive_lane", "arrival_ns")


def _encode_step_records(target: Any, value: StepRecords) -> None:
    target.iteration = value.iteration
    for one in value.blocks:
        block = target.blocks.add(instance=one.instance, rank=one.rank, node_id=one.node_id)
        for name in (*_SENT_COLUMNS, *_RECEIVED_COLUMNS):
            getattr(block, name).extend(getattr(one, name))


def _decode_step_records(message: Any) -> StepRecords:
    return StepRecords(message.iteration, [_decode_rank_steps(message.iteration, block) for block in message.blocks])


def _decode_rank_steps(iteration: int, block: Any) -> RankSteps:
    columns: dict[str, Any] = {name: list(getattr(block, name)) for name in (*_SENT_COLUMNS, *_RECEIVED_COLUMNS)}
    for names in (_SENT_COLUMNS, _RECEIVED_COLUMNS):
        if len({len(columns[name]) for name in names}) != 1:
            raise ValueError("columns of unequal length")
    return RankSteps(iteration, block.instance, block.rank, block.node_id, **columns)


def _encode_farewell(target: Any, value: control.Farewell) -> None:
    _copy_fields(target, replace(value, transport={}))
    for name, quantity in value.transport.items():
        entry = target.transport[name]
        entry.unit = quantity.unit
        setattr(entry, _KIND_OF[type(quantity.value)], quantity.value)


def _decode_farewell(message: Any) -> control.Farewell:
    transport = {name: _decode_quantity(entry) for name, entry in message.transport.items()}
    farewell: control.Farewell = _copied(control.Farewell)(message)
    return replace(farewell, flows=_each(FlowCounters, message.flows), transport=transport)


_KIND_OF = {int: "number", float: "ratio", str: "text"}


def _decode_quantity(entry: Any) -> Parameter:
    kind = entry.WhichOneof("value")
    return Parameter(getattr(entry, kind) if kind else None, entry.unit)


_ENCODERS: Mapping[type[Any], Callable[[Any, Any], None]] = {
    control.Bound: _encode_bound,
    control.Directory: _encode_places,
    control.Setup: _encode_setup,
    control.Farewell: _encode_farewell,
    Chunk: _encode_chunk,
    StepRecords: _encode_step_records,
}
"""Of values that differ from their messages."""
_DECODERS: Mapping[str, Callable[[Any], Any]] = {
    **{_name(kind): _copied(kind) for kind in (*get_args(AgentValue), *get_args(ControllerValue))},
    "hello": _decode_hello,
    "bound": lambda message: control.Bound(_decode_places(message), _each(NicFacts, message.nics)),
    "directory": lambda message: control.Directory(_decode_places(message)),
    "setup": _decode_setup,
    "chunk": _decode_chunk,
    "completions": _decode_completions,
    "compute_spans": _decode_compute_spans,
    "iteration_done": lambda message: control.IterationDone(message.iteration, _each(RankSummary, message.ranks)),
    "flow_events": lambda message: FlowEvents(message.iteration, _each(FlowCounters, message.flows)),
    "step_records": _decode_step_records,
    "flow_report": lambda message: FlowReport(message.number, message.is_complete, _each(FlowFigures, message.figures)),
    "farewell": _decode_farewell,
}
