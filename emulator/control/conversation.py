"""The control conversation as plain values; emulator/control/wire/codec.py takes them into and out of protobuf."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from emulator.control.checked_values import Count, NumericAddress, NumericPrefix, Share
from emulator.control.flows import FlowReport as FlowReport
from emulator.control.flows import FlowTask
from emulator.control.observations import (
    ChainRecords,
    Completions,
    ComputeSpans,
    FlowCounters,
    FlowEvents,
    Migration,
    RankSummary,
    StepRecords,
    Timeline,
)
from emulator.control.parameter import Parameter
from emulator.host.nic_facts import NicFacts
from emulator.planner.network.port_shares import NO_SHARE, PortShare
from emulator.planner.rank_program import Chunk, PlaySettings
from emulator.transports.registry import TransportOptions
from emulator.units import NS_PER_S

OLDEST_VERSION = 4
NEWEST_VERSION = 4
METHOD = "/charkha.control.Control/Session"
REPORT_INTERVAL_NS = NS_PER_S // 20
LARGEST_MESSAGE_BYTES = 256 << 20
"""A message that is longer is refused: the largest that a run needs are counters of all flows of an agent."""
V = TypeVar("V")


class Address(NamedTuple):
    """Where a rank listens: a numeric IP address and a port (0 before it is bound).

    Attributes:
        alternate: its second address, at the same port; None: it has none.
    """

    host: NumericAddress
    port: int
    alternate: NumericAddress | None = None


Places: TypeAlias = Mapping[int, Address]
"""By rank."""


@dataclass(frozen=True, slots=True)
class Port:
    """An interface that an agent was told to use.

    Attributes:
        addresses: numeric IP addresses, without those of the link alone.
        rate_bps: of the link, bit/s; 0: unknown.
        mtu: of an IP packet, bytes; 0: unknown.
    """

    name: str
    addresses: Sequence[NumericAddress] = ()
    rate_bps: int = 0
    mtu: int = 0


@dataclass(frozen=True, slots=True)
class Hello:
    """An agent introduces itself.

    Attributes:
        clock_ns: its monotonic clock.
        facts: for the manifest.
        nonce: see emulator/control/authentication.py.
        claims: header and claims of its token; "" if it has a shared secret, or nothing.
        clock_id: who has the same one has the same monotonic clock.
        stays: it plays one run after another, and waits where a run goes without it.
        ports: what it was told to use, for topologies whose hosts come from agents.
    """

    oldest_version: int
    newest_version: int
    agent: str
    pid: int
    hostname: str
    software: str
    clock_ns: int
    nonce: bytes
    claims: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    clock_id: str = ""
    stays: bool = False
    ports: Sequence[Port] = ()


@dataclass(frozen=True, slots=True)
class Challenge:
    """The controller proves that it has the agent's key, and asks for the agent's proof.

    Attributes:
        codes: of each key that the agent may have.
    """

    run_id: str
    nonce: bytes
    codes: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class Proof:
    """The agent has the key."""

    code: bytes


@dataclass(frozen=True, slots=True)
class Signed:
    """A run description as its bytes, bound to this conversation; see emulator/control/authentication.py.

    Attributes:
        message: of the controller, encoded: Setup or Directory.
        code: made with the agent's key.
        signature: made with the key of the controller's identity; b"" without one.
        certificate: of that identity, DER.
    """

    message: bytes
    code: bytes
    signature: bytes = b""
    certificate: bytes = b""


@dataclass(frozen=True, slots=True)
class Welcome:
    """The agent is in; `version` is the newest that both sides know."""

    version: int


@dataclass(frozen=True, slots=True)
class Wait:
    """The run goes without this agent, which stays until it is over."""

    reason: str


@dataclass(frozen=True, slots=True)
class Renew:
    """The agent may play for so long without hearing from the controller; whatever it hears counts."""

    lease_ms: int


@dataclass(frozen=True, slots=True)
class ClockQuery:
    """What time is it there? `sent_ns` is the controller's clock."""

    sent_ns: int


@dataclass(frozen=True, slots=True)
class ClockReply:
    """The agent's clock when it had the query and when it wrote this; `query_sent_ns` is the query's."""

    query_sent_ns: int
    received_ns: int
    sent_ns: int


@dataclass(frozen=True, slots=True)
class AlternateAddress:
    """The alternate address of a rank, which an agent needs as it needs the other one.

    Attributes:
        title: for messages.
        host: numeric IP address.
        interface: that has it.
    """

    title: str
    host: str
    interface: str


@dataclass(frozen=True, slots=True)
class RankPlace:
    """A rank of the agent.

    Attributes:
        host: numeric IP address it listens at.
        nodes: length of its program.
        window: how many nodes it may hold at once.
        interface: of the topology's host; "" where the topology names none.
        port: that it shares with others; NO_SHARE if its transport is not paced.
        storage: not a rank, but an endpoint of a storage host; its nodes are what it sends when it is asked.
        alternate: numeric IP address of its second path; None: it has none.
        alternate_interface: that has it; "" where the topology names none.
    """

    rank: int
    host: NumericAddress
    nodes: int
    window: int
    interface: str = ""
    port: PortShare = NO_SHARE
    storage: bool = False
    alternate: NumericAddress | None = None
    alternate_interface: str = ""

    @property
    def alternate_address(self) -> AlternateAddress | None:
        """Its alternate address; None: it has none."""
        if self.alternate is None:
            return None
        return AlternateAddress(f"rank {self.rank}", self.alternate, self.alternate_interface)

    @property
    def title(self) -> str:
        """For messages."""
        return f"rank {self.rank}"

    @property
    def is_resident(self) -> bool:
        """The whole program fits the window: it is sent once and kept for all iterations."""
        return self.storage or self.nodes <= self.window


@dataclass(frozen=True, slots=True)
class DomainPlace:
    """A scale-up domain, all of whose ranks the agent plays.

    Attributes:
        rate_bps: of each rank in each direction, bit/s.
        latency_ns: of a transfer.
    """

    ranks: Sequence[int]
    rate_bps: int
    latency_ns: int


@dataclass(frozen=True, slots=True)
class JobSetup:
    """What is played of a job: by all agents, or, as `part` cuts it, by one.

    Attributes:
        run_id: of the job's run.
        ranks: then storage endpoints.
        options: of the transport; None: it has none.
        domains: that its ranks belong to.
        prepares_itself: an agent prepares every iteration but the first when it has completed the one before, without
            being told: its IterationDone says that it is ready.
    """

    run_id: str
    ranks: Sequence[RankPlace]
    transport: str
    message_bytes: int
    seed: int
    settings: PlaySettings
    options: TransportOptions | None = None
    domains: Sequence[DomainPlace] = ()
    prepares_itself: bool = False

    def part(self, ends: Sequence[int]) -> JobSetup:
        """What the agent of these ends, of all, plays; groups that it has no member of are empty."""
        own = set(ends)
        groups = [ranks if own.intersection(ranks) else () for ranks in self.settings.groups]
        return replace(
            self,
            ranks=[self.ranks[end] for end in ends],
            settings=replace(self.settings, groups=groups),
            domains=[one for one in self.domains if own.intersection(one.ranks)],
        )


@dataclass(frozen=True, slots=True)
class Setup:
    """Everything an agent needs besides the nodes.

    Attributes:
        jobs: those that it plays a part of, by their number in the session, from 0.
        networks: prefixes of ranks elsewhere on the same link.
        alternate_networks: those of their second addresses, to which the second addresses of its ranks send.
        flows: that it plays beside its ranks.
        report_interval_ns: completions are collected for so long.
    """

    jobs: Mapping[int, JobSetup]
    networks: Sequence[NumericPrefix] = ()
    flows: Sequence[FlowTask] = ()
    report_interval_ns: int = REPORT_INTERVAL_NS
    alternate_networks: Sequence[NumericPrefix] = ()

    @property
    def ranks(self) -> list[RankPlace]:
        """The ranks of all jobs."""
        return [place for job in self.jobs.values() for place in job.ranks]

    @property
    def address_users(self) -> list[RankPlace | AlternateAddress | FlowTask]:
        """All that an agent needs an address for."""
        alternates = [one for place in self.ranks if (one := place.alternate_address) is not None]
        return [*self.ranks, *alternates, *self.flows]


@dataclass(frozen=True, slots=True)
class Bound:
    """Where the agent's ranks listen, and the interfaces that carry their addresses."""

    places: Places
    nics: Sequence[NicFacts] = ()


@dataclass(frozen=True, slots=True)
class Directory:
    """Where every rank listens."""

    places: Places


@dataclass(frozen=True, slots=True)
class Credit:
    """The agent has room for `nodes` more nodes of the rank."""

    rank: int
    nodes: int


@dataclass(frozen=True, slots=True)
class Ready:
    """Every rank of the agent holds the first nodes of the next iteration."""


@dataclass(frozen=True, slots=True)
class Prepare:
    """All ranks are done with the iteration before: fill the windows for this one."""

    iteration: int


@dataclass(frozen=True, slots=True)
class Begin:
    """All jobs are ready: the session begins when the agent's clock reaches `at_ns`."""

    at_ns: int


@dataclass(frozen=True, slots=True)
class Start:
    """Begin the iteration when the agent's clock reaches `at_ns`.

    Attributes:
        through: the last iteration that a rank begins without being told, as soon as it has completed the one before.
    """

    iteration: int
    at_ns: int
    through: int


@dataclass(frozen=True, slots=True)
class Continue:
    """Ranks begin all iterations up to this one without being told."""

    through: int


@dataclass(frozen=True, slots=True)
class WantSteps:
    """Send the recorded steps of these instances of the iteration, which are done on all ranks."""

    iteration: int
    instances: Sequence[int]


@dataclass(frozen=True, slots=True)
class IterationDone:
    """Every rank of the agent has completed the iteration.

    Attributes:
        start_ahead_ns: its Start was read so long before its moment, negative: after it; 0: it began without one.
    """

    iteration: int
    ranks: Sequence[RankSummary]
    start_ahead_ns: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """A sign of life.

    Attributes:
        bytes_sent: payload that its receivers have acknowledged, since the run began.
        events: completed nodes, since the run began.
        computing: a rank is replaying compute time.
        waiting_on: what ranks wait for, in words.
        silence: when nothing moves, a rank and the peer that owes it an acknowledgement longest.
        silence_ns: for how long that peer has sent it none.
    """

    bytes_sent: int
    events: int
    computing: bool
    waiting_on: str
    silence: Sequence[int] = ()
    silence_ns: int = 0

    def has_moved(self, earlier: Progress | None) -> bool:
        """Whether anything happened between the two, or a rank is computing."""
        return self.computing or earlier is None or self._state() != earlier._state()

    def _state(self) -> tuple[object, ...]:
        return self.bytes_sent, self.events, self.computing, self.waiting_on


@dataclass(frozen=True, slots=True)
class Finish:
    """All iterations of the job are played: report its counters."""


@dataclass(frozen=True, slots=True)
class Leave:
    """All jobs are over: end the flows beside them, report those, and leave."""


@dataclass(frozen=True, slots=True)
class Left:
    """The agent has reported everything."""


@dataclass(frozen=True, slots=True)
class Farewell:
    """The agent's last words about a job.

    Attributes:
        flows: each as far as this end knows it.
        post_lateness_median_ns: how late communications were posted.
        transport: what it found out: buffers, offloads, drops by reason.
        steal_fraction: of the cores' time during play, which the host gave to other virtual machines.
        core_wait_fraction: of the time that the agent wanted a core during play, it had none.
        steps_lost: ranks' parts of every Nth instance whose steps did not fit the agent's memory.
        timeline: what flows carried by time; None: that is not recorded.
        migrations: whenever traffic of its ranks moved to another path.
    """

    flows: Sequence[FlowCounters]
    peak_rss_bytes: int
    post_lateness_median_ns: Count
    transport: Mapping[str, Parameter] = field(default_factory=dict)
    steal_fraction: Share | None = None
    core_wait_fraction: Share | None = None
    steps_lost: int = 0
    timeline: Timeline | None = None
    migrations: Sequence[Migration] = ()


@dataclass(frozen=True, slots=True)
class Abort:
    """Stop at once; `ranks` are those concerned, where it is about some: two whose transfers failed."""

    reason: str
    ranks: Sequence[int] = ()


AgentValue: TypeAlias = (
    Hello
    | Proof
    | Bound
    | Credit
    | Ready
    | Completions
    | ComputeSpans
    | FlowEvents
    | StepRecords
    | ChainRecords
    | IterationDone
    | Progress
    | Farewell
    | Abort
    | ClockReply
    | FlowReport
    | Left
)
ControllerValue: TypeAlias = (
    Challenge
    | Signed
    | Welcome
    | Setup
    | Directory
    | Prepare
    | Chunk
    | Begin
    | Start
    | Continue
    | Finish
    | Leave
    | Abort
    | ClockQuery
    | Renew
    | Wait
    | WantSteps
)


class JobMessage(NamedTuple, Generic[V]):
    """A value on its way, and the number of the job that it is about; None: of no job."""

    value: V
    job: int | None = None
