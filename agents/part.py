"""What an agent plays of one job: its ends (ranks and storage endpoints), with a transport of their own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from agents.host.ports import nics_of
from agents.nic.port import Bucket
from agents.play import tags
from agents.play.chain import ChainKeeper
from agents.play.player import RankPlayer
from agents.play.recording_player import RecordingPlayer, StepKeeper
from agents.reporter import Reporter
from agents.transports.base import Endpoint, RankPort, Transport
from emulator.control import conversation as control
from emulator.control.observations import FlowCounters, FlowEvents, join_ends
from emulator.errors import LocalProtocolError, RemoteProtocolError
from emulator.host.clock import Clock
from emulator.host.core_wait import CoreTicks, CoreTime, CoreWait, steal_fraction, wait_fraction
from emulator.host.delays import NewestDelays
from emulator.planner.rank_program import Chunk, PlannedCommunication

RETIRE_SHARE = 4
"""A rank whose program is streamed returns credit whenever a quarter of its window is complete."""

MOST_AHEAD = 1_000_000
"""Iterations that a part without ranks reports at once."""

STRANGE = ("stranger", "length", "icrc")
"""Reasons of drops that only somebody else on the network, or damage, can cause."""

Fail: TypeAlias = Callable[[str, tuple[int, int]], None]
"""Called with a reason, and two ranks that cannot reach each other."""


class Outlet(Protocol):
    """Where a part reports to."""

    @property
    def waiting(self) -> int:
        """Values that are queued."""
        ...

    def send(self, value: control.AgentValue, job: int) -> None:
        """Queue a value about a job."""
        ...


class Part:
    """The ends of one job. The agent passes on what the controller says about the job.

    Args:
        number: of the job in its session.
        setup: which ends, and how.
        transport: of these ends alone, so that windows and rate caps are those of a run of this job.
        clock: wakes the players.
        outlet: takes what is reported.
        report_interval_ns: see control.Setup.
        fail: ends the agent.
        tidy: called when everything of the next iteration is in memory.
    """

    def __init__(
        self,
        number: int,
        setup: control.JobSetup,
        transport: Transport,
        *,
        clock: Clock,
        outlet: Outlet,
        report_interval_ns: int,
        fail: Fail,
        tidy: Callable[[], None] = lambda: None,
    ) -> None:
        self.number, self._setup, self._transport, self._clock = number, setup, transport, clock
        self._send: Callable[[control.AgentValue], None] = partial(outlet.send, job=number)
        self._tidy = tidy
        self._players: dict[int, RankPlayer] = {}
        self._storage: dict[int, StorageEndpoint] = {}
        self._endpoints: dict[int, Endpoint] = {}
        self._places = {place.rank: place for place in setup.ranks}
        self._flow_history = FlowHistory()
        self._keeper: StepKeeper | None = None
        self._iteration: int | None = None  # the newest that began, or that was completed without being told
        self._through = 0
        self._is_continuous = False
        self._done_by: dict[int, int] = {}  # rank → the newest iteration that it completed
        self._is_prepared = self._ready_owed = self._is_due = False  # due: nobody will ask for the next iteration
        self._unready: list[int] = []  # ranks that were not seen to hold their first nodes of the next iteration
        self._reported: control.Progress | None = None
        self._lateness = NewestDelays()
        self._ticks_at_start: CoreTicks | None = None
        self._core_time_at_start: CoreTime | None = None
        self._core_wait = CoreWait()
        self._reporter = Reporter(
            self._send,
            clock,
            interval_ns=report_interval_ns,
            fail=fail,
            streamed=frozenset(place.rank for place in setup.ranks if not place.is_resident),
            ranks=sum(not place.storage for place in setup.ranks),
            before_done=self._iteration_ends,
            rank_done=self._go_on,
            waiting=lambda: outlet.waiting,
        )
        if setup.settings.record_steps:
            self._keeper = StepKeeper(setup.settings.record_steps, send=self._send, waiting=lambda: outlet.waiting)
        self._chains: ChainKeeper | None = None
        if setup.settings.hosts:
            self._chains = ChainKeeper(
                setup.settings.hosts, setup.settings.groups, send=self._send, waiting=lambda: outlet.waiting
            )
        self.is_over = False

    @property
    def is_playing(self) -> bool:
        """A rank plays an iteration."""
        return any(player.is_playing for player in self._players.values())

    async def bind(self, devices: Mapping[str, str], limit_of: Callable[[str], Bucket | None] = lambda _: None) -> None:
        """Open all ends, and report where they listen.

        Args:
            devices: address → interface.
            limit_of: what the machine's owner limits an interface to, "" for one that is not known.

        Raises:
            HostError: an address is not on this host, or a limit is reached.
        """
        places = self._places.values()
        self._transport.use_ports(
            {place.rank: RankPort(*place.port, limit_of(devices.get(place.host, ""))) for place in places},
            self._core_wait,
        )
        self._transport.use_alternates({place.rank: place.alternate for place in places if place.alternate is not None})
        for place in places:
            self._endpoints[place.rank] = await self._transport.open(place.rank, place.host)
        bound = {rank: end.address for rank, end in self._endpoints.items()}
        hosts = [one for place in places for one in (place.host, place.alternate) if one is not None]
        self._send(control.Bound(bound, nics_of(hosts, devices)))

    def carry_out(self, value: Any) -> None:
        """Do what the controller says about the job.

        Raises:
            RemoteProtocolError: it makes no sense.
        """
        self._get_ready_if_due()
        self._check(value)
        match value:
            case Chunk():
                self._end(value.rank).deliver(value)
                self._send_ready_if_prefetched()
            case control.Directory(places):
                self._meet(places)
            case control.Prepare():
                self._prepare()
            case control.Start(iteration, at_ns, through):
                self._start(iteration, at_ns, through)
            case control.Continue(through):
                self._continue(through)
            case control.WantSteps(iteration, instances) if self._keeper is not None:
                self._keeper.release(iteration, instances)
            case control.Finish():
                self.count()
            case _:
                raise RemoteProtocolError(f"the controller sent {type(value).__name__} during the run")

    def _check(self, value: Any) -> None:
        """Whether it comes in its turn and about ends that are here."""
        groups = len(self._setup.settings.groups)
        kind, has_met = type(value).__name__, len(self._players) + len(self._storage) == len(self._places)
        match value:
            case Chunk() | control.Prepare() | control.Start() if not has_met:
                problem = f"{kind} before Directory"
            case control.Prepare() if self._is_prepared or any(self._is_owed(rank) for rank in self._players):
                problem = "Prepare before the iteration was over"
            case control.Start() if self._ready_owed or not self._is_prepared:
                problem = "Start before the ranks had their nodes"
            case Chunk(rank) if rank not in self._places:
                problem = f"nodes of rank {rank}, which does not play here"
            case control.Start(through=through) | control.Continue(through) if through > self._through + MOST_AHEAD:
                problem = f"{kind} through iteration {through}, too far ahead"
            case control.Continue(through) if through < self._through:
                problem = f"Continue through iteration {through}, although it may already go further"
            case Chunk() if any(one.group >= groups for one in value.communications.values() if one.kind.is_collective):
                problem = f"nodes of a group beyond the {groups} of the job"
            case _:
                return
        raise RemoteProtocolError(f"the controller sent {problem}")

    def _is_owed(self, rank: int) -> bool:
        """Whether the rank was told to play an iteration that it has not completed."""
        return self._iteration is not None and self._done_by.get(rank) != self._through

    def progress(self) -> control.Progress:
        """How far the part is, and, if nothing has moved since the last call, who owes it an acknowledgement."""
        progress = control.Progress(
            bytes_sent=sum(end.acknowledged_bytes for end in self._endpoints.values()),
            events=self._reporter.events + sum(player.completed_nodes for player in self._players.values()),
            computing=any(player.is_computing for player in self._players.values()),
            waiting_on=next(filter(None, (player.waiting_on() for player in self._players.values())), ""),
        )
        if not progress.has_moved(self._reported) and (silence := self._transport.silence()) is not None:
            silence_ns = time.monotonic_ns() - silence.since_ns
            progress = replace(progress, silence=(silence.rank, silence.peer), silence_ns=silence_ns)
        self._reported = progress
        return progress

    def strange_packets(self) -> int:
        """Packets that came from strangers, or damaged."""
        facts = self._transport.facts()
        found = (facts[f"dropped.{reason}"].value for reason in STRANGE if f"dropped.{reason}" in facts)
        return sum(one for one in found if isinstance(one, int))

    def stop(self) -> None:
        """Stop all traffic at once; idempotent."""
        for end in self._endpoints.values():
            end.close()
        self._core_wait.close()

    def count(self) -> None:
        """Report the counters of the run; once."""
        if self.is_over:
            return
        self.is_over = True
        self._reporter.flush()  # what was collected when the run was given up
        self._report_flow_events()
        if self._keeper is not None:
            self._keeper.finish()
        if self._chains is not None:
            self._chains.flush(is_over=True)
        self._send(
            control.Farewell(
                [flow for end in self._endpoints.values() for flow in end.counters()],
                _peak_rss_bytes(),
                self._lateness.median_ns() or 0,
                self._transport.facts(),
                steal_fraction(self._ticks_at_start, CoreTicks.now()),
                wait_fraction(self._core_time_at_start, CoreTime.now()),
                self._keeper.lost if self._keeper is not None else 0,
                self._transport.timeline(),
                self._transport.migrations(),
            )
        )

    # --- before the first iteration -----------------------------------------------------------------------------

    def _meet(self, places: control.Places) -> None:
        """Make the ends, which now know where all others listen."""
        for rank, endpoint in self._endpoints.items():
            if places.get(rank) != endpoint.address:
                raise RemoteProtocolError(f"the controller sent another place for rank {rank} than where it listens")
        for place in self._places.values():
            endpoint = self._endpoints[place.rank]
            endpoint.connect(places, self._storage_end(place) if place.storage else self._player(place))

    def _player(self, place: control.RankPlace) -> RankPlayer:
        make: Callable[..., RankPlayer] = RankPlayer
        if self._keeper is not None:
            make = partial(RecordingPlayer, keeper=self._keeper)
        player = self._players[place.rank] = make(
            self._endpoints[place.rank],
            self._clock,
            self._reporter,
            settings=self._setup.settings,
            nodes=place.nodes,
            is_resident=place.is_resident,
            retire_batch=max(1, place.window // RETIRE_SHARE),
            lateness=self._lateness,
            core_wait=self._core_wait,
            chains=self._chains,
        )
        return player

    def _storage_end(self, place: control.RankPlace) -> StorageEndpoint:
        storage = self._storage[place.rank] = StorageEndpoint(
            self._endpoints[place.rank],
            instances=self._setup.settings.instances,
            nodes=place.nodes,
            failed=self._reporter.failed,
        )
        return storage

    def _end(self, rank: int) -> RankPlayer | StorageEndpoint:
        return self._storage[rank] if rank in self._storage else self._players[rank]

    # --- iterations ---------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        self._ready_owed = True
        self._get_ready()
        self._send_ready_if_prefetched()

    def _get_ready(self) -> None:
        self._is_due = False
        self._report_flow_events()
        if self._keeper is not None:
            self._keeper.flush()
        if self._chains is not None:
            self._chains.flush()
        self._transport.tidy()
        self._is_prepared = True
        self._unready = list(self._players)
        for player in self._players.values():
            player.rewind()
        self._tidy()

    def _send_ready_if_prefetched(self) -> None:
        while self._unready and self._has_first_nodes(self._unready[-1]):
            self._unready.pop()
        if self._ready_owed and not self._unready and all(one.is_ready for one in self._storage.values()):
            self._ready_owed = False
            self._send(control.Ready())

    def _has_first_nodes(self, rank: int) -> bool:
        return self._players[rank].prefetched(self._places[rank].window)

    def _start(self, iteration: int, at_ns: int, through: int) -> None:
        self._reporter.start_ahead_ns = at_ns - time.monotonic_ns()
        self._ticks_at_start = self._ticks_at_start or CoreTicks.now()
        self._core_time_at_start = self._core_time_at_start or CoreTime.now()
        self._iteration, self._through = iteration, through
        self._is_continuous = through > iteration
        self._is_prepared = False
        self._done_by.clear()
        for player in self._players.values():
            player.begin(iteration, at_ns)
        self._complete_without_ranks(iteration, through)

    def _continue(self, through: int) -> None:
        """More iterations may begin; ranks that wait for them do."""
        last, self._through = self._through, through
        for rank in self._players:
            if self._done_by.get(rank) == last:
                self._go_on(rank, last)
        self._complete_without_ranks(last + 1, through)

    def _complete_without_ranks(self, first: int, last: int) -> None:
        """Storage or flows alone: there is nothing to complete."""
        for iteration in range(first, last + 1) if not self._players else ():
            self._send(control.IterationDone(iteration, ()))

    def _go_on(self, rank: int, iteration: int) -> None:
        """A rank has completed an iteration: it begins the next one unless the controller must say so."""
        self._done_by[rank] = iteration
        if iteration < self._through:
            self._players[rank].rewind()
            self._players[rank].begin(iteration + 1, self._clock.now())

    def _iteration_ends(self, iteration: int) -> None:
        """All ranks here have completed an iteration; the controller will not ask before the next one."""
        if self._is_continuous:
            self._iteration = iteration
            self._report_flow_events()
            if self._keeper is not None:
                self._keeper.flush()
            if self._chains is not None:
                self._chains.flush()
        elif self._setup.prepares_itself:
            self._is_due = True  # after what is sent now: the others may still play
            self._clock.call_at(self._clock.now(), self._get_ready_if_due)

    def _get_ready_if_due(self) -> None:
        if self._is_due and not self.is_over:
            self._get_ready()

    def _report_flow_events(self) -> None:
        """Report what happened to flows in the iteration that is complete, or that ended early."""
        if self._iteration is not None:
            flows = [flow for end in self._endpoints.values() for flow in end.eventful()]
            if news := self._flow_history.news(flows):
                self._send(FlowEvents(self._iteration, news))


class FlowHistory:
    """What happened to flows since the iteration before: remembers the counters of those with events, and no others."""

    def __init__(self) -> None:
        self._before: dict[tuple[int, int, int | None], FlowCounters] = {}

    def news(self, flows: Iterable[FlowCounters]) -> Sequence[FlowCounters]:
        """Events since the last call, one row per flow with any.

        Args:
            flows: counters since the run began, of either end or of both; flows without events may be missing.
        """
        news = []
        for flow in join_ends(flows):
            key = (flow.src, flow.dst, flow.qpn)
            since = flow.events_since(self._before.get(key))
            self._before[key] = flow
            if since.has_events:
                news.append(since)
        return news


def _peak_rss_bytes() -> int:
    """Peak resident memory of this process; 0 if the kernel does not report it.

    Not from getrusage: its peak survives exec, so it would include the controller that started this process.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)


class StorageEndpoint:
    """Implements EndpointEvents.

    Args:
        endpoint: carries the transfers.
        instances: operations of an iteration; see PlaySettings.
        nodes: reads that it must know of before it is ready.
        failed: called with (own number, peer, reason) if a rank cannot be reached.
    """

    def __init__(
        self, endpoint: Endpoint, *, instances: int, nodes: int, failed: Callable[[int, int, str], None]
    ) -> None:
        self._endpoint, self._instances, self._nodes, self._failed = endpoint, instances, nodes, failed
        self._reads: dict[int, PlannedCommunication] = {}  # by instance

    @property
    def is_ready(self) -> bool:
        """It knows of every read."""
        return len(self._reads) == self._nodes

    def deliver(self, chunk: Chunk) -> None:
        """Take further reads."""
        self._reads.update({one.instance: one for one in chunk.communications.values()})

    def arrived(self, peer: int, tag: int, size: int, now: int, count: int = 1) -> None:
        """See EndpointEvents. A request is answered at once; what was written needs nothing more."""
        kind, _, serial = tags.split(tag)
        if kind != tags.CREDIT:
            return
        read = self._reads.get(serial % self._instances)
        if read is None or read.peer != peer:
            raise LocalProtocolError(f"rank {peer} asks storage endpoint {self._endpoint.rank} for an unknown read")
        self._endpoint.post(peer, tags.pair_tag(serial), read.size_bytes)
        self._endpoint.flush()

    def acknowledged(self, peer: int, tag: int, now: int) -> None:
        """See EndpointEvents. The rank that reads knows when it is done."""

    def failed(self, peer: int, reason: str) -> None:
        """See EndpointEvents."""
        own = self._endpoint.rank
        self._failed(own, peer, f"transfers between storage endpoint {own} and rank {peer} failed: {reason}")
