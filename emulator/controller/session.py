"""One run: a control server, its agents, the iterations, and an orderly end whatever happens.

The decisions are in state.py; here is what it takes to carry them out.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import grpc

from emulator.control import conversation as control
from emulator.control.observations import Completions, ComputeSpans, FlowCounters, RankSummary
from emulator.control.parameter import Parameter
from emulator.controller import state
from emulator.controller.clock import ClockEstimate, ClockWatch, Exchange
from emulator.controller.grpc_output import print_no_tracebacks
from emulator.controller.launch import LocalAgents
from emulator.controller.listening import Listening
from emulator.controller.service import SERVER_OPTIONS, AgentChannel, ControlService
from emulator.controller.stream import ProgramStream
from emulator.errors import AgentLost, EmulatorError, HostError, RunAborted, RunTimeout
from emulator.host.clock_id import clock_id
from emulator.host.nic import NicFacts
from emulator.host.priority import behind_agents
from emulator.host.scratch import scratch_folder
from emulator.planner.choice import AlgorithmChoice
from emulator.planner.network.capping import PortShare
from emulator.planner.program import PlaySettings
from emulator.trace.model import IdArray, Workload
from emulator.units import NS_PER_S

logger = logging.getLogger(__name__)

START_LEAD_NS = 5_000_000
"""Start orders name a moment this far ahead, so that all agents have read them by then."""
JOIN_TIMEOUT_S = 60.0
FIRST_BURST, NEXT_BURST = 48, 16
"""Exchanges with an agent of another clock, when it joins and around each iteration."""
SOCKET_PATH_BYTES = 107
DEATH_NEWS_S = 0.1
SILENT_AGENT_S = 10.0
"""Agents speak four times a second; one that says nothing for this long is lost."""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """All that a run needs.

    Attributes:
        node_ids: per rank, uint64, shape (n,): node ids by position of its program.
        hosts: per rank, the numeric IP address it plays at.
        ranks_of: agent name → ranks it plays.
        local: agents that are started on this host; all others dial in.
        interfaces: per rank, the name of its host's interface; empty where nobody needs it.
        port_shares: per rank, what its agent has to know of its port; empty where nothing is paced.
        networks: agent → prefixes of ranks elsewhere on its own link.
        listening: where agents dial in besides the local ones.
        join_timeout_s: agents that are not there by then end the run.
        prefixes: local agent → a command that becomes it, put before it.
        iterations: numbers in order, warm-up negative.
        silence_timeout_s: nothing moving anywhere for this long ends the run.
    """

    run_id: str
    workload: Workload
    node_ids: Sequence[IdArray]
    choice: AlgorithmChoice
    hosts: Sequence[str]
    ranks_of: Mapping[str, Sequence[int]]
    iterations: Sequence[int]
    transport: str
    message_bytes: int
    credits: bool
    seed: int
    silence_timeout_s: float
    transport_options: Mapping[str, str] = field(default_factory=dict)
    local: frozenset[str] | None = None
    interfaces: Sequence[str] = ()
    port_shares: Mapping[int, PortShare] = field(default_factory=dict)
    networks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    listening: Listening | None = None
    join_timeout_s: float | None = None
    prefixes: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def local_agents(self) -> list[str]:
        """Agents to start on this host, in order."""
        return [name for name in self.ranks_of if self.local is None or name in self.local]


@dataclass(slots=True)
class AgentFacts:
    """What an agent said about itself, first and last; `nics` carry its ranks' addresses."""

    hello: control.Hello
    nics: Sequence[NicFacts] = ()
    transport: Mapping[str, Parameter] = field(default_factory=dict)
    peak_rss_bytes: int = 0
    post_lateness_median_ns: int = 0
    steal_fraction: float | None = None


@dataclass(slots=True)
class SessionOutcome:
    """What is known when the run is over besides the completions."""

    agents: dict[str, AgentFacts] = field(default_factory=dict)
    flows: list[FlowCounters] = field(default_factory=list)
    clocks: dict[str, ClockEstimate] = field(default_factory=dict)
    """Of agents that have another clock than this host."""
    taken_off_ns: dict[str, dict[int, int]] = field(default_factory=dict)
    """Agent → iteration → what was taken off its stamps when they came, as far as its clock was known then."""


class SessionObserver(Protocol):
    """Who follows a run; called on the session's thread."""

    def waiting_for(self, agents: Sequence[str]) -> None:
        """These agents have not joined yet."""
        ...

    def iteration_started(self, iteration: int) -> None:
        """All agents were told to begin."""
        ...

    def completed(self, completions: Completions) -> None:
        """Communication nodes are done."""
        ...

    def computed(self, spans: ComputeSpans) -> None:
        """Devices were busy."""
        ...

    def iteration_done(self, iteration: int, summaries: Sequence[RankSummary]) -> None:
        """One agent's ranks completed the iteration."""
        ...

    def moved(self, bytes_sent: int) -> None:
        """Payload all agents have sent since the run began, in bytes."""
        ...

    def agent_moved(self, agent: str, *, bytes_sent: int, nodes_done: int, waiting_on: str) -> None:
        """An agent gave a sign of life: its payload and completed nodes since the run began."""
        ...


class RunSession:
    """Runs a RunPlan once. Implements AgentListener."""

    def __init__(self, plan: RunPlan, observer: SessionObserver) -> None:
        self._plan, self._observer = plan, observer
        self._state = state.RunState(plan.ranks_of, plan.iterations)
        self._channels: dict[str, AgentChannel] = {}
        self._streams = {name: list(self._make_streams(ranks)) for name, ranks in plan.ranks_of.items()}
        self._stream_of_rank = {s.rank: s for streams in self._streams.values() for s in streams}
        self._progress: dict[str, control.Progress] = {}
        self._clocks: dict[str, ClockWatch] = {}
        self._clock_id = clock_id()
        self._heard_at: dict[str, float] = {}
        self._moved_at = time.monotonic()
        self._is_over = False
        self._gave_up: set[str] = set()
        self.outcome = SessionOutcome()

    async def play(self) -> SessionOutcome:
        """Start agents on this host, play all iterations, stop the agents.

        Raises:
            RunError: an agent was lost, nothing moved for too long, or somebody aborted; agents are stopped.
            HostError: an agent cannot be started, or its host lacks something.
        """
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        token = secrets.token_urlsafe(24)
        with scratch_folder() as folder:
            target = f"unix:{folder}/control.sock"
            async with self._serve(target, token), self._start_agents(target, token, folder):
                self._observer.waiting_for(self._state.missing_agents)
                watch = asyncio.create_task(self._watch())
                try:
                    with behind_agents():
                        await self._over
                finally:
                    watch.cancel()
                    self._dismiss()
                    self._settle_clocks()
        return self.outcome

    def abort(self, error: RunAborted) -> None:
        """Stop the run: agents stop sending at once, `play` raises `error`."""
        self._end(error)

    # --- AgentListener ------------------------------------------------------------------------------------------

    def admit(self, channel: AgentChannel) -> str | None:
        """See AgentListener."""
        name = channel.hello.agent
        if self._is_over:
            return "the run is over"
        if name not in self._plan.ranks_of:
            return f"agent {name!r} is not part of this run"
        if name in self._channels:
            return f"an agent {name!r} is already here"
        self._channels[name] = channel
        self._heard_at[name] = time.monotonic()
        self.outcome.agents[name] = AgentFacts(channel.hello)
        if not self._clock_id or channel.hello.clock_id != self._clock_id:
            self._clocks[name] = ClockWatch(lambda: channel.send(control.ClockQuery(0)))
            self._clocks[name].burst(FIRST_BURST)
        self._handle(state.AgentJoined(name))
        if self._state.phase is state.Phase.GATHERING:
            self._observer.waiting_for(self._state.missing_agents)
        return None

    def heard(self, channel: AgentChannel, value: Any) -> None:
        """See AgentListener."""
        try:
            self._take(channel.hello.agent, value)
        except EmulatorError as error:  # a result cannot be written, an agent reports nonsense: the run is over
            self._end(error)

    def _take(self, name: str, value: Any) -> None:
        self._heard_at[name] = time.monotonic()
        match value:
            case Completions():
                self._observer.completed(value.earlier(self._taken_off(name, value.iteration)))
            case ComputeSpans():
                self._observer.computed(value.earlier(self._taken_off(name, value.iteration)))
            case control.ClockReply(sent, received, replied):
                self._note_clock(name, Exchange(sent, received, replied, time.monotonic_ns()))
            case control.Credit(rank, nodes):
                self._stream_of_rank[rank].grant(nodes)
                self._pump(name, self._stream_of_rank[rank])
            case control.Progress():
                self._note_progress(name, value)
            case control.Bound(places, nics):
                self.outcome.agents[name].nics = nics
                self._handle(state.RanksBound(name, places))
            case control.Ready():
                self._handle(state.AgentReady(name))
            case control.IterationDone(iteration, ranks):
                off = self._taken_off(name, iteration)
                self._observer.iteration_done(iteration, [summary.earlier(off) for summary in ranks])
                self._handle(state.AgentFinished(name, iteration))
            case control.Farewell():
                self._note_farewell(name, value)
            case control.Abort(reason, ranks):
                self._gave_up.add(name)
                self._handle_later(state.AgentAborted(name, reason, ranks))

    def lost(self, channel: AgentChannel, reason: str) -> None:
        """See AgentListener."""
        self._handle_later(state.AgentVanished(channel.hello.agent, reason))

    # --- carrying out -------------------------------------------------------------------------------------------

    def _handle(self, stimulus: state.Stimulus) -> None:
        if self._is_over:
            return  # aborted: what agents still say starts nothing
        for instruction in self._state.handle(stimulus):
            match instruction:
                case state.SendSetup(agent):
                    self._channels[agent].send(self._setup(agent))
                case state.SendDirectory(places):
                    self._send_all(control.Directory(places))
                case state.PrepareIteration(iteration):
                    self._prepare(iteration)
                case state.StartIteration(iteration):
                    self._with_clocks(partial(self._start_iteration, iteration))
                case state.FinishRun():
                    self._with_clocks(partial(self._send_all, control.Finish()))
                case state.EndRun(error):
                    self._end(error)

    def _start_iteration(self, iteration: int) -> None:
        self._observer.iteration_started(iteration)
        at_ns = time.monotonic_ns() + START_LEAD_NS
        for name, channel in self._channels.items():
            ahead_ns = self._clocks[name].offset_ns if name in self._clocks else 0
            self.outcome.taken_off_ns.setdefault(name, {})[iteration] = ahead_ns
            channel.send(control.Start(iteration, at_ns + ahead_ns))

    def _send_all(self, value: control.ControllerValue) -> None:
        for channel in self._channels.values():
            channel.send(value)

    def _setup(self, agent: str) -> control.Setup:
        plan = self._plan
        own = set(plan.ranks_of[agent])
        settings = PlaySettings(
            credits=plan.credits,
            instances=max(1, plan.workload.instances),
            algorithms=plan.choice.names,
            groups=[group.ranks if own.intersection(group.ranks) else () for group in plan.workload.groups],
        )
        places = [
            control.RankPlace(
                rank,
                plan.hosts[rank],
                len(plan.workload.programs[rank]),
                plan.workload.window,
                plan.interfaces[rank] if plan.interfaces else "",
                *plan.port_shares.get(rank, ()),
            )
            for rank in plan.ranks_of[agent]
        ]
        return control.Setup(
            places,
            plan.transport,
            plan.message_bytes,
            plan.seed,
            settings,
            plan.transport_options,
            plan.networks.get(agent, ()),
        )

    def _make_streams(self, ranks: Sequence[int]) -> Iterator[ProgramStream]:
        for rank in ranks:
            yield ProgramStream(
                self._plan.workload.programs[rank],
                self._plan.node_ids[rank],
                window=self._plan.workload.window,
                algorithm_of=self._plan.choice.index_of,
            )

    def _prepare(self, iteration: int) -> None:
        self._send_all(control.Prepare(iteration))
        first = iteration == self._plan.iterations[0]
        for agent, streams in self._streams.items():
            for stream in streams:
                if first or not stream.is_resident:
                    stream.rewind()
                    self._pump(agent, stream)

    def _pump(self, agent: str, stream: ProgramStream) -> None:
        for chunk in stream.chunks():
            self._channels[agent].send(chunk)

    def _note_progress(self, agent: str, progress: control.Progress) -> None:
        if progress.has_moved(self._progress.get(agent)):
            self._moved_at = time.monotonic()
        self._progress[agent] = progress
        self._observer.moved(sum(said.bytes_sent for said in self._progress.values()))
        self._observer.agent_moved(
            agent, bytes_sent=progress.bytes_sent, nodes_done=progress.events, waiting_on=progress.waiting_on
        )

    def _note_farewell(self, agent: str, farewell: control.Farewell) -> None:
        facts = self.outcome.agents[agent]
        facts.transport, facts.peak_rss_bytes = farewell.transport, farewell.peak_rss_bytes
        facts.post_lateness_median_ns = farewell.post_lateness_median_ns
        facts.steal_fraction = farewell.steal_fraction
        self.outcome.flows.extend(farewell.flows)
        self._handle(state.AgentSaidFarewell(agent))

    def _handle_later(self, stimulus: state.Stimulus) -> None:
        """An agent that dies makes others give up: leave its death a moment to be known, it is the better reason."""
        asyncio.get_running_loop().call_later(DEATH_NEWS_S, self._handle, stimulus)

    def _exited(self, agent: str, code: int, reason: str) -> None:
        """Its process ended. What it said before that, which may be unread yet, explains more than a clean exit."""
        is_heard_out = code == 0 and agent in self._channels
        if agent not in self._gave_up and not is_heard_out:
            self._handle(state.AgentVanished(agent, reason))

    def _end(self, error: EmulatorError | None) -> None:
        if not self._is_over:
            self._is_over = True
            if error is None:
                self._over.set_result(None)
            else:
                self._over.set_exception(error)

    def _dismiss(self) -> None:
        """Tell agents that are still here to stop, and why."""
        error = self._over.exception() if self._over.done() and not self._over.cancelled() else None
        for channel in self._channels.values():
            if error is not None:
                channel.send(control.Abort(str(error)))
            channel.close()

    # --- clocks -------------------------------------------------------------------------------------------------

    def _with_clocks(self, then: Callable[[], None]) -> None:
        """Look at the clocks of other hosts, now that nothing else moves, then go on."""
        waiting = set(self._clocks)

        def known(name: str) -> None:
            waiting.discard(name)
            if not waiting and not self._is_over:
                then()

        for name, watch in self._clocks.items():
            watch.burst(NEXT_BURST, partial(known, name))
        if not self._clocks:
            then()

    def _taken_off(self, agent: str, iteration: int) -> int:
        return self.outcome.taken_off_ns.get(agent, {}).get(iteration, 0)

    def _note_clock(self, agent: str, exchange: Exchange) -> None:
        if agent in self._clocks:
            self._clocks[agent].heard(exchange)

    def _ask_clocks(self) -> None:
        """Also in the midst of traffic: slow answers still show where a clock did not drift evenly."""
        if self._state.phase is not state.Phase.PLAYING:
            return
        for watch in self._clocks.values():
            watch.look()

    def _settle_clocks(self) -> None:
        for name, watch in self._clocks.items():
            estimate = watch.estimate()
            if estimate is not None:
                self.outcome.clocks[name] = estimate

    # --- watching -----------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """End the run when agents do not come, fall silent, or nothing moves."""
        began = time.monotonic()
        while True:
            await asyncio.sleep(0.25)
            now = time.monotonic()
            if self._state.phase is state.Phase.GATHERING:
                patience_s = self._plan.join_timeout_s or JOIN_TIMEOUT_S
                if now - began > patience_s:
                    waiting = ", ".join(self._state.missing_agents)
                    self._end(RunTimeout(f"agents to join: {waiting}", seconds=patience_s))
                self._moved_at = now
                continue
            self._ask_clocks()
            self._check_silence(now)
            if now - self._moved_at > self._plan.silence_timeout_s:
                self._end(self._standstill())

    def _check_silence(self, now: float) -> None:
        for agent, heard_at in self._heard_at.items():
            if now - heard_at > SILENT_AGENT_S and self._state.is_under_way:
                reason = f"it has said nothing for {SILENT_AGENT_S:g} s"
                self._end(AgentLost(agent, ranks=self._plan.ranks_of[agent], reason=reason))

    def _standstill(self) -> RunTimeout:
        """What all wait for, and the two ranks between which it has been silent for longest."""
        said = [progress.waiting_on for progress in self._progress.values() if progress.waiting_on]
        waiting_on = "; ".join(said) or f"agents {', '.join(self._state.missing_agents)}"
        silent = max(self._progress.values(), key=lambda progress: progress.silence_ns, default=None)
        seconds = self._plan.silence_timeout_s
        if silent is None or len(silent.silence) != 2:
            return RunTimeout(waiting_on, seconds=seconds)
        rank, peer = silent.silence
        return RunTimeout(waiting_on, seconds=seconds, between=(rank, peer), silent_s=silent.silence_ns / NS_PER_S)

    # --- server and processes -----------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _serve(self, target: str, token: str) -> Any:
        if len(target.removeprefix("unix:").encode()) > SOCKET_PATH_BYTES:
            raise HostError(f"{target} is too long for the name of a socket: set TMPDIR to a shorter path")
        print_no_tracebacks()
        server = grpc.aio.server(options=SERVER_OPTIONS)
        listening = self._plan.listening
        tokens = [token] if listening is None else [token, listening.token or ""]  # none: only at a Unix socket
        service = ControlService(self, tokens=tokens, run_id=self._plan.run_id)
        server.add_generic_rpc_handlers((service.handler(),))
        server.add_insecure_port(target)
        if listening is not None:
            listening.add_to(server)
        await server.start()
        try:
            yield server
        finally:
            service.release()
            await server.stop(grace=0.3)

    def _start_agents(self, target: str, token: str, folder: Path) -> LocalAgents:
        return LocalAgents(
            self._plan.local_agents,
            target=target,
            token=token,
            log_folder=folder,
            on_exit=self._exited,
            prefixes=self._plan.prefixes,
        )
