"""One session: its agents, its jobs, and an orderly end whatever happens.

Who is there is the business of roster.py, what a job plays of job_loop.py, time limits of watchdog.py.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from emulator.control import conversation as control
from emulator.control.flows import FlowReport
from emulator.controller.job_loop import LATEST_WRITE_S, START_LEAD_NS, JobLoop
from emulator.controller.recording.session_observer import SessionObserver
from emulator.controller.roster.control_server import serve_control
from emulator.controller.roster.local_agents import LocalAgents
from emulator.controller.roster.roster import Roster
from emulator.controller.run_plan import RunOutcome, SessionPlan
from emulator.controller.watchdog import JOIN_TIMEOUT_S, Standstill, check_periodically
from emulator.errors import AgentLost, EmulatorError, RemoteProtocolError, RunAborted, RunError
from emulator.host.files import scratch_folder
from emulator.host.resources import below_agents, exhausted, reserve
from emulator.units import NS_PER_S

DESCRIPTORS, AGENT_DESCRIPTORS, THREADS, MEMORY_BYTES = 32, 8, 16, 160 << 20
"""What a session takes at least, and for each agent, most of it gRPC: seen to fail below about half of each."""

SENDING_S = 0.0005
"""After this time what was queued for agents is on its way."""
MOST_REPORTS_AT_ONCE = 1000
"""Of an agent's progress on a job, beside two per report interval: what 50 s without a reader leave queued."""


class JobSession:
    """Plays a SessionPlan once.

    Args:
        plan: what to play.
        observers: one for each job.

    Attributes:
        failed_job: number of the job that ended the session early; None if it was none of them.
    """

    def __init__(self, plan: SessionPlan, observers: Sequence[SessionObserver]) -> None:
        self._plan = plan
        self._loops = [JobLoop(number, job, observers[number], self) for number, job in enumerate(plan.jobs)]
        self._roster = Roster(
            plan.agents,
            self,
            local=plan.local_agents,
            join_timeout_s=plan.join_timeout_s or JOIN_TIMEOUT_S,
        )
        self._standstill = Standstill(plan.jobs[0].silence_timeout_s)  # before and after the jobs
        self._gathered: set[int] = set()
        self._ready: set[int] = set()
        self._unfinished = set(range(len(plan.jobs)))
        self._has_begun = self._is_over = False
        self._flow_reports: dict[int, FlowReport] = {}
        self._reports: dict[tuple[str, int | None], tuple[int, float]] = {}
        """Of progress, by agent and job: how many, and when the first came."""
        self.failed_job: int | None = None

    @property
    def outcomes(self) -> list[RunOutcome]:
        """What is known of every job."""
        return [loop.outcome for loop in self._loops]

    def reserve(self) -> None:
        """Check that this process can have what it will need; before there is an event loop.

        Raises:
            HostError: a limit does not allow it.
        """
        descriptors = DESCRIPTORS + AGENT_DESCRIPTORS * len(self._plan.local_agents)
        reserve(descriptors=descriptors, threads=THREADS, memory_bytes=MEMORY_BYTES)

    async def play(self) -> None:
        """Start agents on this host, play all jobs, stop the agents.

        Raises:
            RunError: an agent was lost, nothing moved for too long, or somebody aborted; agents are stopped.
            HostError: an agent cannot be started, or its host lacks something.
        """
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        token = secrets.token_urlsafe(24)
        with scratch_folder() as folder:
            target = f"unix:{folder}/control.sock"
            serving = serve_control(
                self._roster, target, token=token, run_id=self._plan.session_id, listening=self._plan.listening
            )
            async with serving, self._start_agents(target, token, folder):
                for loop in self._loops:
                    loop.wait()
                async with asyncio.TaskGroup() as group:
                    watching = group.create_task(check_periodically(self._look_after, failed=self._watchdog_failed))
                    try:
                        with below_agents():
                            await asyncio.wait([self._over])
                    finally:
                        watching.cancel()
                        await self._roster.dismiss(self._reason())
                        self._share_facts()
                self._over.result()  # raises what ended the session; inside the group it would be wrapped

    def abort(self, error: RunAborted) -> None:
        """Stop the session: agents stop sending at once, `play` raises `error`."""
        self._end(error)

    # --- RosterListener -----------------------------------------------------------------------------------------

    def joined(self, hello: control.Hello) -> None:
        """See RosterListener."""
        for loop in self._loops_of(hello.agent):
            loop.joined(hello)

    def said(self, agent: str, message: control.JobMessage[Any]) -> None:
        """See RosterListener."""
        value, job = message
        if isinstance(value, control.Progress):
            self._count_report(agent, job)
        if isinstance(value, control.Progress) and not (self._has_begun and self._unfinished):
            self._standstill.note((agent, job), value)
        match value:
            case FlowReport(number) if number in {task.number for task in self._plan.flows.get(agent, ())}:
                self._flow_reports[number] = value.earlier(self._roster.clocks.ahead_ns(agent))
            case control.Progress() if job is None:
                pass
            case _ if job is not None and job < len(self._loops) and agent in self._plan.jobs[job].ranks_of:
                self._loops[job].said(agent, value)
            case _:
                raise RemoteProtocolError(f"agent {agent} sent {type(value).__name__} about a job it does not play")

    def _count_report(self, agent: str, job: int | None) -> None:
        """Agents report no more often than they were told to; who does would hold this process, and look busy."""
        count, first_s = self._reports.get((agent, job), (0, time.monotonic()))
        self._reports[agent, job] = count + 1, first_s
        most = MOST_REPORTS_AT_ONCE + 2 * (time.monotonic() - first_s) * NS_PER_S / control.REPORT_INTERVAL_NS
        if count > most:
            raise RemoteProtocolError(f"agent {agent} sent more than {most:,.0f} reports of its progress")

    def gave_up(self, agent: str, abort: control.Abort, job: int | None) -> None:
        """See RosterListener."""
        loops = self._loops_of(agent)
        for loop in loops if job is None else (one for one in loops if one.number == job):
            loop.gave_up(agent, abort)
        self._end(RunError(f"agent {agent}: {abort.reason}"))  # if its jobs were over

    def vanished(self, agent: str, reason: str) -> None:
        """See RosterListener."""
        for loop in self._loops_of(agent):
            loop.vanished(agent, reason)
        self._end(AgentLost(agent, ranks=(), reason=reason))  # if its jobs were over

    def all_left(self) -> None:
        """See RosterListener."""
        self._end(None if not self._unfinished else RemoteProtocolError("agents left before their jobs had ended"))

    def failed(self, error: EmulatorError) -> None:
        """See RosterListener."""
        self._end(error)

    # --- Agents: what loops need --------------------------------------------------------------------------------

    def send(self, agent: str, value: control.ControllerValue, job: int) -> None:
        """See Agents."""
        self._roster.send(agent, value, job)

    def ahead_ns(self, agent: str) -> int:
        """See Agents."""
        return self._roster.clocks.ahead_ns(agent)

    def clock_error_ns(self, agent: str, *, since_ns: int) -> int:
        """See Agents."""
        return self._roster.clocks.error_ns(agent, since_ns=since_ns)

    def after_a_while(self, then: Callable[[], None]) -> None:
        """See Agents."""
        asyncio.get_running_loop().call_later(SENDING_S, self._do, then)

    def _do(self, what: Callable[[], None]) -> None:
        try:
            if not self._is_over:
                what()
        except EmulatorError as error:
            self._end(error)

    def after_clocks(self, then: Callable[[], None]) -> None:
        """See Agents."""
        self._roster.clocks.settle_then(lambda: None if self._is_over else then())

    def is_gathered(self, number: int) -> None:
        """See Agents; an agent hears of all its jobs at once."""
        self._gathered.add(number)
        for agent in self._plan.jobs[number].ranks_of:
            if self._gathered.issuperset(loop.number for loop in self._loops_of(agent)):
                self._roster.send(agent, self._plan.setup_of(agent))

    def is_ready(self, number: int) -> None:
        """See Agents; the session begins when all jobs can."""
        self._ready.add(number)
        if len(self._ready) == len(self._loops):
            self.after_clocks(self._begin)

    @property
    def is_closing(self) -> bool:
        """See Agents."""
        return self._is_over

    def have_others_ended(self) -> bool:
        """See Agents."""
        return all(loop.plan.until_others or loop.has_ended for loop in self._loops)

    def is_over(self, number: int, error: EmulatorError | None) -> None:
        """See Agents."""
        if error is not None:
            self.failed_job = number if self.failed_job is None and not self._is_over else self.failed_job
            self._end(error)
            return
        self._unfinished.discard(number)
        if not self._unfinished:
            self._standstill.excuse()
            self._roster.send_all(control.Leave())

    def _begin(self) -> None:
        self._has_begun = True
        self._roster.renew_leases()
        at_ns = time.monotonic_ns() + START_LEAD_NS
        for agent in self._plan.agents:
            self._roster.send(agent, control.Begin(at_ns + self.ahead_ns(agent)))
        for loop in self._loops:
            loop.begin(at_ns + loop.plan.offset_ns)

    # --- the end ------------------------------------------------------------------------------------------------

    def _loops_of(self, agent: str) -> list[JobLoop]:
        return [loop for loop in self._loops if agent in loop.plan.ranks_of]

    def _end(self, error: EmulatorError | None) -> None:
        if not self._is_over:
            self._is_over = True
            if error is None:
                self._over.set_result(None)
            else:
                self._over.set_exception(error)

    def _reason(self) -> BaseException | None:
        return self._over.exception() if self._over.done() and not self._over.cancelled() else None

    def _share_facts(self) -> None:
        """What is known of agents and flows, for every job."""
        clocks = self._roster.clocks.estimates()
        for loop in self._loops:
            loop.outcome.flow_reports = self._flow_reports
            loop.outcome.clocks = {name: one for name, one in clocks.items() if name in loop.plan.ranks_of}

    def _look_after(self) -> None:
        """Write what was reported, and check time limits and, while agents connect, that there are descriptors."""
        try:
            for loop in self._loops:
                loop.write_if_due(age_s=LATEST_WRITE_S)
            if self._roster.missing:
                reserve(descriptors=1)  # without one gRPC lets agents wait, and tells nobody
        except EmulatorError as error:
            self._end(error)
        self._check()

    def _check(self) -> None:
        """End the session if agents do not come, fall silent, or nothing moves."""
        watchdog, missing = self._roster.watchdog, self._roster.missing
        excused_s = watchdog.excused_s()
        self._standstill.excuse(excused_s)
        for loop in self._loops:
            loop.excuse(excused_s)
        self._roster.renew_leases()
        is_playing = self._has_begun and bool(self._unfinished)
        if is_playing:
            self._roster.clocks.look()
        error = watchdog.overdue(missing=missing, is_gathering=bool(missing), is_under_way=self._has_begun)
        if isinstance(error, AgentLost):
            self.vanished(error.agent, error.reason)
        elif error is not None:
            self._end(error)
        elif missing:
            self._standstill.excuse()
        elif is_playing:
            for loop in self._loops:
                if (late := loop.overdue()) is not None:
                    self.is_over(loop.number, late)
        elif (late := self._standstill.overdue(self._waited_for())) is not None:
            self._end(late)

    def _waited_for(self) -> list[str]:
        return sorted({name for loop in self._loops for name in loop.missing_agents})

    def _watchdog_failed(self, error: BaseException) -> None:
        self._end(
            exhausted(error)
            or RunAborted(f"the time limits can no longer be watched ({type(error).__name__}: {error})")
        )

    def _start_agents(self, target: str, token: str, folder: Path) -> LocalAgents:
        return LocalAgents(
            self._plan.local_agents,
            target=target,
            token=token,
            addresses=self._plan.addresses,
            log_folder=folder,
            on_exit=self._roster.exited,
            exec_prefixes=self._plan.exec_prefixes,
        )
