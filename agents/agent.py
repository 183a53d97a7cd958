"""The life of an agent: connect to the controller, bind the ranks, play the iterations, report, disconnect.

One asyncio task reads the control stream; sockets and the timer call the players on the same thread. Every failure
ends in `_fail`, which reports it to the controller and stops this agent.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import platform
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agents.control_link import ControlLink
from agents.flow_history import FlowHistory
from agents.flows.playing import Flows
from agents.host.leased_addresses import leased
from agents.host.nics import nics_of
from agents.host.ports import Ports
from agents.play.player import RankPlayer
from agents.play.recording_player import RecordingPlayer
from agents.play.step_keeper import StepKeeper
from agents.play.storage import StorageEndpoint
from agents.reporter import Reporter
from agents.transports.base import Address, Endpoint, Port, Transport
from agents.transports.catalogue import make_transport
from emulator.control import conversation as control
from emulator.control.observations import FlowEvents
from emulator.errors import EmulatorError, RemoteProtocolError, RunAborted
from emulator.host.clock_id import clock_id
from emulator.host.core_wait import CoreTime, wait_fraction
from emulator.host.lateness import Lateness
from emulator.host.steal import CoreTicks, steal_fraction
from emulator.host.timer import TimerfdClock
from emulator.planner.msccl.loaded import load_algorithm
from emulator.planner.rank_program import Chunk
from emulator.wire.control.tls import TlsFiles

if TYPE_CHECKING:
    from emulator.telemetry.agent_metrics import AgentMetrics


PROGRESS_S = 0.25
ABORT_S = 0.5
RETIRE_SHARE = 4
"""A rank whose program is streamed returns credit whenever a quarter of its window is complete."""


class Agent:
    """One agent process; `run` returns when the run is over.

    Args:
        target: the controller, `unix:PATH` or `HOST:PORT`.
        token: shared secret that the controller expects.
        name: of this agent, in the topology and in messages.
        ports: interfaces under test; None: bind to addresses that the system already has.
        tls: certificates for the control stream; None: it is not encrypted.
        stays: wait for the controller, and for a run that has a place for this agent.
        report: called with a line of text when something begins or ends.
        metrics: updated with the progress of the run; None: nobody scrapes them.
    """

    def __init__(
        self,
        target: str,
        *,
        token: str,
        name: str,
        ports: Ports | None = None,
        tls: TlsFiles | None = None,
        stays: bool = False,
        report: Callable[[str], None] = lambda line: None,
        metrics: AgentMetrics | None = None,
    ) -> None:
        self._metrics = metrics
        self._token, self._name, self._ports, self._stays, self._report = token, name, ports, stays, report
        self._link = ControlLink(target, tls=tls, is_patient=stays)
        self._players: dict[int, RankPlayer] = {}
        self._storage: dict[int, StorageEndpoint] = {}
        self._endpoints: dict[int, Endpoint] = {}
        self._places: dict[int, control.RankPlace] = {}
        self._kept: dict[int, list[Chunk]] = {}
        self._flow_history = FlowHistory()
        self._keeper: StepKeeper | None = None
        self._iteration: int | None = None
        self._ready_owed = False
        self._unreachable: Sequence[int] = ()  # two ranks that cannot reach each other
        self._receiving: asyncio.Future[Any] | None = None
        self._is_finishing = False  # the job is over, and flows may still have to end
        self._lateness = Lateness()
        self._ticks_at_start: CoreTicks | None = None
        self._core_time_at_start: CoreTime | None = None

    async def run(self) -> None:
        """Play one run.

        Raises:
            RunAborted: the controller stopped the run, or the connection to it is lost.
            EmulatorError: this agent cannot continue; the controller has received the reason.
        """
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().set_exception_handler(self._on_loop_error)
        async with self._link:
            try:
                await self._take_part()
            except RunAborted:
                raise
            except EmulatorError as error:
                await self._send_abort(str(error), self._unreachable)
                raise

    async def _take_part(self) -> None:
        self._link.send(_hello(self._token, self._name, stays=self._stays))
        welcome: control.Welcome = await self._expect(control.Welcome)
        self._report(f"in run {welcome.run_id}")
        setup: control.Setup = await self._expect(control.Setup)
        for name, text in setup.settings.algorithm_files.items():
            load_algorithm(text, name)
        with TimerfdClock() as self._clock:
            async with (
                leased(self._ports, setup) as devices,
                make_transport(
                    setup.transport,
                    message_bytes=setup.message_bytes,
                    run=welcome.run_id,
                    seed=setup.seed,
                    options=setup.transport_options,
                    devices=devices,
                    domains=setup.domains,
                    clock=self._clock,
                ) as transport,
            ):
                self._flows = Flows(setup.flows, devices, self._fail)
                try:
                    await self._meet_peers()
                    await self._bind(setup, transport, devices)
                    directory: control.Directory = await self._expect(control.Directory)
                    self._make_players(setup, directory.places)
                    await self._play_and_count(transport)
                finally:
                    self._flows.close()

    async def _play_and_count(self, transport: Transport) -> None:
        try:
            async with _background(self._report_progress(transport)):
                await self._play()
                await self._finish_flows()
        except RunAborted:
            self._stop_and_count(transport)
            with contextlib.suppress(asyncio.TimeoutError):
                async with asyncio.timeout(ABORT_S):
                    await self._drained()
            raise
        except EmulatorError:
            self._stop_and_count(transport)
            raise
        self._count(transport)
        await self._drained()

    async def _meet_peers(self) -> None:
        """Before any traffic: the peers of the flows that this agent plays."""
        if self._flows:
            self._link.send(control.Progress(0, 0, False, self._flows.waiting_on))
            await self._while_connected(self._flows.prepare())

    async def _finish_flows(self) -> None:
        if self._flows:
            self._is_finishing = True
            await self._while_connected(self._flows.finish())

    async def _while_connected(self, work: Coroutine[Any, Any, None]) -> None:
        """Some work during which the controller has nothing to say, unless it ends the run."""
        working = asyncio.ensure_future(work)
        self._receiving = asyncio.ensure_future(self._link.receive())
        try:
            await asyncio.wait([working, self._receiving, self._failure], return_when=asyncio.FIRST_COMPLETED)
            if self._failure.done():
                self._failure.result()
            if self._receiving.done():
                value = self._receiving.result()
                raise RemoteProtocolError(f"the controller sent {type(value).__name__} out of turn")
            working.result()
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)

    async def _drained(self) -> None:
        """Wait until the controller has read everything."""
        if self._receiving is None or self._receiving.done():
            await self._link.drained()
        else:
            await self._link.written()
            await asyncio.wait([self._receiving])
            await asyncio.gather(self._receiving, return_exceptions=True)

    async def _bind(self, setup: control.Setup, transport: Transport, devices: Mapping[str, str]) -> None:
        transport.use_ports(
            {place.rank: Port(place.port, place.line_rate_bps, place.port_cap_bps) for place in setup.ranks}
        )
        for place in setup.ranks:
            self._endpoints[place.rank] = await transport.open(place.rank, place.host)
        bound = {rank: (end.address.host, end.address.port) for rank, end in self._endpoints.items()}
        self._link.send(control.Bound(bound, nics_of((place.host for place in setup.ranks), devices)))

    async def _expect(self, kind: type[Any]) -> Any:
        value = await self._next()
        while isinstance(value, control.Wait):
            self._report(f"waiting for the next run: {value.reason}")
            value = await self._link.receive()
        if not isinstance(value, kind):
            raise RemoteProtocolError(f"the controller sent {type(value).__name__} instead of {kind.__name__}")
        return value

    async def _next(self) -> Any:
        """The controller's next value, which may be on its way already."""
        if self._receiving is None:
            return await self._link.receive()
        value = await self._receiving
        self._receiving = None
        return value

    def _make_players(self, setup: control.Setup, places: control.Places) -> None:
        directory = {rank: Address(host, port) for rank, (host, port) in places.items()}
        self._reporter = Reporter(
            self._link.send,
            self._clock,
            fail=self._fail,
            streamed=frozenset(place.rank for place in setup.ranks if not place.is_resident),
            ranks=sum(not place.storage for place in setup.ranks),
        )
        make_player: Callable[..., RankPlayer] = RankPlayer
        if setup.settings.record_steps:
            self._keeper = StepKeeper(
                setup.settings.record_steps, send=self._link.send, waiting=lambda: self._link.waiting
            )
            make_player = partial(RecordingPlayer, keeper=self._keeper)
        for place in setup.ranks:
            self._places[place.rank] = place
            if place.storage:
                self._make_storage(setup, place, directory)
                continue
            player = make_player(
                self._endpoints[place.rank],
                self._clock,
                self._reporter,
                settings=setup.settings,
                nodes=place.nodes,
                retire_batch=max(1, place.window // RETIRE_SHARE),
                lateness=self._lateness,
            )
            self._players[place.rank] = player
            self._kept[place.rank] = []
            self._endpoints[place.rank].connect(directory, player)

    def _make_storage(self, setup: control.Setup, place: control.RankPlace, directory: Mapping[int, Address]) -> None:
        endpoint = self._endpoints[place.rank]
        storage = StorageEndpoint(
            endpoint, instances=setup.settings.instances, nodes=place.nodes, failed=self._reporter.failed
        )
        self._storage[place.rank] = storage
        endpoint.connect(directory, storage)

    async def _play(self) -> None:
        """Carry out the controller's messages until it sends Finish."""
        while True:
            self._receiving = asyncio.ensure_future(self._link.receive())
            await asyncio.wait([self._receiving, self._failure], return_when=asyncio.FIRST_COMPLETED)
            if self._failure.done():
                self._failure.result()
            value = await self._receiving
            if isinstance(value, control.Finish):
                return
            self._carry_out(value)

    def _carry_out(self, value: Any) -> None:
        if isinstance(value, Chunk) and value.rank in self._storage:
            self._storage[value.rank].deliver(value)
            self._send_ready_if_prefetched()
        elif isinstance(value, Chunk):
            if self._places[value.rank].is_resident:
                self._kept[value.rank].append(value)
            self._players[value.rank].deliver(value)
            self._send_ready_if_prefetched()
        elif isinstance(value, control.Prepare):
            self._prepare()
        elif isinstance(value, control.WantSteps) and self._keeper is not None:
            self._keeper.release(value.iteration, value.instances)
        elif isinstance(value, control.Start):
            self._ticks_at_start = self._ticks_at_start or CoreTicks.now()
            self._core_time_at_start = self._core_time_at_start or CoreTime.now()
            self._flows.start(value.at_ns)
            self._iteration = value.iteration
            for player in self._players.values():
                player.begin(value.iteration, value.at_ns)
            if not self._players:  # storage or flows alone: there is nothing to complete
                self._link.send(control.IterationDone(value.iteration, ()))
        else:
            raise RemoteProtocolError(f"the controller sent {type(value).__name__} during the run")

    def _prepare(self) -> None:
        self._report_flow_events()
        if self._keeper is not None:
            self._keeper.flush()
        self._ready_owed = True
        for rank, chunks in self._kept.items():
            for chunk in chunks:
                self._players[rank].deliver(chunk)
        gc.collect()
        gc.freeze()  # these objects live through the iteration: collections during it need not visit them
        self._send_ready_if_prefetched()

    def _send_ready_if_prefetched(self) -> None:
        is_stocked = all(one.is_ready for one in self._storage.values())
        if self._ready_owed and is_stocked and all(self._has_first_nodes(rank) for rank in self._players):
            self._ready_owed = False
            self._link.send(control.Ready())

    def _has_first_nodes(self, rank: int) -> bool:
        return self._players[rank].prefetched(self._places[rank].window)

    async def _report_progress(self, transport: Transport) -> None:
        earlier = None
        while True:
            progress = self._progress()
            if not progress.has_moved(earlier) and (silence := transport.silence()) is not None:
                silence_ns = time.monotonic_ns() - silence.since_ns
                progress = replace(progress, silence=(silence.rank, silence.peer), silence_ns=silence_ns)
            self._link.send(progress)
            earlier = progress
            await asyncio.sleep(PROGRESS_S)

    def _progress(self) -> control.Progress:
        progress = control.Progress(
            bytes_sent=sum(end.acknowledged_bytes for end in self._endpoints.values()),
            events=self._reporter.events + sum(player.completed_nodes for player in self._players.values()),
            computing=any(player.is_computing for player in self._players.values())
            or (self._is_finishing and self._flows.has_moved()),
            waiting_on=self._waiting_on(),
        )
        if self._metrics is not None:
            self._metrics.progressed(bytes_sent=progress.bytes_sent, nodes_done=progress.events)
        return progress

    def _waiting_on(self) -> str:
        if self._is_finishing:
            return self._flows.waiting_on
        return next(filter(None, (player.waiting_on() for player in self._players.values())), "")

    def _stop_and_count(self, transport: Transport) -> None:
        """Stop all traffic at once, then report what was counted so far."""
        self._flows.close()
        for end in self._endpoints.values():
            end.close()
        self._count(transport)

    def _report_flow_events(self) -> None:
        """Report what happened to flows in the iteration that all agents have completed, or that ended early."""
        if self._iteration is not None:
            flows = [flow for end in self._endpoints.values() for flow in end.eventful()]
            if news := self._flow_history.news(flows):
                self._link.send(FlowEvents(self._iteration, news))

    def _count(self, transport: Transport) -> None:
        """Report the counters of the run."""
        self._report_flow_events()
        if self._keeper is not None:
            self._keeper.finish()
        self._progress()  # the metrics must show the complete run
        flows = [flow for end in self._endpoints.values() for flow in end.counters()]
        lateness_ns = self._lateness.median_ns() or 0
        steal = steal_fraction(self._ticks_at_start, CoreTicks.now())
        wait = wait_fraction(self._core_time_at_start, CoreTime.now())
        for report in self._flows.reports():
            self._link.send(report)
        lost = self._keeper.lost if self._keeper is not None else 0
        self._link.send(control.Farewell(flows, _peak_rss_bytes(), lateness_ns, transport.facts(), steal, wait, lost))

    def _fail(self, reason: str, between: tuple[int, int] | None = None) -> None:
        if not self._failure.done():
            self._unreachable = between or ()
            self._failure.set_exception(EmulatorError(reason))

    async def _send_abort(self, reason: str, ranks: Sequence[int]) -> None:
        """Send the reason to the controller and wait until it closes the stream, which it does after reading it.

        Closing the stream first would drop what the controller has not read yet.
        """
        self._link.send(control.Abort(reason, ranks))
        with contextlib.suppress(asyncio.TimeoutError):
            async with asyncio.timeout(ABORT_S):
                if self._receiving is None:
                    await self._link.drained()
                else:
                    await self._link.written()
                    await asyncio.wait([self._receiving])
        if self._receiving is not None:
            self._receiving.cancel()
            await asyncio.gather(self._receiving, return_exceptions=True)

    def _on_loop_error(self, loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, EmulatorError):
            self._fail(str(error))
        else:
            self._fail(f"internal error in agent {self._name}: {error!r} ({context.get('message')})")


@contextlib.asynccontextmanager
async def _background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def _peak_rss_bytes() -> int:
    """Peak resident memory of this process; 0 if the kernel does not report it.

    Not from getrusage: its peak survives exec, so it would include the controller that started this process.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)


def _hello(token: str, name: str, *, stays: bool) -> control.Hello:
    return control.Hello(
        oldest_version=control.OLDEST_VERSION,
        newest_version=control.NEWEST_VERSION,
        token=token,
        agent=name,
        pid=os.getpid(),
        hostname=socket.gethostname(),
        software=version("charkha"),
        clock_ns=time.monotonic_ns(),
        clock_id=clock_id(),
        stays=stays,
        facts={
            "kernel": platform.release(),
            "machine": platform.machine(),
            "python": platform.python_version(),
            "cpus": str(len(os.sched_getaffinity(0))),
            "event_loop": "uvloop" if "uvloop" in sys.modules else "asyncio",
        },
    )
