"""The loop of one job: prepare an iteration, play it, next one; and what its agents report on the way.

The decisions are in state.py; this module carries them out.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any, Protocol

from emulator.control import conversation as control
from emulator.control.observations import ChainRecords, Completions, ComputeSpans, FlowEvents, StepRecords
from emulator.controller import state
from emulator.controller.ledger import Ledger, PossibleTimes, span_of
from emulator.controller.program_stream import ProgramStream
from emulator.controller.recording.session_observer import RanksDone, SessionObserver
from emulator.controller.run_plan import AgentFacts, RunOutcome, RunPlan
from emulator.controller.watchdog import Standstill
from emulator.errors import EmulatorError, RemoteProtocolError
from emulator.planner.rank_program import WORST_STEPS
from emulator.results.run_folder.observer import AgentMoved, IterationStarted, Moved, WaitingFor
from emulator.transports.registry import transport_named

WRITE_S, LATEST_WRITE_S = 0.25, 0.375
"""After this time what was reported is recorded when an iteration has begun, and written when the next one has: no
iteration waits for both. After the second one it is written at any moment."""
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

    def after_a_while(self, then: Callable[[], None]) -> None:
        """Do something that takes a while once agents were sent what is queued, unless the session is over."""
        ...

    def after_clocks(self, then: Callable[[], None]) -> None:
        """Look at the clocks of agents, then go on, unless the session is over."""
        ...

    def is_gathered(self, number: int) -> None:
        """All agents of a job are there: they can be told what they play."""
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
        self._state = state.RunState(
            plan.ranks_of, self._iterations(), ahead=_ahead(plan), prepare_themselves=plan.setup.prepares_itself
        )
        self._lead = StartLead()
        self._streams = {name: list(_streams(plan, ranks)) for name, ranks in plan.ranks_of.items()}
        self._stream_of_rank = {one.rank: one for streams in self._streams.values() for one in streams}
        self._standstill = Standstill(plan.silence_timeout_s)
        self._first: control.Start | None = None
        self._newest = plan.iterations[0] - 1  # iteration that has begun
        self._written_at, self._is_recorded = time.monotonic(), False
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
            self._observer.tell(WaitingFor(self._state.missing_agents))

    def joined(self, hello: control.Hello) -> None:
        """One of its agents was let in."""
        self.outcome.agents[hello.agent] = AgentFacts(hello)
        self._handle(hello.agent, hello)
        self.wait()

    def begin(self, at_ns: int) -> None:
        """Begin the first iteration when the clock of this host reaches `at_ns`."""
        assert self._first is not None
        self.outcome.start_ns = at_ns
        self._start(self._first, at_ns)

    def gave_up(self, agent: str, abort: control.Abort) -> None:
        """An agent cannot go on."""
        self._handle(agent, abort)

    def vanished(self, agent: str, reason: str) -> None:
        """An agent is gone."""
        if not self._agents.is_closing:
            self._carry_out(self._state.vanished(agent, reason))

    def excuse(self, seconds: float) -> None:
        """The controller did not run for so long."""
        self._standstill.excuse(seconds)

    def write(self) -> None:
        """Put what was reported on disk."""
        self._written_at, self._is_recorded = time.monotonic(), False
        self._ledger.check()
        self._observer.write()
        self._ask_for_steps()

    def _record_or_write(self) -> None:
        if self._is_recorded:
            self.write()
        else:
            self._is_recorded = True
            self._ledger.check()
            self._observer.record()
            self._ask_for_steps()

    def write_if_due(self, *, age_s: float) -> None:
        """Put it on disk if that was not done for so long."""
        if time.monotonic() - self._written_at >= age_s:
            self.write()

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
                self._observer.tell(done)
                self._ask_for_steps()
            case ComputeSpans():
                spans = value.earlier(self._taken_off(name, value.iteration))
                self._ledger.computed(name, spans, self._span(name, value.iteration))
                self._observer.tell(spans)
            case StepRecords():
                self._ledger.steps_recorded(name, value)
                self._observer.tell(value.earlier(self._taken_off(name, value.iteration)))
            case ChainRecords():
                self._ledger.chains_recorded(name, value)
                self._observer.tell(value.earlier(self._taken_off(name, value.iteration)))
            case FlowEvents():
                self._ledger.flows(name, value.flows)
                self._observer.tell(value)
            case control.Credit(rank, nodes):
                self._stream_of_rank[rank].grant(nodes)
                self._pump(name, self._stream_of_rank[rank])
            case control.Progress():
                self._note_progress(name, value)
            case control.Bound(nics=nics):
                self.outcome.agents[name].nics = nics
                self._handle(name, value)
            case control.Ready():
                self._handle(name, value)
            case control.IterationDone(iteration, ranks, ahead_ns):
                if ahead_ns:
                    self._lead.was_read(ahead_ns)
                    self.outcome.agents[name].late_starts += ahead_ns < 0 <= iteration
                off = self._taken_off(name, iteration) if ranks else 0
                summaries = [summary.earlier(off) for summary in ranks]
                self._ledger.finished(name, iteration, summaries, self._span(name, iteration))
                if ranks:  # storage or flows alone have nothing to complete
                    self._observer.tell(RanksDone(iteration, summaries))
                    self._ask_for_steps()
                self._handle(name, value)
            case control.Farewell():
                self._note_farewell(name, value)
            case _:
                raise RemoteProtocolError(f"agent {name} sent {type(value).__name__} about a job")

    def _check(self, name: str, value: Any) -> None:
        match value:
            case (
                Completions() | ComputeSpans() | StepRecords() | ChainRecords() | FlowEvents() | control.IterationDone()
            ):
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
        fixed = transport_named(self.plan.setup.transport).listens_at
        for rank, (host, port, alternate) in places.items():
            place = self.plan.setup.ranks[rank] if rank in self.plan.ranks_of[name] else None
            is_given = place is not None and (host, alternate) == (place.host, place.alternate)
            if not is_given or not (port == fixed if fixed else 0 < port < 1 << 16):
                raise RemoteProtocolError(
                    f"agent {name} says that rank {rank} listens at {host} port {port}, which it was not given"
                )

    # --- carrying out -------------------------------------------------------------------------------------------

    def _handle(self, agent: str, said: state.Said) -> None:
        if not self._agents.is_closing:
            self._carry_out(self._state.handle(agent, said))

    def _carry_out(self, instructions: Sequence[state.Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case state.SendSetups():
                    self._agents.is_gathered(self.number)
                case control.Directory() | control.Continue():
                    self._send_all(instruction)
                case control.Prepare():
                    self._prepare(instruction)
                case control.Start() if self._first is None:
                    self._first = instruction
                    self._agents.is_ready(self.number)
                case control.Start():
                    self._agents.after_clocks(partial(self._start_soon, instruction))
                case control.Finish():
                    self._agents.after_clocks(partial(self._send_all, instruction))
                case state.EndRun(error):
                    self._agents.is_over(self.number, error)

    def _iterations(self) -> Iterator[int]:
        yield from self.plan.iterations
        if self.plan.until_others:
            for number in count(self.plan.iterations[-1] + 1):
                if self._agents.have_others_ended():
                    return
                yield number

    def _start_soon(self, start: control.Start) -> None:
        lead_ns = self._lead.next_ns()
        self._start(start, time.monotonic_ns() + lead_ns)
        if time.monotonic() - self._written_at >= WRITE_S:  # while agents play, nothing waits for the controller
            self._agents.after_a_while(self._record_or_write)

    def _start(self, start: control.Start, at_ns: int) -> None:
        self._starts_ns[start.iteration] = at_ns
        for name in self.plan.ranks_of:
            ahead_ns = self._agents.ahead_ns(name)
            if ahead_ns or name in self.outcome.taken_off_ns:  # with a common clock there is nothing to remember
                self.outcome.taken_off_ns.setdefault(name, {})[start.iteration] = ahead_ns
            self._send(name, replace(start, at_ns=at_ns + ahead_ns))
        self._begun(start.iteration)

    def _begun(self, iteration: int) -> None:
        """Agents play this iteration; those that follow without being told have the clock offsets of the first."""
        while self._newest < iteration:
            self._newest += 1
            for offsets in self.outcome.taken_off_ns.values():
                offsets.setdefault(self._newest, offsets.get(self._newest - 1, 0))
            self._observer.tell(IterationStarted(self._newest))

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

    def _prepare(self, prepare: control.Prepare) -> None:
        self._send_all(prepare)
        first = prepare.iteration == self.plan.iterations[0]
        for agent, streams in self._streams.items():
            for stream in streams:
                if first or not stream.is_resident:
                    stream.rewind()
                    self._pump(agent, stream)

    def _pump(self, agent: str, stream: ProgramStream) -> None:
        for chunk in stream.chunks():
            self._send(agent, chunk)

    def _ask_for_steps(self) -> None:
        if self.plan.setup.settings.record_steps == WORST_STEPS:
            for iteration, instances in self._observer.wanted_steps().items():
                self._send_all(control.WantSteps(iteration, instances))

    def _note_progress(self, agent: str, progress: control.Progress) -> None:
        self._standstill.note(agent, progress)
        self._observer.tell(Moved(self._standstill.bytes_sent))
        self._observer.tell(AgentMoved(agent, progress.bytes_sent, progress.events, progress.waiting_on))

    def _note_farewell(self, agent: str, farewell: control.Farewell) -> None:
        if self.outcome.agents[agent].farewell is not None:
            raise RemoteProtocolError(f"agent {agent} sent its counters twice")
        self._ledger.check()
        self._ledger.flows(agent, farewell.flows)
        if farewell.timeline is not None:
            timeline = replace(farewell.timeline, start_ns=farewell.timeline.start_ns - self._agents.ahead_ns(agent))
            self._ledger.recorded(agent, timeline, self._span(agent, self.plan.iterations[0]))
        if farewell.migrations:
            ahead_ns = self._agents.ahead_ns(agent)
            moved = [replace(one, at_ns=one.at_ns - ahead_ns) for one in farewell.migrations]
            self._ledger.migrated(agent, moved, self._span(agent, self.plan.iterations[0]))
        self.outcome.agents[agent].farewell = farewell
        if self._state.phase is state.RunPhase.FINISHING:  # else the session is given up
            if len(self.outcome.farewells) == len(self.plan.ranks_of):
                self._ledger.add_up(self.outcome.farewells)
            self._handle(agent, farewell)


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


START_LEAD_NS = 5_000_000
"""The longest lead, and the one until it is known how long a Start is under way."""
LEAST_LEAD_NS = 500_000
LEAD_SHARE, REMEMBERED, STALLS = 1.5, 64, 3
"""Lead / the time that a Start was under way in the slowest of the last REMEMBERED iterations but STALLS of them: a
controller or agent that once had no core says nothing of the next Start. On one host that time is 0.36 ms at the median
and 0.73 ms for one in a hundred (bench all_reduce -n 8 -b 1K)."""


class StartLead:
    """Learns the lead from what agents report.

    Attributes:
        ns: the lead of the newest Start.
    """

    def __init__(self) -> None:
        self.ns = START_LEAD_NS
        self._newest_ns = 0
        self._under_way_ns = deque[int](maxlen=REMEMBERED)

    def was_read(self, ahead_ns: int) -> None:
        """An agent read the newest Start so long before its moment; negative: after it."""
        self._newest_ns = max(self._newest_ns, self.ns - ahead_ns)

    def next_ns(self) -> int:
        """The lead of the next Start."""
        if self._newest_ns:
            self._under_way_ns.append(self._newest_ns)
            self._newest_ns = 0
            slowest = sorted(self._under_way_ns)[-1 - min(STALLS, (len(self._under_way_ns) - 1) // 2)]
            self.ns = min(max(int(LEAD_SHARE * slowest), LEAST_LEAD_NS), START_LEAD_NS)
        return self.ns
