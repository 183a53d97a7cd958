"""Input of a session and of its jobs, and what is known of a job at the end in addition to the samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from emulator.control import conversation as control
from emulator.control.flows import FlowReport, FlowTask
from emulator.control.observations import FlowCounters
from emulator.control.parameter import Parameter
from emulator.controller.clocks.clock_offset import ClockEstimate
from emulator.controller.roster.listen_address import ListenAddress
from emulator.host.nic import NicFacts
from emulator.planner.algorithm_choice import AlgorithmChoice
from emulator.planner.network.port_shares import PortShare
from emulator.planner.rank_program import NO_STEPS
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
        run_id: of the run.
        node_ids: per rank, uint64, shape (n,): node ids by position of its program.
        hosts: per rank, then per storage endpoint, the numeric IP address it plays at.
        ranks_of: agent name → ranks it plays.
        interfaces: per rank and storage endpoint, the name of its host's interface; empty if not needed.
        port_shares: per rank, the share of its port; empty if nothing is paced.
        domains: agent → scale-up domains that its ranks belong to.
        iterations: numbers in order, warm-up negative.
        silence_timeout_s: nothing moving anywhere for this long ends the run.
        record_steps: see PlaySettings.
        offset_ns: when the job begins, after the session began.
        is_continuous: a rank begins an iteration as soon as it has completed the one before.
        until_others: iterations go on after the last number until all jobs without this have played theirs.
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
    interfaces: Sequence[str] = ()
    port_shares: Mapping[int, PortShare] = field(default_factory=dict)
    domains: Mapping[str, Sequence[control.DomainPlace]] = field(default_factory=dict)
    record_steps: int = NO_STEPS
    offset_ns: int = 0
    is_continuous: bool = False
    until_others: bool = False

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
        silence_timeout_s: nothing moving anywhere before or after the jobs for this long ends the session.
        local: agents to start on this host; all others dial in. None: all.
        networks: agent → prefixes of ranks elsewhere on its own link.
        flows: agent → flows that it plays beside its ranks.
        flow_addresses: of their ends and peers.
        listening: where remote agents dial in.
        join_timeout_s: the session ends if an agent has not joined by then.
        exec_prefixes: local agent → words before its command, for example to enter a namespace.
    """

    session_id: str
    jobs: Sequence[RunPlan]
    silence_timeout_s: float
    local: frozenset[str] | None = None
    networks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    flows: Mapping[str, Sequence[FlowTask]] = field(default_factory=dict)
    flow_addresses: Sequence[str] = ()
    listening: ListenAddress | None = None
    join_timeout_s: float | None = None
    exec_prefixes: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def agents(self) -> list[str]:
        """Every agent that plays a part of a job, in order."""
        return list(dict.fromkeys(name for job in self.jobs for name in job.ranks_of))

    @property
    def addresses(self) -> list[str]:
        """Every address that ranks and flows play at and send to."""
        return list(dict.fromkeys([*(host for job in self.jobs for host in job.hosts), *self.flow_addresses]))

    @property
    def local_agents(self) -> list[str]:
        """Agents to start on this host, in order."""
        return [name for name in self.agents if self.local is None or name in self.local]

    @property
    def report_interval_ns(self) -> int:
        """How long agents collect completions: the more agents, the longer, since every message costs as much again."""
        shortest, longest = control.REPORT_INTERVAL_NS, LONGEST_REPORT_INTERVAL_NS
        return min(max(len(self.agents) * NS_PER_S // REPORTS_PER_S, shortest), longest)


@dataclass(slots=True)
class AgentFacts:
    """What an agent reported about itself when it joined and at the end; `nics` carry the addresses of its ranks."""

    hello: control.Hello
    nics: Sequence[NicFacts] = ()
    transport: Mapping[str, Parameter] = field(default_factory=dict)
    peak_rss_bytes: int = 0
    post_lateness_median_ns: int = 0
    steal_fraction: float | None = None
    core_wait_fraction: float | None = None


@dataclass(slots=True)
class RunOutcome:
    """What is known at the end of the run of a job in addition to the completions."""

    agents: dict[str, AgentFacts] = field(default_factory=dict)
    flows: list[FlowCounters] = field(default_factory=list)
    flow_reports: Mapping[int, FlowReport] = field(default_factory=dict)
    """Of flows alongside the jobs, by their number."""
    counted: set[str] = field(default_factory=set)
    """Agents whose counters are in `flows`: those of a run that ended early may be missing."""
    clocks: Mapping[str, ClockEstimate] = field(default_factory=dict)
    """Of agents whose clock is not that of this host."""
    steps_lost: int = 0
    """See Farewell, over all agents."""
    taken_off_ns: dict[str, dict[int, int]] = field(default_factory=dict)
    """Agent → iteration → offset that was subtracted from its time stamps on arrival, ns; absent: 0."""
    start_ns: int | None = None
    """When the first iteration was told to begin, on the clock of this host."""
