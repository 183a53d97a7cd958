"""Every value of the control conversation comes out of its bytes as it went in; no bytes break the decoder."""

from contextlib import suppress
from dataclasses import fields, is_dataclass
from ipaddress import ip_network
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.control import conversation as control
from emulator.control.flows import FlowDirection, FlowFigures, FlowGap, FlowObserver, FlowReport, FlowTask
from emulator.control.observations import (
    Completions,
    ComputeSpans,
    FlowCounters,
    FlowEvents,
    Migration,
    RankSteps,
    RankSummary,
    StepRecords,
    Timeline,
    TimelineFlow,
)
from emulator.control.parameter import Parameter
from emulator.control.wire.codec import decode_agent, decode_controller, encode_agent, encode_controller
from emulator.errors import RemoteProtocolError
from emulator.host.nic_facts import NicFacts
from emulator.planner.group_layout import Layouts
from emulator.planner.network.port_shares import PortShare
from emulator.planner.rank_program import Chunk, PlannedCommunication, PlaySettings
from emulator.roce.options import RoceOptions
from emulator.trace.meaning.model import CommKind, Resource
from emulator.transports.registry import VerbsOptions

texts = st.text(max_size=8)
blobs = st.binary(max_size=16)
addresses = st.ip_addresses().map(str)
prefixes = addresses.map(lambda address: str(ip_network(address)))
u31, u32 = st.integers(0, 2**31 - 1), st.integers(0, 2**32 - 1)
u63, u64 = st.integers(0, 2**53), st.integers(0, 2**53)
i64 = st.integers(-(2**53), 2**53)
iterations = st.integers(-(2**31), 2**31 - 1)
ranks = st.lists(u32, max_size=4).map(tuple)
places = st.dictionaries(u32, st.builds(control.Address, addresses, u31, st.none() | addresses), max_size=4)
splits = st.none() | st.lists(u63, min_size=1, max_size=4).map(tuple)

ports = st.builds(control.Port, texts, st.lists(addresses, max_size=2).map(tuple), u31, u31)
hellos = st.builds(
    control.Hello,
    u31,
    u31,
    texts,
    u31,
    texts,
    texts,
    i64,
    blobs,
    texts,
    st.dictionaries(texts, texts, max_size=3),
    texts,
    st.booleans(),
    st.lists(ports, max_size=2).map(tuple),
)
play_settings = st.builds(
    PlaySettings,
    credits=st.booleans(),
    instances=u63,
    algorithms=st.lists(texts, max_size=3).map(tuple),
    groups=st.lists(ranks, max_size=3).map(tuple),
    record_steps=st.integers(-1, 2**31 - 1),
    algorithm_files=st.dictionaries(texts, texts, max_size=2),
    layouts=st.builds(Layouts, ranks, ranks, ranks.map(frozenset)),
)
shares = st.builds(PortShare, u31, u63, u63)
transports = st.one_of(
    st.tuples(st.just("zmq"), st.none()),
    st.tuples(st.just("roce"), st.builds(RoceOptions, qps=st.integers(1, 64), congestion=st.sampled_from(["dcqcn"]))),
    st.tuples(st.just("verbs"), st.builds(VerbsOptions, software_nic=st.sampled_from(["all", "off"]))),
)


@st.composite
def job_setups(draw: st.DrawFn) -> control.JobSetup:
    transport, options = draw(transports)
    alternates = st.none() | addresses
    places = st.builds(control.RankPlace, u32, addresses, u63, u63, texts, shares, st.booleans(), alternates, texts)
    return control.JobSetup(
        draw(texts),
        draw(st.lists(places, max_size=3, unique_by=lambda place: place.rank).map(tuple)),
        transport,
        draw(st.integers(1, 2**53)),
        draw(u63),
        draw(play_settings),
        options,
        draw(st.lists(st.builds(control.DomainPlace, ranks, u63, u63), max_size=2).map(tuple)),
    )


setups = st.builds(
    control.Setup,
    st.dictionaries(u31, job_setups(), max_size=2),
    st.lists(prefixes, max_size=3).map(tuple),
    st.lists(st.builds(FlowTask, u31, texts, texts, addresses, texts, texts), max_size=2).map(tuple),
    st.integers(1, 10**9),
)
summaries = st.builds(RankSummary, u31, i64, i64, u63, u63, u63)
counter = st.none() | u63
flows = st.builds(
    FlowCounters,
    u31,
    u31,
    u63,
    u63,
    *[counter] * 8,
    st.none() | u31,
    st.none() | u31,
    *[counter] * 7,
    st.sampled_from(["wire", "domain"]),
)
nics = st.builds(NicFacts, texts, st.none() | texts, st.none() | texts, counter, st.none() | u31)
quantities = st.builds(Parameter, i64 | texts | st.floats(-(2**62), 2**62), texts)


@st.composite
def compute_spans(draw: st.DrawFn) -> ComputeSpans:
    rows = draw(st.lists(st.tuples(u32, i64, i64), max_size=5))
    return ComputeSpans(draw(iterations), *np.array(rows, np.int64).reshape(-1, 3).T)


@st.composite
def step_records(draw: st.DrawFn) -> StepRecords:
    iteration = draw(iterations)
    blocks = []
    for _ in range(draw(st.integers(0, 2))):
        sent = draw(st.lists(st.tuples(u32, u32, u32, u63, i64, i64, i64), max_size=3))
        received = draw(st.lists(st.tuples(u32, u32, i64), max_size=3))
        columns = [tuple(row[at] for row in sent) for at in range(7)]
        columns += [tuple(row[at] for row in received) for at in range(3)]
        blocks.append(RankSteps(iteration, draw(u63), draw(u32), draw(u64), *columns))
    return StepRecords(iteration, tuple(blocks))


@st.composite
def timeline_parts(draw: st.DrawFn) -> Timeline:
    flows = draw(st.lists(st.builds(TimelineFlow, u32, u32, u32), min_size=1, max_size=3, unique=True).map(tuple))
    numbers = st.integers(0, len(flows) - 1)
    rows = draw(st.lists(st.tuples(numbers, i64, u63, u63, u63), max_size=5))
    return Timeline(draw(st.integers(1, 2**40)), flows, *np.array(rows, np.int64).reshape(-1, 5).T)


timelines = timeline_parts()


@st.composite
def completions(draw: st.DrawFn) -> Completions:
    count = draw(st.integers(0, 5))

    def column(values: st.SearchStrategy[Any], kind: Any) -> Any:
        return np.array(draw(st.lists(values, min_size=count, max_size=count)), kind)

    return Completions(
        draw(iterations),
        rank=column(u32, np.int64),
        node_id=column(u64, np.uint64),
        post_ns=column(i64, np.int64),
        done_ns=column(i64, np.int64),
        arrival_ns=column(i64, np.int64),
        bytes_sent=column(u63, np.int64),
        bytes_received=column(u63, np.int64),
        early=column(st.booleans(), np.bool_),
        read_delay_ns=column(i64, np.int64),
        core_wait_ns=column(i64, np.int64),
    )


@st.composite
def planned(draw: st.DrawFn) -> PlannedCommunication:
    kind = draw(st.sampled_from(CommKind))
    return PlannedCommunication(
        kind=kind,
        group=draw(u31),
        size_bytes=draw(u63),
        instance=draw(u63),
        peer=-1 if kind.is_collective else draw(u31),
        root=draw(st.just(-1) | u31),
        algorithm=draw(u31),
        send_splits=draw(splits),
        recv_splits=draw(splits),
    )


@st.composite
def chunks(draw: st.DrawFn) -> Chunk:
    first = draw(st.integers(0, 2**40))
    resources = draw(st.lists(st.sampled_from(Resource), max_size=6))
    dependencies = [draw(st.integers(0, 3)) for _ in resources]
    return Chunk(
        rank=draw(u32),
        first_position=first,
        node_id=np.array([draw(u64) for _ in resources], np.uint64),
        resource=np.array(resources, np.uint32),
        duration_ns=np.array([draw(u64) for _ in resources], np.uint64),
        dependencies=np.array(dependencies, np.uint32),
        distance=np.array([draw(u64) for _ in range(sum(dependencies))], np.uint64),
        communications={first + k: draw(planned()) for k, one in enumerate(resources) if one is Resource.NETWORK},
    )


ratio = st.none() | st.floats(0, 1e12)
gaps = st.builds(
    lambda start, length, lost, late: FlowGap(start, start + length, lost, late), i64, u63, counter, counter
)
figures = st.builds(
    FlowFigures,
    direction=st.sampled_from(FlowDirection),
    observer=st.sampled_from(FlowObserver),
    messages=u63,
    bytes=u63,
    start_ns=i64,
    duration_ns=counter,
    bytes_per_s=ratio,
    packets=counter,
    retransmits=counter,
    timeouts=counter,
    naks=counter,
    rnr_naks=counter,
    duplicates=counter,
    latency_median_ns=ratio,
    latency_p99_ns=ratio,
    gaps=st.lists(gaps, max_size=2).map(tuple),
)
reported = st.lists(figures, max_size=3, unique_by=lambda one: (one.direction, one.observer)).map(tuple)
aborts = st.builds(control.Abort, texts, ranks)
agent_values = st.one_of(
    hellos,
    st.builds(control.Bound, places, st.lists(nics, max_size=2).map(tuple)),
    st.builds(control.Credit, u31, u63),
    st.just(control.Ready()),
    completions(),
    compute_spans(),
    st.builds(FlowEvents, iterations, st.lists(flows, max_size=3).map(tuple)),
    step_records(),
    st.builds(control.IterationDone, iterations, st.lists(summaries, max_size=3).map(tuple)),
    st.builds(control.Progress, u63, u63, st.booleans(), texts, ranks, u63),
    st.builds(
        control.Farewell,
        st.lists(flows, max_size=3).map(tuple),
        u63,
        u63,
        st.dictionaries(texts, quantities, max_size=3),
        st.none() | st.floats(0, 1),
        st.none() | st.floats(0, 1),
        u63,
        st.none() | timelines,
        st.lists(st.builds(Migration, u31, u31, u31, i64, st.booleans()), max_size=2).map(tuple),
    ),
    st.builds(control.Proof, blobs),
    st.builds(control.ClockReply, i64, i64, i64),
    st.builds(FlowReport, u31, st.booleans(), reported),
    st.just(control.Left()),
    aborts,
)
controller_values = st.one_of(
    st.builds(control.Welcome, u31),
    st.builds(control.Challenge, texts, blobs, st.lists(blobs, max_size=2).map(tuple)),
    st.builds(control.Signed, blobs, blobs, blobs, blobs),
    setups,
    st.builds(control.Directory, places),
    st.builds(control.Prepare, iterations),
    chunks(),
    st.builds(control.Begin, i64),
    st.builds(control.Start, iterations, i64, iterations),
    st.builds(control.Continue, iterations),
    st.just(control.Finish()),
    st.just(control.Leave()),
    st.builds(control.ClockQuery, i64),
    st.builds(control.Renew, u32),
    st.builds(control.Wait, texts),
    st.builds(control.WantSteps, iterations, st.lists(u63, max_size=3).map(tuple)),
    aborts,
)


def plain(value: Any) -> Any:
    """A value with its arrays as (type, list), so that it can be compared."""
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.tolist()
    if is_dataclass(value) and not isinstance(value, type):
        return type(value), {item.name: plain(getattr(value, item.name)) for item in fields(value) if item.compare}
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return tuple(map(plain, value)) if isinstance(value, tuple) else value


jobs = st.none() | u31
"""The number of the job that a value is about."""


@settings(deadline=None)
@given(agent_values, jobs)
def test_what_an_agent_says_arrives(value: Any, job: int | None) -> None:
    heard, about = decode_agent(encode_agent(value, job))
    assert (plain(heard), about) == (plain(value), job)


@settings(deadline=None)
@given(controller_values, jobs)
def test_what_the_controller_says_arrives(value: Any, job: int | None) -> None:
    heard, about = decode_controller(encode_controller(value, job))
    assert (plain(heard), about) == (plain(value), job)


@settings(deadline=None)
@given(controller_values, st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=3))
def test_damaged_messages_are_values_or_the_peers_fault(value: Any, damage: list[tuple[int, int]]) -> None:
    sent = bytearray(encode_controller(value))
    for place, content in damage:
        if sent:
            sent[place % len(sent)] = content
    with suppress(RemoteProtocolError):
        decode_controller(bytes(sent))


@pytest.mark.parametrize("host", ["", "server1", "10.0.0.1\naddress flush dev eth0", "fe80::1%eth0\n", "10.0.0.1/24"])
def test_only_addresses_pass_for_addresses(host: str) -> None:
    settings = PlaySettings(credits=True, instances=1, algorithms=(), groups=())
    for value in (
        control.Directory({0: control.Address(host, 4791)}),
        control.Setup({0: control.JobSetup("r", [control.RankPlace(0, host, 1, 1)], "roce", 1, 0, settings)}),
        control.Setup({}, networks=(f"{host} x",)),
    ):
        with pytest.raises(RemoteProtocolError, match="sent a malformed"):
            decode_controller(encode_controller(value))
