"""Control values into protobuf (proto/control.proto) and back.

What is encoded decodes to an equal value. A message that cannot be understood is the peer's fault. gRPC carries the
bytes as they are: protobuf is not seen outside this module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from ipaddress import ip_address, ip_network
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError, Message

from emulator.control import conversation as control
from emulator.control.conversation import (
    Abort,
    AgentValue,
    Begin,
    Bound,
    Challenge,
    ClockQuery,
    ClockReply,
    Continue,
    ControllerValue,
    Credit,
    Directory,
    DomainPlace,
    Farewell,
    Finish,
    Hello,
    IterationDone,
    JobSetup,
    Leave,
    Left,
    Places,
    Port,
    Prepare,
    Progress,
    Proof,
    RankPlace,
    Ready,
    Renew,
    Setup,
    Signed,
    Start,
    Wait,
    WantSteps,
    Welcome,
)
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
from emulator.trace.model import CommKind, Resource
from emulator.wire._pb import control_pb2 as pb

NO_ROOT = 0xFFFFFFFF


def encode_agent(value: AgentValue, job: int | None = None) -> bytes:
    """The message an agent sends for a value that is about a job, or about none."""
    return _encode(pb.AgentMessage(job=job), value)


def encode_controller(value: ControllerValue, job: int | None = None) -> bytes:
    """The message the controller sends for a value that is about a job, or about none."""
    return _encode(pb.ControllerMessage(job=job), value)


def decode_agent(data: bytes) -> control.Message[Any]:
    """The value in an agent's message, and the job that it is about.

    Raises:
        RemoteProtocolError: it is damaged, of an unknown kind, or has columns that do not fit or impossible numbers.
    """
    return _decode(pb.AgentMessage(), data)


def decode_controller(data: bytes) -> control.Message[Any]:
    """The value in a message of the controller, and the job that it is about; errors as of `decode_agent`."""
    return _decode(pb.ControllerMessage(), data)


def _encode(message: Message, value: Any) -> bytes:
    _fill(message, value)
    data = message.SerializeToString()
    if len(data) > control.LARGEST_MESSAGE_BYTES:
        most = control.LARGEST_MESSAGE_BYTES >> 20
        raise RunError(
            f"the message {type(value).__name__} has {len(data) / (1 << 20):.0f} MiB, and the control stream takes at "
            f"most {most} MiB: use more agents, or fewer ranks"
        )
    return data


def _decode(message: pb.AgentMessage | pb.ControllerMessage, data: bytes) -> control.Message[Any]:
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise RemoteProtocolError("the peer sent a control message that is damaged") from error
    kind = message.WhichOneof("message")
    if kind is None:
        raise RemoteProtocolError("the peer sent a control message that this version does not know")
    try:
        value = _DECODERS[kind](getattr(message, kind))
    except (ValueError, TypeError) as error:
        raise RemoteProtocolError(f"the peer sent a malformed {kind} message: {error}") from error
    return control.Message(value, message.job if message.HasField("job") else None)


def _fill(message: Any, value: Any) -> None:
    name, encoder = _ENCODERS[type(value)]
    target = getattr(message, name)
    target.SetInParent()
    encoder(target, value)


def _copy_fields(target: Any, value: Any) -> None:
    """For values that have the same plain fields as their message; None is absent."""
    for item in fields(value):
        content = getattr(value, item.name)
        if content is None:
            continue
        if isinstance(content, Mapping):
            getattr(target, item.name).update(content)
        elif isinstance(content, list | tuple):
            getattr(target, item.name).extend(content)
        else:
            setattr(target, item.name, content)


def _plain(kind: type[Any]) -> Callable[[Any], Any]:
    names = [item.name for item in fields(kind)]

    def decode_plain(message: Any) -> Any:
        return kind(**{name: getattr(message, name) for name in names})

    return decode_plain


def _encode_hello(target: Any, value: Hello) -> None:
    _copy_fields(target, replace(value, ports=()))
    for port in value.ports:
        _copy_fields(target.ports.add(), port)


def _decode_hello(message: Any) -> Hello:
    ports = tuple(replace(_plain(Port)(one), addresses=tuple(map(_address, one.addresses))) for one in message.ports)
    hello: Hello = _plain(Hello)(message)
    return replace(hello, facts=dict(message.facts), ports=ports)


def _encode_places(target: Any, value: Bound | Directory) -> None:
    for rank, (host, port) in value.places.items():
        target.places.add(rank=rank, host=host, port=port)


def _encode_bound(target: Any, value: Bound) -> None:
    _encode_places(target, value)
    for nic in value.nics:
        _copy_fields(target.nics.add(), nic)


def _decode_bound(message: Any) -> Bound:
    return Bound(_decode_places(message), [_decode_nic(nic) for nic in message.nics])


def _decode_nic(entry: Any) -> NicFacts:
    return NicFacts(**{found.name: content for found, content in entry.ListFields()} | {"interface": entry.interface})


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


def _encode_setup(target: Any, value: Setup) -> None:
    for job in value.jobs:
        _encode_job_setup(target.jobs.add(), job)
    target.networks.extend(value.networks)
    for flow in value.flows:
        _copy_fields(target.flows.add(), flow)


def _encode_job_setup(target: Any, value: JobSetup) -> None:
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


def _decode_setup(message: Any) -> Setup:
    flows = tuple(replace(_plain(FlowTask)(flow), host=_address(flow.host)) for flow in message.flows)
    return Setup([_decode_job_setup(job) for job in message.jobs], tuple(map(_prefix, message.networks)), flows)


def _decode_job_setup(message: Any) -> JobSetup:
    settings = PlaySettings(
        credits=message.credits,
        instances=message.instances,
        algorithms=tuple(message.algorithms),
        groups=tuple(tuple(group.ranks) for group in message.groups),
        record_steps=message.record_steps,
        algorithm_files=dict(message.algorithm_files),
        layouts=Layouts(message.nodes, message.rails),
    )
    return JobSetup(
        message.number,
        message.run_id,
        [replace(_plain(RankPlace)(place), host=_address(place.host)) for place in message.ranks],
        message.transport,
        message.message_bytes,
        message.seed,
        settings,
        dict(message.transport_options),
        tuple(DomainPlace(list(one.ranks), one.rate_bps, one.latency_ns) for one in message.domains),
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
}


def _encode_completions(target: Any, value: Completions) -> None:
    target.iteration = value.iteration
    for name in _COMPLETION_COLUMNS:
        getattr(target, name).extend(getattr(value, name).tolist())


def _decode_completions(message: Any) -> Completions:
    columns: dict[str, Any] = {
        name: np.array(getattr(message, name), kind) for name, kind in _COMPLETION_COLUMNS.items()
    }
    if len({len(column) for column in columns.values()}) != 1:
        raise ValueError("columns of unequal length")
    if any(np.any(columns[name] < 0) for name in ("bytes_sent", "bytes_received")):
        raise ValueError("byte counts that no rank reaches")  # 2^63 and more wrap round
    return Completions(message.iteration, **columns)


_SPAN_COLUMNS = ("rank", "start_ns", "end_ns")


def _encode_compute_spans(target: Any, value: ComputeSpans) -> None:
    target.iteration = value.iteration
    for name in _SPAN_COLUMNS:
        getattr(target, name).extend(getattr(value, name).tolist())


def _decode_compute_spans(message: Any) -> ComputeSpans:
    columns = [np.array(getattr(message, name), np.int64) for name in _SPAN_COLUMNS]
    if len({len(column) for column in columns}) != 1:
        raise ValueError("columns of unequal length")
    return ComputeSpans(message.iteration, *columns)


def _encode_iteration_done(target: Any, value: IterationDone) -> None:
    target.iteration = value.iteration
    for summary in value.ranks:
        _copy_fields(target.ranks.add(), summary)


def _decode_iteration_done(message: Any) -> IterationDone:
    summary = _plain(RankSummary)
    return IterationDone(message.iteration, [summary(entry) for entry in message.ranks])


def _encode_flow_events(target: Any, value: FlowEvents) -> None:
    target.iteration = value.iteration
    for flow in value.flows:
        _copy_fields(target.flows.add(), flow)


def _decode_flow_events(message: Any) -> FlowEvents:
    return FlowEvents(message.iteration, [_decode_flow(entry) for entry in message.flows])


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
    if max((block.instance, *columns["size_bytes"]), default=0) >> 63:
        raise ValueError("numbers that no run reaches")
    return RankSteps(iteration, block.instance, block.rank, block.node_id, **columns)


def _encode_farewell(target: Any, value: Farewell) -> None:
    target.peak_rss_bytes = value.peak_rss_bytes
    target.post_lateness_median_ns = value.post_lateness_median_ns
    target.steps_lost = value.steps_lost
    if value.steal_fraction is not None:
        target.steal_fraction = value.steal_fraction
    if value.core_wait_fraction is not None:
        target.core_wait_fraction = value.core_wait_fraction
    for flow in value.flows:
        _copy_fields(target.flows.add(), flow)
    for name, quantity in value.transport.items():
        entry = target.transport[name]
        entry.unit = quantity.unit
        setattr(entry, _KIND_OF[type(quantity.value)], quantity.value)


def _decode_farewell(message: Any) -> Farewell:
    flows = [_decode_flow(entry) for entry in message.flows]
    transport = {name: _decode_quantity(entry) for name, entry in message.transport.items()}
    steal = message.steal_fraction if message.HasField("steal_fraction") else None
    wait = message.core_wait_fraction if message.HasField("core_wait_fraction") else None
    return Farewell(
        flows,
        message.peak_rss_bytes,
        message.post_lateness_median_ns,
        transport,
        steal,
        wait,
        steps_lost=message.steps_lost,
    )


_KIND_OF = {int: "number", float: "ratio", str: "text"}


def _decode_quantity(entry: Any) -> Parameter:
    kind = entry.WhichOneof("value")
    return Parameter(getattr(entry, kind) if kind else None, entry.unit)


def _decode_flow(entry: Message) -> FlowCounters:
    return FlowCounters(**{descriptor.name: content for descriptor, content in entry.ListFields()} | _required(entry))


def _required(entry: Any) -> dict[str, int]:
    # Fields without presence are not listed when they are 0.
    return {"src": entry.src, "dst": entry.dst, "bytes": entry.bytes, "messages": entry.messages}


def _encode_flow_report(target: Any, value: FlowReport) -> None:
    target.number, target.is_complete = value.number, value.is_complete
    for figures in value.figures:
        _copy_fields(target.figures.add(), figures)


def _decode_flow_report(message: Any) -> FlowReport:
    return FlowReport(message.number, message.is_complete, [_decode_figures(entry) for entry in message.figures])


def _decode_figures(entry: Any) -> FlowFigures:
    required = {name: getattr(entry, name) for name in ("direction", "observer", "messages", "bytes")}
    return FlowFigures(**{found.name: content for found, content in entry.ListFields()} | required)


def _decode_abort(message: Any) -> Abort:
    return Abort(message.reason, tuple(message.ranks))


_ENCODERS: dict[type[Any], tuple[str, Callable[[Any, Any], None]]] = {
    Hello: ("hello", _encode_hello),
    Bound: ("bound", _encode_bound),
    Credit: ("credit", _copy_fields),
    Ready: ("ready", _copy_fields),
    Completions: ("completions", _encode_completions),
    ComputeSpans: ("compute_spans", _encode_compute_spans),
    FlowEvents: ("flow_events", _encode_flow_events),
    StepRecords: ("step_records", _encode_step_records),
    WantSteps: ("want_steps", _copy_fields),
    IterationDone: ("iteration_done", _encode_iteration_done),
    Progress: ("progress", _copy_fields),
    Farewell: ("farewell", _encode_farewell),
    Abort: ("abort", _copy_fields),
    ClockReply: ("clock_reply", _copy_fields),
    FlowReport: ("flow_report", _encode_flow_report),
    Left: ("left", _copy_fields),
    ClockQuery: ("clock_query", _copy_fields),
    Proof: ("proof", _copy_fields),
    Challenge: ("challenge", _copy_fields),
    Signed: ("signed", _copy_fields),
    Renew: ("renew", _copy_fields),
    Wait: ("wait", _copy_fields),
    Welcome: ("welcome", _copy_fields),
    Setup: ("setup", _encode_setup),
    Directory: ("directory", _encode_places),
    Chunk: ("chunk", _encode_chunk),
    Prepare: ("prepare", _copy_fields),
    Begin: ("begin", _copy_fields),
    Start: ("start", _copy_fields),
    Continue: ("continue_through", _copy_fields),
    Finish: ("finish", _copy_fields),
    Leave: ("leave", _copy_fields),
}
_DECODERS: dict[str, Callable[[Any], Any]] = {
    "hello": _decode_hello,
    "bound": _decode_bound,
    "credit": _plain(Credit),
    "ready": _plain(Ready),
    "completions": _decode_completions,
    "compute_spans": _decode_compute_spans,
    "flow_events": _decode_flow_events,
    "step_records": _decode_step_records,
    "want_steps": lambda message: WantSteps(message.iteration, tuple(message.instances)),
    "iteration_done": _decode_iteration_done,
    "progress": lambda message: replace(_plain(Progress)(message), silence=tuple(message.silence)),
    "farewell": _decode_farewell,
    "abort": _decode_abort,
    "clock_reply": _plain(ClockReply),
    "flow_report": _decode_flow_report,
    "left": _plain(Left),
    "clock_query": _plain(ClockQuery),
    "proof": _plain(Proof),
    "challenge": lambda message: replace(_plain(Challenge)(message), codes=tuple(message.codes)),
    "signed": _plain(Signed),
    "renew": _plain(Renew),
    "wait": _plain(Wait),
    "welcome": _plain(Welcome),
    "setup": _decode_setup,
    "directory": lambda message: Directory(_decode_places(message)),
    "chunk": _decode_chunk,
    "prepare": _plain(Prepare),
    "begin": _plain(Begin),
    "start": _plain(Start),
    "continue_through": _plain(Continue),
    "finish": _plain(Finish),
    "leave": _plain(Leave),
}
