"""The loop of one job: prepare an iteration, play it, next one; and what its agents report on the way.

The decisions are in state.py; this module carries them out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import Any, Protocol

from emulator.control import conversation as control
from emulator.control.observations import Completions, ComputeSpans, FlowEvents, StepRecords
from emulator.controller import state
from emulator.controller.ledger import Ledger, PossibleTimes, span_of
from emulator.controller.program_stream import ProgramStream
from emulator.controller.recording.session_observer import SessionObserver
from emulator.controller.run_plan import AgentFacts, RunOutcome, RunPlan
from emulator.controller.watchdog import Standstill
from emulator.errors import EmulatorError, RemoteProtocolError
from emulator.planner.network.port_shares import NO_SHARE
from emulator.planner.rank_program import WORST_STEPS, PlaySettings
from emulator.transports.registry import transport_named

START_LEAD_NS = 5_000_000
"""Start orders name a moment this far ahead, so that all agents have read them by then."""
OPEN_ENDED_AHEAD = 4
"""Iterations that agents know ahead if they follow each other and nobody knows yet which is the last."""


class SessionAgents(Protocol):
    """What a loop needs of the session."""

    @property
    def is_closing(self) -> bool:
        """The session has ended: what agents still say starts nothing."""
        ...

    def send(self, agent: str, value: control.ControllerValue, job: int) -> None:
        """Send a value about a job to an agent."""
        ...

    def ahead_ns(self, agent: str) -> int:
        """How far the agent's clock is ahead of the controller's."""
        ...

    def clock_error_ns(self, agent: str, *, since_ns: int) -> int:
        """How far off what was known of the agent's clock at `since_ns` may be by now."""
        ...

    def after_clocks(self, then: Callable[[], None]) -> None:
        """Look at the clocks of agents, then go on, unless the session is over."""
        ...

    def is_set_up(self, number: int, agent: str, setup: control.JobSetup) -> None:
        """What an agent must know of a job is known."""
        ...

    def is_ready(self, number: int) -> None:
        """All agents of a job can begin its first iteration."""
        ...

    def have_others_ended(self) -> bool:
        """Whether all jobs with a last iteration have played it."""
        ...

    def is_over(self, number: int, error: EmulatorError | None) -> None:
        """A job has ended; `error` says why if it failed."""
        ...


class JobLoop:
    """Plays a RunPlan.

    Args:
        number: of the job in its session.
        plan: what to play.
        observer: receives what is reported.
        agents: of the session.
    """

    def __init__(self, number: int, plan: RunPlan, observer: SessionObserver, agents: SessionAgents) -> None:
        self.number, self.plan, self._observer, self._agents = number, plan, observer, agents
        self._state = state.RunState(plan.ranks_of, self._iterations(), ahead=_ahead(plan))
        self._streams = {name: list(_streams(plan, ranks)) for name, ranks in plan.ranks_of.items()}
        self._stream_of_rank = {one.rank: one for streams in self._streams.values() for one in streams}
        self._standstill = Standstill(plan.silence_timeout_s)
        self._first: state.StartIteration | None = None
        self._newest = plan.iterations[0] - 1  # iteration that has begun
        self._ledger, self._starts_ns = Ledger(plan), dict[int, int]()  # of iterations that began on an order
        self.outcome = RunOutcome()

    @property
    def missing_agents(self) -> list[str]:
        """Agents that have not joined, or not reached the point that all wait for."""
        return self._state.missing_agents

    @property
    def has_ended(self) -> bool:
        """Whether all iterations are played."""
        return self._state.phase in (state.RunPhase.FINISHING, state.RunPhase.OVER)

    def wait(self) -> None:
        """Tell the observer which agents are missing."""
        if self._state.phase is state.RunPhase.GATHERING:
            self._observer.waiting_for(self._state.missing_agents)

    def joined(self, hello: control.Hello) -> None:
        """One of its agents was let in."""
        self.outcome.agents[hello.agent] = AgentFacts(hello)
        self._handle(state.AgentJoined(hello.agent))
        self.wait()

    def begin(self, at_ns: int) -> None:
        """Begin the first iteration when the clock of this host reaches `at_ns`."""
        assert self._first is not None
        self.outcome.start_ns = at_ns
        self._start(self._first, at_ns)

    def gave_up(self, agent: str, reason: str, ranks: Sequence[int]) -> None:
        """An agent cannot go on; two ranks are those that cannot reach each other."""
        self._handle(state.AgentAborted(agent, reason, ranks))

    def vanished(self, agent: str, reason: str) -> None:
        """An agent is gone."""
        self._handle(state.AgentVanished(agent, reason))

    def excuse(self, seconds: float) -> None:
        """The controller did not run for so long."""
        self._standstill.excuse(seconds)

    def write(self) -> None:
        """Put what was reported on disk."""
        self._ledger.check()
        self._observer.write()
        self._ask_for_steps()

    def overdue(self) -> EmulatorError | None:
        """The error that ends the session if nothing moves in this job."""
        is_waiting = self.outcome.start_ns is None or time.monotonic_ns() < self.outcome.start_ns
        if is_waiting or self._state.phase is state.RunPhase.OVER:
            self._standstill.excuse()
            return None
        return self._standstill.overdue(self._state.missing_agents)

    def said(self, name: str, value: Any) -> None:
        """One of its agents said something about the job.

        Raises:
            RemoteProtocolError: it is about an iteration or rank that cannot be meant.
        """
        self._check(name, value)
        match value:
            case Completions():
                done = value.earlier(self._taken_off(name, value.iteration))
                self._ledger.completed(name, done, self._span(name, value.iteration))
                self._observer.completed(done)
                self._ask_for_steps()
            case ComputeSpans():
                spans = value.earlier(self._taken_off(name, value.iteration))
                self._ledger.computed(name, spans, self._span(name, value.iteration))
                self._observer.computed(spans)
            case StepRecords():
                self._ledger.steps_recorded(name, value)
                self._observer.steps_recorded(value.earlier(self._taken_off(name, value.iteration)))
            case FlowEvents():
                self._ledger.flows(name, value.flows)
                self._observer.flow_events(value)
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
                off = self._taken_off(name, iteration) if ranks else 0
                summaries = [summary.earlier(off) for summary in ranks]
                self._ledger.finished(name, iteration, summaries, self._span(name, iteration))
                if ranks:  # storage or flows alone have nothing to complete
                    self._observer.iteration_done(iteration, summaries)
                    self._ask_for_steps()
                self._handle(state.AgentFinished(name, iteration))
            case control.Farewell():
                self._note_farewell(name, value)
            case _:
                raise RemoteProtocolError(f"agent {name} sent {type(value).__name__} about a job")

    def _check(self, name: str, value: Any) -> None:
        match value:
            case Completions() | ComputeSpans() | StepRecords() | FlowEvents() | control.IterationDone():
                if not self.plan.iterations[0] <= value.iteration <= self._newest + _ahead(self.plan):
                    raise RemoteProtocolError(
                        f"agent {name} sent {type(value).__name__} of iteration {value.iteration}, which has not begun"
                    )
            case control.Bound(places):
                self._check_places(name, places)
            case control.Credit(rank) if rank not in self.plan.ranks_of[name]:
                raise RemoteProtocolError(f"agent {name} sent Credit for rank {rank}, which it does not play")

    def _check_places(self, name: str, places: control.Places) -> None:
        """Ranks listen where they were told to; only the port may be news, if the system chooses it."""
        fixed = transport_named(self.plan.transport).listens_at
        for rank, (host, port) in places.items():
            given = self.plan.hosts[rank] if rank in self.plan.ranks_of[name] else None
            if host != given or not (port == fixed if fixed else 0 < port < 1 << 16):
                raise RemoteProtocolError(
                    f"agent {name} says that rank {rank} listens at {host} port {port}, which it was not given"
                )

    # --- carrying out -------------------------------------------------------------------------------------------

    def _handle(self, stimulus: state.Stimulus) -> None:
        if self._agents.is_closing:
            return
        for instruction in self._state.handle(stimulus):
            match instruction:
                case state.SendSetup(agent):
                    self._agents.is_set_up(self.number, agent, _setup(self.number, self.plan, agent))
                case state.SendDirectory(places):
                    self._send_all(control.Directory(places))
                case state.PrepareIteration(iteration):
                    self._prepare(iteration)
                case state.StartIteration() if self._first is None:
                    self._first = instruction
                    self._agents.is_ready(self.number)
                case state.StartIteration():
                    self._agents.after_clocks(partial(self._start_soon, instruction))
                case state.ContinueThrough(iteration):
                    self._send_all(control.Continue(iteration))
                case state.FinishRun():
                    self._agents.after_clocks(partial(self._send_all, control.Finish()))
                case state.EndRun(error):
                    self._agents.is_over(self.number, error)

    def _iterations(self) -> Iterator[int]:
        yield from self.plan.iterations
        if self.plan.until_others:
            for number in count(self.plan.iterations[-1] + 1):
                if self._agents.have_others_ended():
                    return
                yield number

    def _start_soon(self, start: state.StartIteration) -> None:
        self._start(start, time.monotonic_ns() + START_LEAD_NS)

    def _start(self, start: state.StartIteration, at_ns: int) -> None:
        self._starts_ns[start.iteration] = at_ns
        for name in self.plan.ranks_of:
            ahead_ns = self._agents.ahead_ns(name)
            if ahead_ns or name in self.outcome.taken_off_ns:  # with a common clock there is nothing to remember
                self.outcome.taken_off_ns.setdefault(name, {})[start.iteration] = ahead_ns
            self._send(name, control.Start(start.iteration, at_ns + ahead_ns, start.through))
        self._begun(start.iteration)

    def _begun(self, iteration: int) -> None:
        """Agents play this iteration; those that follow without being told have the clock offsets of the first."""
        while self._newest < iteration:
            self._newest += 1
            for offsets in self.outcome.taken_off_ns.values():
                offsets.setdefault(self._newest, offsets.get(self._newest - 1, 0))
            self._observer.iteration_started(self._newest)

    def _taken_off(self, agent: str, iteration: int) -> int:
        self._begun(iteration)
        return self.outcome.taken_off_ns.get(agent, {}).get(iteration, 0)

    def _span(self, agent: str, iteration: int) -> PossibleTimes:
        """When what the agent says of an iteration can have been."""
        starts_ns = self._starts_ns.get(iteration, self.outcome.start_ns or 0)
        error_ns = self._agents.clock_error_ns(agent, since_ns=starts_ns)
        return span_of(starts_ns, time.monotonic_ns(), error_ns=error_ns)

    def _send(self, agent: str, value: control.ControllerValue) -> None:
        self._agents.send(agent, value, self.number)

    def _send_all(self, value: control.ControllerValue) -> None:
        for name in self.plan.ranks_of:
            self._send(name, value)

    def _prepare(self, iteration: int) -> None:
        self._send_all(control.Prepare(iteration))
        first = iteration == self.plan.iterations[0]
        for agent, streams in self._streams.items():
            for stream in streams:
                if first or not stream.is_resident:
                    stream.rewind()
                    self._pump(agent, stream)

    def _pump(self, agent: str, stream: ProgramStream) -> None:
        for chunk in stream.chunks():
            self._send(agent, chunk)

    def _ask_for_steps(self) -> None:
        if self.plan.record_steps == WORST_STEPS:
            for iteration, instances in self._observer.wanted_steps().items():
                self._send_all(control.WantSteps(iteration, instances))

    def _note_progress(self, agent: str, progress: control.Progress) -> None:
        self._standstill.note(agent, progress)
        self._observer.moved(self._standstill.bytes_sent)
        self._observer.agent_moved(
            agent, bytes_sent=progress.bytes_sent, nodes_done=progress.events, waiting_on=progress.waiting_on
        )

    def _note_farewell(self, agent: str, farewell: control.Farewell) -> None:
        self._ledger.check()
        self._ledger.flows(agent, farewell.flows)
        facts = self.outcome.agents[agent]
        facts.transport, facts.peak_rss_bytes = farewell.transport, farewell.peak_rss_bytes
        facts.post_lateness_median_ns = farewell.post_lateness_median_ns
        facts.steal_fraction = farewell.steal_fraction
        facts.core_wait_fraction = farewell.core_wait_fraction
        self.outcome.flows.extend(farewell.flows)
        self.outcome.steps_lost += farewell.steps_lost
        self.outcome.counted.add(agent)
        if self._state.phase is state.RunPhase.FINISHING:  # else the session is given up
            self._handle(state.AgentSaidFarewell(agent))


def _ahead(plan: RunPlan) -> int:
    if not plan.is_continuous:
        return 0
    return OPEN_ENDED_AHEAD if plan.until_others else len(plan.iterations)


def _streams(plan: RunPlan, ranks: Sequence[int]) -> Iterator[ProgramStream]:
    for rank in ranks:
        program, window = plan.program_of(rank), plan.workload.window
        yield ProgramStream(
            program,
            plan.node_ids_of(rank),
            window=max(window, len(program)) if plan.is_storage(rank) else window,
            algorithm_of=plan.choice.index_of,
        )


def _setup(number: int, plan: RunPlan, agent: str) -> control.JobSetup:
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
    return control.JobSetup(
        number,
        plan.run_id,
        places,
        plan.transport,
        plan.message_bytes,
        plan.seed,
        settings,
        plan.transport_options,
        plan.domains.get(agent, ()),
    )
