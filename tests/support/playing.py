"""Plays whole workloads in virtual time: every rank's player on one network in memory, the controller's part done here.

Chunks reach the players as they would in a run: cut by ProgramStream within the window, through the control codec.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple

import numpy as np

from agents.part import StorageEndpoint
from agents.play import tags
from agents.play.player import RankPlayer
from agents.play.recording_player import RecordingPlayer, StepKeeper
from agents.transports.base import Endpoint, EndpointEvents
from agents.transports.catalogue import DomainEndpoint, DomainGroup, ScaleUpDomain
from emulator.control.observations import Completion, RankSteps, RankSummary
from emulator.control.wire.codec import decode_controller, encode_controller
from emulator.controller.program_stream import ProgramStream
from emulator.host.clock import Clock
from emulator.host.core_wait import CoreWait
from emulator.planner.algorithm_choice import AlgorithmChoice
from emulator.planner.algorithms import parse_overrides
from emulator.planner.group_layout import Layouts
from emulator.planner.rank_program import NO_STEPS, PlaySettings
from emulator.planner.schedule import Collective
from emulator.topology.model import Domain
from emulator.trace.meaning.model import CommKind, Communication, RankTrace, Workload
from emulator.trace.meaning.workload import build_workload
from emulator.trace.synthetic.synthetic import FileCall, NodeStreams, WorkNode
from tests.support import traces as write
from tests.support.memory_transport.transport import MemoryNetwork
from tests.support.schedules import bytes_per_member
from tests.support.virtual_clock import VirtualClock

BEGIN_LEAD_NS = 1_000


class LateClock(Clock):
    """A clock whose alarms come late, by `least_ns` to `most_ns`, as a seeded generator decides."""

    def __init__(self, inner: VirtualClock, *, least_ns: int, most_ns: int, seed: int = 0) -> None:
        self._inner, self._least_ns, self._most_ns, self._random = inner, least_ns, most_ns, Random(seed)

    def now(self) -> int:
        return self._inner.now()

    def call_at(self, when: int, callback: Any) -> None:
        self._inner.call_at(max(when, self.now()) + self._random.randint(self._least_ns, self._most_ns), callback)


class Arrival(NamedTuple):
    """Payload that reached a rank's endpoint."""

    rank: int
    peer: int
    epoch: int
    instance: int
    size: int
    now: int


class _Spy:
    """EndpointEvents that writes down what arrives before the player hears of it."""

    def __init__(self, rank: int, player: EndpointEvents, *, instances: int, seen: list[Arrival]) -> None:
        self._rank, self._player, self._instances, self._seen = rank, player, instances, seen

    def arrived(self, peer: int, tag: int, size: int, now: int, count: int = 1) -> None:
        kind, _, serial = tags.split(tag)
        if kind != tags.CREDIT:
            self._seen += [Arrival(self._rank, peer, *divmod(serial, self._instances), size, now)] * count
        self._player.arrived(peer, tag, size, now, count)

    def acknowledged(self, peer: int, tag: int, now: int) -> None:
        self._player.acknowledged(peer, tag, now)

    def failed(self, peer: int, reason: str) -> None:
        self._player.failed(peer, reason)


@dataclass
class Played:
    """What came of it, in the order it was reported."""

    workload: Workload
    choice: AlgorithmChoice
    completions: list[Completion] = field(default_factory=list)
    summaries: dict[tuple[int, int], RankSummary] = field(default_factory=dict)  # by (iteration, rank)
    arrivals: list[Arrival] = field(default_factory=list)
    failures: list[tuple[int, str]] = field(default_factory=list)
    retired: list[tuple[int, int]] = field(default_factory=list)
    spans: dict[tuple[int, int], list[tuple[int, int]]] = field(default_factory=dict)  # by (iteration, rank)
    steps: list[RankSteps] = field(default_factory=list)

    def at(self, rank: int, node_id: int, iteration: int = 0) -> Completion:
        """The completion of a node."""
        found = [c for c in self.completions if (c.rank, c.node_id, c.iteration) == (rank, node_id, iteration)]
        assert len(found) == 1, found
        return found[0]

    def post(self, rank: int, node_id: int, iteration: int = 0) -> int:
        """When a node was posted, ns since its rank began."""
        return self.at(rank, node_id, iteration).post_ns - self.summaries[iteration, rank].start_ns

    def done(self, rank: int, node_id: int, iteration: int = 0) -> int:
        """When a node was done, ns since its rank began."""
        return self.at(rank, node_id, iteration).done_ns - self.summaries[iteration, rank].start_ns

    def length(self, rank: int, iteration: int = 0) -> int:
        """How long the rank's iteration took, ns."""
        summary = self.summaries[iteration, rank]
        return summary.end_ns - summary.start_ns

    def by_node(self) -> dict[tuple[int, int, int], tuple[int, int, int, int, int, bool]]:
        """Everything a completion says, by (iteration, rank, node), times since the rank began."""
        return {
            (c.iteration, c.rank, c.node_id): (
                c.post_ns - self.summaries[c.iteration, c.rank].start_ns,
                c.done_ns - self.summaries[c.iteration, c.rank].start_ns,
                c.arrival_ns and c.arrival_ns - self.summaries[c.iteration, c.rank].start_ns,
                c.bytes_sent,
                c.bytes_received,
                c.early,
            )
            for c in self.completions
        }

    def communications(self) -> dict[tuple[int, int], Communication]:
        """What was to be played, by (rank, node id)."""
        return {
            (program.rank, communication.node_id): communication
            for program in self.workload.programs
            for communication in program.communications.values()
        }


class _Stage:
    """Implements PlayObserver for all ranks, and feeds them."""

    def __init__(self, played: Played, clock: VirtualClock, feed_ns: int) -> None:
        self.played, self._clock, self._feed_ns = played, clock, feed_ns
        self.players: list[RankPlayer] = []
        self.streams: list[ProgramStream] = []
        self.windows: list[int] = []
        self.following: dict[int, int] = {}  # iteration → the one that a rank begins after it by itself
        self._held: dict[int, int] = {}

    def prepare(self) -> None:
        for rank, stream in enumerate(self.streams):
            stream.rewind()
            self._held[rank] = 0
            self._feed(rank)

    def is_prefetched(self) -> bool:
        return all(player.prefetched(window) for player, window in zip(self.players, self.windows, strict=True))

    def _feed(self, rank: int) -> None:
        for chunk in self.streams[rank].chunks():
            self._held[rank] += len(chunk)
            assert self._held[rank] <= self.windows[rank]
            self.players[rank].deliver(decode_controller(encode_controller(chunk)).value)

    def completed(self, completion: Completion) -> None:
        self.played.completions.append(completion)

    def retired(self, rank: int, nodes: int) -> None:
        self.played.retired.append((rank, nodes))
        self._held[rank] -= nodes
        self.streams[rank].grant(nodes)
        self._clock.call_at(self._clock.now() + self._feed_ns, partial(self._feed, rank))

    def iteration_done(self, iteration: int, summary: RankSummary) -> None:
        assert (iteration, summary.rank) not in self.played.summaries
        self.played.summaries[iteration, summary.rank] = summary
        if iteration in self.following:
            self.players[summary.rank].rewind()
            self.players[summary.rank].begin(self.following[iteration], self._clock.now())

    def computed(self, rank: int, iteration: int, spans: Sequence[tuple[int, int]]) -> None:
        self.played.spans.setdefault((iteration, rank), []).extend(spans)

    def failed(self, rank: int, peer: int, reason: str) -> None:
        self.played.failures.append((rank, reason))


def play(
    traces: Sequence[RankTrace],
    *,
    groups: Mapping[str, Sequence[int]] | None = None,
    workload: Workload | None = None,
    with_credits: bool = True,
    algorithms: Sequence[str] = (),
    iterations: Sequence[int] = (0,),
    window: int | None = None,
    retire_batch: int = 1,
    feed_ns: int = 0,
    lateness_ns: tuple[int, int] | None = None,
    head_start_ns: Mapping[int, int] | None = None,
    seed: int = 0,
    record_steps: int = NO_STEPS,
    is_continuous: bool = False,
    layouts: Layouts | None = None,
    domain: Domain | None = None,
    core_wait: CoreWait | None = None,
    **network: Any,
) -> Played:
    """Play the traces on the network in memory until all iterations are done and nothing is left to happen.

    Args:
        workload: what the traces mean, where the caller has settled that.
        algorithms: as --algorithm takes them, `all_reduce=ring`.
        window: nodes a rank holds at most; None = all.
        feed_ns: from a rank's report of room to the next chunk.
        lateness_ns: alarms of players come late by so much, least and most.
        head_start_ns: rank → how much later than the others it begins.
        record_steps: see PlaySettings.
        is_continuous: ranks begin all iterations but the first by themselves; takes no window.
        layouts: of groups.
        domain: the scale-up domain of all ranks; None: everything crosses the network.
        core_wait: of the process that plays all ranks.
        network: of MemoryNetwork.

    Raises:
        LocalProtocolError: the ranks wait for each other.
    """
    workload = workload or build_workload(traces, groups=groups)
    choice = AlgorithmChoice(workload, parse_overrides(algorithms), layouts)
    clock = VirtualClock()
    stage = _Stage(Played(workload, choice), clock, feed_ns)
    settings = PlaySettings(
        credits=with_credits,
        instances=max(1, workload.instances),
        algorithms=choice.names,
        groups=[group.ranks for group in workload.groups],
        layouts=choice.layouts,
    )
    memory = MemoryNetwork(clock, seed=seed, **network)
    endpoints: list[Endpoint] = [memory.attach(program.rank) for program in workload.programs]
    if domain is not None:
        shared = DomainGroup(ScaleUpDomain(domain, clock), {})
        endpoints = [DomainEndpoint(one, shared, message_bytes=memory.message_bytes) for one in endpoints]
    storage: dict[int, Endpoint] = {program.rank: memory.attach(program.rank) for program in workload.storage}
    everyone: list[Endpoint] = [*endpoints, *storage.values()]
    directory = {endpoint.rank: endpoint.address for endpoint in everyone}
    player_clock: Clock = clock
    if lateness_ns is not None:
        player_clock = LateClock(clock, least_ns=lateness_ns[0], most_ns=lateness_ns[1], seed=seed)
    make_player: Callable[..., RankPlayer] = RankPlayer
    if record_steps:
        keeper = StepKeeper(record_steps, send=lambda sent: stage.played.steps.extend(sent.blocks), waiting=lambda: 0)
        make_player = partial(RecordingPlayer, keeper=keeper)
    ids = {trace.rank: trace.node_id for trace in traces}
    for program, endpoint in zip(workload.programs, endpoints, strict=True):
        held = len(program) if window is None else window
        player = make_player(
            endpoint,
            player_clock,
            stage,
            settings=settings,
            nodes=len(program),
            is_resident=is_continuous,
            retire_batch=retire_batch,
            core_wait=core_wait,
        )
        stage.players.append(player)
        stage.windows.append(held)
        stage.streams.append(
            ProgramStream(program, ids[program.rank][program.order], window=held, algorithm_of=choice.index_of)
        )
        endpoint.connect(
            directory, _Spy(program.rank, player, instances=settings.instances, seen=stage.played.arrivals)
        )
    for program in workload.storage:
        endpoint, count = storage[program.rank], len(program)
        server = StorageEndpoint(endpoint, instances=settings.instances, nodes=count, failed=_refuse)
        ids_of_reads = np.zeros(count, np.uint64)
        stream = ProgramStream(program, ids_of_reads, window=count, algorithm_of=choice.index_of)
        assert server.is_ready == (not count)
        for chunk in stream.chunks():
            server.deliver(decode_controller(encode_controller(chunk)).value)
        assert server.is_ready
        spy = _Spy(program.rank, server, instances=settings.instances, seen=stage.played.arrivals)
        endpoint.connect(directory, spy)
    if is_continuous:
        stage.following = dict(pairwise(iterations))
    for iteration in iterations[:1] if is_continuous else iterations:
        _play_iteration(stage, clock, iteration, head_start_ns or {})
    clock.run()
    if record_steps:
        keeper.finish()
    return stage.played


def _refuse(endpoint: int, peer: int, reason: str) -> None:
    raise AssertionError(f"storage endpoint {endpoint} lost rank {peer}: {reason}")


def _play_iteration(stage: _Stage, clock: VirtualClock, iteration: int, head_start_ns: Mapping[int, int]) -> None:
    stage.prepare()
    clock.run_until(stage.is_prefetched)
    done = len(stage.played.summaries) + len(stage.players) * (1 + len(stage.following))
    begin = clock.now() + BEGIN_LEAD_NS
    for player in stage.players:
        player.begin(iteration, begin + head_start_ns.get(player.rank, 0))
    clock.run_until(lambda: len(stage.played.summaries) == done or bool(stage.played.failures))


def check_order(played: Played) -> None:
    """Every communication node completed once an iteration; those of a group one at a time, in canonical order."""
    meant = played.communications()
    iterations = {iteration for iteration, _ in played.summaries}
    once = Counter({(iteration, *key): 1 for iteration in iterations for key in meant})
    assert Counter((c.iteration, c.rank, c.node_id) for c in played.completions) == once
    last: dict[tuple[int, int, int], tuple[int, int]] = {}  # (iteration, rank, group) → (index, done)
    for one in sorted(played.completions, key=lambda c: meant[c.rank, c.node_id].index_in_group):
        communication = meant[one.rank, one.node_id]
        assert one.post_ns <= one.done_ns
        assert one.arrival_ns <= one.done_ns
        if communication.kind.is_collective:
            key = (one.iteration, one.rank, communication.group)
            index, done = last.get(key, (-1, 0))
            assert communication.index_in_group == index + 1
            assert one.post_ns >= done
            last[key] = (communication.index_in_group, one.done_ns)


def check_bytes(played: Played) -> None:
    """Every rank sent and received what the algorithm says."""
    for one in played.completions:
        communication = played.communications()[one.rank, one.node_id]
        ranks = played.workload.groups[communication.group].ranks
        if not communication.kind.is_collective:
            is_send = communication.kind in (CommKind.SEND, CommKind.STORAGE_WRITE)
            expected = (communication.size_bytes, 0) if is_send else (0, communication.size_bytes)
        else:
            expected = bytes_per_member(
                played.choice.name_of(communication),
                Collective(
                    kind=communication.kind,
                    members=len(ranks),
                    member=ranks.index(one.rank),
                    size_bytes=communication.size_bytes,
                    root=max(0, ranks.index(communication.root) if communication.root >= 0 else 0),
                    send_splits=communication.send_splits,
                    recv_splits=communication.recv_splits,
                    layout=played.choice.layouts.of(ranks),
                ),
            )
        assert (one.bytes_sent, one.bytes_received) == expected, communication
        assert (one.arrival_ns > 0) == (one.bytes_received > 0)


def traces_of(workload: NodeStreams) -> tuple[list[RankTrace], dict[str, Sequence[int]]]:
    """A generated workload as rank traces, and its groups as a group file has them."""
    traces = [write.rank_trace(rank, map(_written, workload.nodes(rank))) for rank in range(workload.ranks)]
    return traces, {str(number): ranks for number, ranks in workload.groups.items()}


def _written(item: WorkNode) -> write.Node:
    plain = {"name": item.name, "deps": item.deps}
    if item.file is not None:
        action = {FileCall.PREAD: "read", FileCall.PWRITE: "write"}.get(item.file.call, "other")
        return write.storage(item.node_id, action, item.file.size_bytes, **plain)
    if item.kind is None:
        return write.node(item.node_id, duration=item.duration_micros, **plain)
    if item.kind.is_collective:
        group = str(item.group) if item.group else None
        return write.coll(item.node_id, item.kind.label, item.size_bytes, group, **plain)
    make = write.send if item.kind.label == "send" else write.recv
    return make(item.node_id, item.peer, item.size_bytes, item.tag, **plain)


def everyone(ranks: int, nodes: Iterable[write.Node]) -> list[RankTrace]:
    """Ranks that all do the same."""
    listed = list(nodes)
    return [write.rank_trace(rank, listed) for rank in range(ranks)]
