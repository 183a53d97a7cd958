"""Input of a session and of its jobs, and what is known of a job at the end in addition to the samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from emulator.control import conversation as control
from emulator.control.flows import FlowReport, FlowTask
from emulator.controller.assignment import Assignment
from emulator.controller.clock_offset import ClockEstimate
from emulator.controller.roster.listen_address import ListenAddress
from emulator.host.nic_facts import NicFacts
from emulator.planner.algorithm_choice import AlgorithmChoice
from emulator.trace.meaning.model import IdArray, RankProgram, Workload
from emulator.trace.meaning.storage import idle_program
from emulator.units import NS_PER_S

REPORTS_PER_S = 2000
"""Messages with completions that all agents together send, as long as they are not large."""
LONGEST_REPORT_INTERVAL_NS = NS_PER_S // 2
"""What a run loses if an agent is killed, and how late the live page may be."""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """All that the run of a job needs.

    Attributes:
        setup: what agents are told of it, each its part.
        node_ids: per rank, uint64, shape (n,): node ids by position of its program.
        assignment: which agent plays which ranks.
        iterations: numbers in order, warm-up negative.
        silence_timeout_s: nothing moving anywhere for this long ends the run.
        offset_ns: when the job begins, after the session began.
        is_continuous: a rank begins an iteration as soon as it has completed the one before.
        until_others: iterations go on after the last number until all jobs without this have played theirs.
    """

    setup: control.JobSetup
    workload: Workload
    node_ids: Sequence[IdArray]
    choice: AlgorithmChoice
    assignment: Assignment
    iterations: Sequence[int]
    silence_timeout_s: float
    offset_ns: int = 0
    is_continuous: bool = False
    until_others: bool = False

    @property
    def ranks_of(self) -> Mapping[str, Sequence[int]]:
        """Agent → ranks and storage endpoints that it plays."""
        return self.assignment.ranks_of

    def is_storage(self, endpoint: int) -> bool:
        """Whether it belongs to a storage host, and is no rank."""
        return endpoint >= len(self.workload.programs)

    def program_of(self, endpoint: int) -> RankProgram:
        """What a rank plays, or a storage endpoint sends when it is asked."""
        ranks = len(self.workload.programs)
        if not self.is_storage(endpoint):
            return self.workload.programs[endpoint]
        return self.workload.storage[endpoint - ranks] if self.workload.storage else idle_program(endpoint)

    def node_ids_of(self, endpoint: int) -> IdArray:
        """Node ids by position; a storage endpoint has no nodes of a trace."""
        if not self.is_storage(endpoint):
            return self.node_ids[endpoint]
        return np.zeros(len(self.program_of(endpoint)), dtype=np.uint64)


@dataclass(frozen=True, slots=True)
class SessionPlan:
    """All that a session needs.

    Attributes:
        session_id: that of the run, if there is one job.
        jobs: their runs, in order.
        networks, alternate_networks: agent → prefixes of (second addresses of) ranks elsewhere on its own link.
        flows: agent → flows that it plays beside its ranks.
        flow_addresses: of their ends and peers.
        listening: where remote agents dial in.
        join_timeout_s: the session ends if an agent has not joined by then.
        exec_prefixes: local agent → words before its command, for example to enter a namespace.
    """

    session_id: str
    jobs: Sequence[RunPlan]
    networks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    alternate_networks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    flows: Mapping[str, Sequence[FlowTask]] = field(default_factory=dict)
    flow_addresses: Sequence[str] = ()
    listening: ListenAddress | None = None
    join_timeout_s: float | None = None
    exec_prefixes: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def setup_of(self, agent: str) -> control.Setup:
        """What an agent is told of it: its part of each job that it plays."""
        return control.Setup(
            {
                number: job.setup.part(job.ranks_of[agent])
                for number, job in enumerate(self.jobs)
                if agent in job.ranks_of
            },
            self.networks.get(agent, ()),
            self.flows.get(agent, ()),
            self.report_interval_ns,
            self.alternate_networks.get(agent, ()),
        )

    @property
    def agents(self) -> list[str]:
        """Every agent that plays a part of a job, in order."""
        return list(dict.fromkeys(name for job in self.jobs for name in job.ranks_of))

    @property
    def addresses(self) -> list[str]:
        """Every address that ranks and flows play at and send to."""
        places = [place for job in self.jobs for place in job.setup.ranks]
        ends = [one for place in places for one in (place.host, place.alternate) if one is not None]
        return list(dict.fromkeys([*ends, *self.flow_addresses]))

    @property
    def local_agents(self) -> list[str]:
        """Agents to start on this host, in order."""
        local = frozenset[str]().union(*(job.assignment.local for job in self.jobs))
        return [name for name in self.agents if name in local]

    @property
    def report_interval_ns(self) -> int:
        """How long agents collect completions: the more agents, the longer, since every message costs as much again."""
        shortest, longest = control.REPORT_INTERVAL_NS, LONGEST_REPORT_INTERVAL_NS
        return min(max(len(self.agents) * NS_PER_S // REPORTS_PER_S, shortest), longest)


@dataclass(slots=True)
class AgentFacts:
    """What an agent said about itself.

    Attributes:
        nics: that carry the addresses of its ranks.
        farewell: None: it has not said one, and its counters are missing.
        late_starts: measured iterations that it was told of after they should have begun.
    """

    hello: control.Hello
    nics: Sequence[NicFacts] = ()
    farewell: control.Farewell | None = None
    late_starts: int = 0


@dataclass(slots=True)
class RunOutcome:
    """What is known at the end of the run of a job in addition to the completions."""

    agents: dict[str, AgentFacts] = field(default_factory=dict)
    flow_reports: Mapping[int, FlowReport] = field(default_factory=dict)
    """Of flows alongside the jobs, by their number."""
    clocks: Mapping[str, ClockEstimate] = field(default_factory=dict)
    """Of agents whose clock is not that of this host."""
    taken_off_ns: dict[str, dict[int, int]] = field(default_factory=dict)
    """Agent → iteration → offset that was subtracted from its time stamps on arrival, ns; absent: 0."""
    start_ns: int | None = None
    """When the first iteration was told to begin, on the clock of this host."""

    @property
    def farewells(self) -> Mapping[str, control.Farewell]:
        """By agent, without those that ended early."""
        return {name: one.farewell for name, one in self.agents.items() if one.farewell is not None}
