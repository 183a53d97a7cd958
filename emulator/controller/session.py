"""One run: its agents, the iterations, and an orderly end whatever happens.

The decisions are in state.py, the time limits in watchdog.py; this module carries them out.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from emulator.control import conversation as control
from emulator.control.observations import Completions, ComputeSpans, FlowEvents, StepRecords
from emulator.controller import state
from emulator.controller.agent_clocks import AgentClocks
from emulator.controller.control_server import serve_control
from emulator.controller.control_service import AgentChannel
from emulator.controller.local_agents import LocalAgents
from emulator.controller.program_stream import ProgramStream
from emulator.controller.run_plan import AgentFacts, RunPlan, SessionOutcome
from emulator.controller.session_observer import SessionObserver
from emulator.controller.watchdog import JOIN_TIMEOUT_S, Watchdog, check_periodically
from emulator.errors import EmulatorError, RunAborted
from emulator.host.core_wait import CoreTime
from emulator.host.priority import below_agents
from emulator.host.scratch import scratch_folder
from emulator.planner.network.port_shares import NO_SHARE
from emulator.planner.rank_program import WORST_STEPS, PlaySettings

START_LEAD_NS = 5_000_000
"""Start orders name a moment this far ahead, so that all agents have read them by then."""
DEATH_NEWS_S = 0.1
"""An agent that dies makes others give up: its death is waited for this long, because it is the better reason."""
FAREWELL_S = 0.5
"""How long a run that ends early waits for the counters of its agents, which stop sending at once."""


class RunSession:
    """Runs a RunPlan once. Implements AgentListener."""

    def __init__(self, plan: RunPlan, observer: SessionObserver) -> None:
        self._plan, self._observer = plan, observer
        self._state = state.RunState(plan.ranks_of, plan.iterations)
        self._channels: dict[str, AgentChannel] = {}
        self._streams = {name: list(self._make_streams(ranks)) for name, ranks in plan.ranks_of.items()}
        self._stream_of_rank = {s.rank: s for streams in self._streams.values() for s in streams}
        self._clocks = AgentClocks()
        self._watchdog = Watchdog(
            plan.ranks_of,
            standstill_s=plan.silence_timeout_s,
            join_timeout_s=plan.join_timeout_s or JOIN_TIMEOUT_S,
            core_time_of=self._core_time_of,
        )
        self._is_over = False
        self._gave_up: set[str] = set()
        self._here: set[str] = set()  # agents whose counters may still come
        self._nobody_here = asyncio.Event()
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
            server = serve_control(self, target, token=token, run_id=self._plan.run_id, listening=self._plan.listening)
            async with server, self._start_agents(target, token, folder):
                self._observer.waiting_for(self._state.missing_agents)
                async with asyncio.TaskGroup() as group:
                    watching = group.create_task(check_periodically(self._check, failed=self._watchdog_failed))
                    try:
                        with below_agents():
                            await asyncio.wait([self._over])
                    finally:
                        watching.cancel()
                        await self._dismiss()
                        self.outcome.clocks.update(self._clocks.estimates())
                self._over.result()  # raises what ended the run; inside the group it would be wrapped
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
        self._here.add(name)
        self._watchdog.heard(name)
        self.outcome.agents[name] = AgentFacts(channel.hello)
        self._clocks.add(name, channel.hello.clock_id, channel.send)
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
        self._watchdog.heard(name)
        match value:
            case Completions():
                self._observer.completed(value.earlier(self._taken_off(name, value.iteration)))
                self._ask_for_steps()
            case ComputeSpans():
                self._observer.computed(value.earlier(self._taken_off(name, value.iteration)))
            case StepRecords():
                self._observer.steps_recorded(value.earlier(self._taken_off(name, value.iteration)))
            case FlowEvents():
                self._observer.flow_events(value)
            case control.ClockReply():
                self._clocks.note(name, value)
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
            case control.FlowReport(number):
                self.outcome.flow_reports[number] = value.earlier(self._clocks.ahead_ns(name))
            case control.Farewell():
                self._note_farewell(name, value)
            case control.Abort(reason, ranks):
                self._gave_up.add(name)
                self._leaves(name)
                self._handle_later(state.AgentAborted(name, reason, ranks))

    def lost(self, channel: AgentChannel, reason: str) -> None:
        """See AgentListener."""
        self._leaves(channel.hello.agent)
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
                    self._after_clocks(partial(self._start_iteration, iteration))
                case state.FinishRun():
                    self._after_clocks(partial(self._send_all, control.Finish()))
                case state.EndRun(error):
                    self._end(error)

    def _start_iteration(self, iteration: int) -> None:
        self._observer.iteration_started(iteration)
        at_ns = time.monotonic_ns() + START_LEAD_NS
        for name, channel in self._channels.items():
            ahead_ns = self._clocks.ahead_ns(name)
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
            algorithm_files=plan.choice.files,
            layouts=plan.choice.layouts,
            groups=[group.ranks if own.intersection(group.ranks) else () for group in plan.workload.groups],
            record_steps=plan.record_steps,
        )
        places = [
            control.RankPlace(
                rank,
                plan.hosts[rank],
                len(plan.program_of(rank)),
                plan.workload.window,
                plan.interfaces[rank] if plan.interfaces else "",
                *plan.port_shares.get(rank, NO_SHARE),
                plan.is_storage(rank),
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
            plan.flows.get(agent, ()),
            plan.domains.get(agent, ()),
        )

    def _make_streams(self, ranks: Sequence[int]) -> Iterator[ProgramStream]:
        for rank in ranks:
            program, window = self._plan.program_of(rank), self._plan.workload.window
            yield ProgramStream(
                program,
                self._plan.node_ids_of(rank),
                window=max(window, len(program)) if self._plan.is_storage(rank) else window,
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

    def _ask_for_steps(self) -> None:
        if self._plan.record_steps == WORST_STEPS:
            for iteration, instances in self._observer.wanted_steps().items():
                self._send_all(control.WantSteps(iteration, instances))

    def _note_progress(self, agent: str, progress: control.Progress) -> None:
        self._watchdog.note(agent, progress)
        self._observer.moved(sum(one.bytes_sent for one in self._watchdog.progress.values()))
        self._observer.agent_moved(
            agent, bytes_sent=progress.bytes_sent, nodes_done=progress.events, waiting_on=progress.waiting_on
        )

    def _note_farewell(self, agent: str, farewell: control.Farewell) -> None:
        facts = self.outcome.agents[agent]
        facts.transport, facts.peak_rss_bytes = farewell.transport, farewell.peak_rss_bytes
        facts.post_lateness_median_ns = farewell.post_lateness_median_ns
        facts.steal_fraction = farewell.steal_fraction
        facts.core_wait_fraction = farewell.core_wait_fraction
        self.outcome.flows.extend(farewell.flows)
        self.outcome.steps_lost += farewell.steps_lost
        self.outcome.counted.add(agent)
        self._leaves(agent)
        if self._state.phase is state.Phase.FINISHING:  # else the agent gives up, and says why after its counters
            self._handle(state.AgentSaidFarewell(agent))

    def _handle_later(self, stimulus: state.Stimulus) -> None:
        """An agent that dies makes others give up: leave its death a moment to be known, it is the better reason."""
        asyncio.get_running_loop().call_later(DEATH_NEWS_S, self._handle, stimulus)

    def _exited(self, agent: str, code: int, reason: str) -> None:
        """Its process ended. What it said before that, which may be unread yet, explains more than a clean exit."""
        self._leaves(agent)
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

    async def _dismiss(self) -> None:
        """Tell agents that are still here to stop, and why; take their counters."""
        error = self._over.exception() if self._over.done() and not self._over.cancelled() else None
        if error is not None:
            self._send_all(control.Abort(str(error)))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FAREWELL_S):
                    while self._here:
                        self._nobody_here.clear()
                        await self._nobody_here.wait()
        for channel in self._channels.values():
            channel.close()

    def _leaves(self, agent: str) -> None:
        """Nothing more is expected of an agent."""
        self._here.discard(agent)
        if not self._here:
            self._nobody_here.set()

    def _after_clocks(self, then: Any) -> None:
        self._clocks.settle_then(lambda: None if self._is_over else then())

    def _taken_off(self, agent: str, iteration: int) -> int:
        return self.outcome.taken_off_ns.get(agent, {}).get(iteration, 0)

    # --- time limits --------------------------------------------------------------------------------------------

    def _check(self) -> None:
        """End the run if agents do not come, fall silent, or nothing moves."""
        phase = self._state.phase
        if phase is state.Phase.PLAYING:
            self._clocks.look()
        error = self._watchdog.overdue(
            missing=self._state.missing_agents,
            is_gathering=phase is state.Phase.GATHERING,
            is_under_way=self._state.is_under_way,
        )
        if error is not None:
            self._end(error)

    def _core_time_of(self, agent: str) -> CoreTime | None:
        if agent not in self._plan.local_agents:
            return None
        return CoreTime.now(Path(f"/proc/{self._channels[agent].hello.pid}/schedstat"))

    def _watchdog_failed(self, error: BaseException) -> None:
        self._end(RunAborted(f"the time limits cannot be watched any more ({type(error).__name__}: {error})"))

    def _start_agents(self, target: str, token: str, folder: Path) -> LocalAgents:
        return LocalAgents(
            self._plan.local_agents,
            target=target,
            token=token,
            log_folder=folder,
            on_exit=self._exited,
            exec_prefixes=self._plan.exec_prefixes,
        )
