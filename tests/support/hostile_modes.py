"""Peers that do harm in one way each: an agent or a controller that is honest but for one kind of message.

A run has a controller and two agents, real ones, in one process over real gRPC and sockets of loopback. What the
hostile one sends is replaced where it is queued.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from agents.agent import Agent
from agents.control_link import ControlLink
from agents.host.limits import Limits
from agents.host.ports import Ports
from emulator.control import conversation as control
from emulator.control.flows import FlowReport, FlowTask
from emulator.control.observations import Completions, ComputeSpans, FlowCounters, FlowEvents, RankSteps, StepRecords
from emulator.control.parameter import Parameter
from emulator.controller.roster.control_service import AgentChannel
from emulator.controller.roster.listen_address import ListenAddress
from emulator.controller.run_plan import SessionPlan
from emulator.controller.session import JobSession
from emulator.errors import EmulatorError
from emulator.planner.rank_program import Chunk
from emulator.trace.files.load import load_trace
from tests.support.hostile_control import Observer
from tests.support.loopback import NET
from tests.support.plans import run_plan
from tests.support.trace_files import collective, write

HONEST, HOSTILE = "a", "b"
HOSTS = (f"{NET}.0.1", f"{NET}.0.2")
PUBLIC, EVIL = "8.8.8.8", "evil\x1b[31m\n\u202e"
FAR = 2**62
Change = Callable[[Any], Any]
"""A value -> what is sent in its place: a value, several, or None."""


@dataclass(frozen=True, slots=True)
class Mode:
    """A way to do harm.

    Attributes:
        of: kind of the message that is replaced.
        change: see Change.
        says: pattern of how the run ends for the controller if an agent is hostile, for the agent if the controller is.
        limits: of the agent that a hostile controller commands.
    """

    of: type[Any]
    change: Change
    says: str
    limits: Limits = field(default_factory=Limits)

    def sent(self, value: Any) -> list[Any]:
        """What leaves in place of a value."""
        changed = self.change(value) if isinstance(value, self.of) else value
        return changed if isinstance(changed, list) else [] if changed is None else [changed]


@dataclass(frozen=True, slots=True)
class Ends:
    """How a run ended, in words, for its controller and for each of its agents; "complete" if nothing was wrong."""

    controller: str
    agents: Mapping[str, str]


def _all(values: Any, value: int) -> Any:
    return np.full_like(values, value)


def _columns(value: Any, **columns: int) -> Any:
    return replace(value, **{name: _all(getattr(value, name), number) for name, number in columns.items()})


def _summaries(**fields: int) -> Change:
    return lambda value: replace(value, ranks=[replace(one, **fields) for one in value.ranks])


def _beside(*more: Any) -> Change:
    return lambda value: [value, *more]


def _flows(value: control.Farewell, **fields: Any) -> control.Farewell:
    return replace(value, flows=[replace(one, **fields) for one in value.flows])


_ONE = np.ones(1, np.int64)
_STEPS = StepRecords(-1, [RankSteps(-1, 0, 0, 0, *[[1]] * 10)])

AGENT_MODES: Mapping[str, Mode] = {
    "listens at a public address": Mode(
        control.Bound,
        lambda value: replace(value, places=dict.fromkeys(value.places, control.Address(PUBLIC, 53))),
        "agent b says that rank 1 listens at 8.8.8.8 port 53, which it was not given",
    ),
    "listens for another": Mode(
        control.Bound,
        lambda value: replace(value, places={0: control.Address(HOSTS[0], 4791)}),
        "agent b says that rank 0 listens at .*, which it was not given",
    ),
    "listens for all": Mode(
        control.Bound,
        lambda value: replace(value, places={**value.places, 0: control.Address(HOSTS[0], 4791)}),
        "agent b says that rank 0 listens at .*, which it was not given",
    ),
    "listens nowhere": Mode(
        control.Bound, lambda value: replace(value, places={}), "agent b bound other ranks than it was given"
    ),
    "binds twice": Mode(control.Bound, lambda value: [value, value], "agent b spoke out of turn"),
    "completes for another": Mode(
        Completions, lambda value: _columns(value, rank=0), "agent b sent completions of rank 0, which it does not play"
    ),
    "completes for nobody": Mode(
        Completions, lambda value: _columns(value, rank=7), "agent b sent completions of rank 7, which it does not play"
    ),
    "completes what is not in the trace": Mode(
        Completions,
        lambda value: _columns(value, node_id=FAR),
        "agent b sent a completion of node 4611686018427387904 of rank 1, which is not a comm",
    ),
    "completes nothing": Mode(
        Completions, lambda value: None, "agent b ended iteration -1, but 2 of 2 completions are missing"
    ),
    "completes twice": Mode(
        Completions, lambda value: [value, value], "agent b sent more completions of iteration -1 than its ranks have"
    ),
    "completes before it began": Mode(
        Completions,
        lambda value: _columns(value, post_ns=0, done_ns=0),
        "agent b sent completions with times .* s before the iteration began",
    ),
    "completes in the future": Mode(
        Completions,
        lambda value: _columns(value, done_ns=FAR),
        "agent b sent completions with times .* s in the future",
    ),
    "completes what arrived before it began": Mode(
        Completions,
        lambda value: _columns(value, arrival_ns=1),
        "agent b sent completions with times .* s before the iteration began",
    ),
    "completes before it posted": Mode(
        Completions,
        lambda value: _columns(value, done_ns=0),
        "agent b sent completions that ended before they were posted",
    ),
    "completes another iteration": Mode(
        Completions,
        lambda value: replace(value, iteration=999),
        "agent b sent Completions of iteration 999, which has not begun",
    ),
    "computes for another": Mode(
        Completions,
        _beside(ComputeSpans(-1, _ONE * 0, _ONE, _ONE)),
        "agent b sent compute spans of rank 0, which it does not play",
    ),
    "records steps of another": Mode(
        Completions, _beside(_STEPS), "agent b sent steps of rank 0, which it does not play"
    ),
    "ends for another": Mode(
        control.IterationDone, _summaries(rank=0), "agent b ended iteration -1 for other ranks than it plays"
    ),
    "ends for nobody": Mode(
        control.IterationDone,
        lambda value: replace(value, ranks=[]),
        "agent b ended iteration -1 for other ranks than it plays",
    ),
    "ends another iteration": Mode(
        control.IterationDone,
        lambda value: replace(value, iteration=999_999),
        "agent b sent IterationDone of iteration 999999, which has not begun",
    ),
    "ends in the future": Mode(
        control.IterationDone, _summaries(end_ns=FAR), "agent b sent summaries with times .* s in the future"
    ),
    "began before all": Mode(
        control.IterationDone,
        _summaries(start_ns=-FAR),
        "agent b sent summaries with times .* s before the iteration began",
    ),
    "ends before it began": Mode(
        control.IterationDone,
        _summaries(start_ns=FAR, end_ns=-FAR),
        "agent b sent summaries that ended before they began|before the iteration began",
    ),
    "computes for longer than there was": Mode(
        control.IterationDone, _summaries(compute_ns=FAR), "agent b sent summaries with .* s, longer than the iteration"
    ),
    "has room for another": Mode(
        control.Ready, _beside(control.Credit(0, 1)), "agent b sent Credit for rank 0, which it does not play"
    ),
    "has room without end": Mode(
        control.Ready,
        _beside(control.Credit(1, FAR)),
        "agent b is lost .the peer sent a malformed credit message: numbers that no run reaches",
    ),
    "floods the controller": Mode(
        control.Ready,
        _beside(*[control.Progress(number, number, True, "") for number in range(3000)]),
        "agent b sent more than .* reports of its progress",
    ),
    "is ready twice": Mode(control.Ready, lambda value: [value, value], "agent b spoke out of turn"),
    "leaves at once": Mode(
        control.Ready, lambda value: control.Left(), "nothing happened for 3 s while waiting for agents b"
    ),
    "counts flows of others": Mode(
        control.Farewell,
        lambda value: _flows(value, src=0, dst=0),
        "agent b sent counters of a flow from rank 0 to rank 0, which it has not",
    ),
    "counts flows of nobody": Mode(
        control.Farewell,
        lambda value: _flows(value, dst=2**31),
        "agent b sent counters of a flow from rank 1 to rank 2147483648, which it has not",
    ),
    "counts what is no number": Mode(
        control.Farewell,
        lambda value: replace(value, steal_fraction=float("nan")),
        "agent b is lost .* steal_fraction is not a finite number",
    ),
    "was stolen less than nothing from": Mode(
        control.Farewell,
        lambda value: replace(value, steal_fraction=-0.5),
        "agent b is lost .* malformed farewell message: -0.5 is not a share from 0 to 1",
    ),
    "waited for cores longer than there was": Mode(
        control.Farewell,
        lambda value: replace(value, core_wait_fraction=1.5),
        "agent b is lost .* malformed farewell message: 1.5 is not a share from 0 to 1",
    ),
    "was early by median": Mode(
        control.Farewell,
        lambda value: replace(value, post_lateness_median_ns=-1),
        "agent b is lost .* malformed farewell message: -1 is negative",
    ),
    "sent by pigeon": Mode(
        control.Farewell,
        lambda value: _flows(value, medium="pigeon"),
        "agent b is lost .* malformed farewell message: 'pigeon' is not a valid Medium",
    ),
    "counts a flow twice": Mode(
        control.Farewell,
        lambda value: replace(value, flows=[*value.flows, *value.flows]),
        "agent b sent counters of the flow from rank 1 to rank 0 twice|from rank 0 to rank 1 twice",
    ),
    "counts a flow twice in an iteration": Mode(
        control.IterationDone,
        _beside(FlowEvents(-1, [FlowCounters(1, 0, retransmits=1)] * 2)),
        "agent b sent counters of the flow from rank 1 to rank 0 twice",
    ),
    "transports without measure": Mode(
        control.Farewell,
        lambda value: replace(value, transport={"x": Parameter(1e300)}),
        "agent b is lost .* malformed farewell message: numbers that no run reaches .ratio.",
    ),
    "says farewell twice": Mode(control.Farewell, lambda value: [value, value], "agent b sent its counters twice"),
    "speaks about another job": Mode(
        control.Ready, lambda value: FlowReport(7, True, []), "agent b sent FlowReport about a job"
    ),
    "introduces itself again": Mode(
        control.Ready,
        lambda value: control.Hello(3, 3, HONEST, 1, "h", "0", 0, bytes(16)),
        "agent b sent Hello about a job",
    ),
    "proves itself again": Mode(
        control.Ready, lambda value: control.Proof(bytes(32)), "agent b sent Proof about a job"
    ),
    "gives up with control characters": Mode(
        control.Ready, lambda value: control.Abort(EVIL, (2**31,)), "agent b: evil"
    ),
    "answers what was not asked": Mode(control.Ready, _beside(control.ClockReply(FAR, FAR, FAR)), "complete"),
}


def _jobs(**fields: Any) -> Change:
    return lambda setup: replace(setup, jobs={number: replace(job, **fields) for number, job in setup.jobs.items()})


def _ranks(**fields: Any) -> Change:
    return _with_ranks(lambda ranks: [replace(one, **fields) for one in ranks])


def _with_ranks(change: Callable[[Sequence[control.RankPlace]], Sequence[control.RankPlace]]) -> Change:
    return lambda setup: replace(
        setup, jobs={number: replace(job, ranks=change(job.ranks)) for number, job in setup.jobs.items()}
    )


_twice = _with_ranks(lambda ranks: [*ranks, *ranks])


def _places(places: Mapping[int, tuple[str, int]]) -> Change:
    given = {rank: control.Address(*place) for rank, place in places.items()}
    return lambda directory: replace(directory, places={**directory.places, **given})


_last_cap = _with_ranks(
    lambda ranks: [
        replace(ranks[0], port=ranks[0].port._replace(cap_bps=10**11)),
        replace(ranks[0], rank=0, port=ranks[0].port._replace(cap_bps=1000)),
    ]
)


_TASK = FlowTask(0, "perftest", "f", PUBLIC, "", "{}")
CONTROLLER_MODES: Mapping[str, Mode] = {
    "a rank at a public address": Mode(
        control.Setup, _ranks(host=PUBLIC), "rank 1 is at 8.8.8.8, but this agent may use only"
    ),
    "a rank at no address": Mode(
        control.Setup, _ranks(host="127.0.0.1\n"), "a malformed setup message: '127.0.0.1.n' does not appear to be"
    ),
    "a rank at a multicast address": Mode(
        control.Setup, _ranks(host="239.1.1.1"), "rank 1 is at 239.1.1.1, but this agent may use only"
    ),
    "a rank twice": Mode(control.Setup, _twice, "a malformed setup message: messages of no size, or a rank twice"),
    "messages of no size": Mode(
        control.Setup, _jobs(message_bytes=0), "a malformed setup message: messages of no size, or a rank twice"
    ),
    "messages without end": Mode(control.Setup, _jobs(message_bytes=2**63), "complete"),
    "queue pairs without end": Mode(control.Setup, _jobs(options={"qps": 1000000}), "--qps 1000000: from 1 to 64"),
    "an option that there is not": Mode(
        control.Setup, _jobs(options={"; reboot": 1}), "RoCEv2 over UDP has no option '; reboot'"
    ),
    "a transport that there is not": Mode(
        control.Setup, _jobs(transport="../../etc"), "there is no transport '../../etc'"
    ),
    "an interface with a command": Mode(control.Setup, _ranks(interface="lo; touch pwned"), "complete"),
    "a damaged algorithm": Mode(
        control.Setup,
        lambda setup: _jobs(settings=replace(setup.jobs[0].settings, algorithm_files={"x": "<algo>" + "<gpu>" * 100}))(
            setup
        ),
        "x:1: <gpu> in <gpu>",
    ),
    "a wide route": Mode(
        control.Setup,
        lambda setup: replace(setup, networks=["10.0.0.0/8"]),
        "a route to 10.0.0.0/8, but this agent adds none wider than /24",
    ),
    "a route to nobody": Mode(
        control.Setup,
        lambda setup: replace(setup, networks=["10.9.9.0/24"]),
        "a route to 10.9.9.0/24, where none of its ranks is",
    ),
    "a flow to a public address": Mode(
        control.Setup, lambda setup: replace(setup, flows=[_TASK]), "f is at 8.8.8.8, but this agent may use only"
    ),
    "no rate cap": Mode(
        control.Setup,
        lambda setup: setup,
        "rank 1 has no rate cap, but this agent has --max-rate",
        Limits(rate_bps=10**7),
    ),
    "a false rate cap": Mode(
        control.Setup,
        _last_cap,
        "the run may send 100 Gbit/s at a port, but this agent allows 0.01 Gbit/s",
        Limits(rate_bps=10**7),
    ),
    "a transport without rate": Mode(
        control.Setup, _jobs(transport="zmq"), "the transport zmq does not limit its rate", Limits(rate_bps=10**7)
    ),
    "reports without end": Mode(
        control.Setup,
        lambda setup: replace(setup, report_interval_ns=2**63 - 1),
        "a malformed setup message: reports more than a second apart",
    ),
    "the setup twice": Mode(
        control.Setup, lambda setup: [setup, setup], "the controller sent Setup about a job of other agents"
    ),
    "no setup": Mode(control.Setup, lambda setup: control.Finish(), "the controller sent Finish instead of Setup"),
    "a public peer": Mode(
        control.Directory, _places({0: (PUBLIC, 4791)}), "rank 0 is at 8.8.8.8, but this agent may use only"
    ),
    "a peer outside the topology": Mode(
        control.Directory,
        _places({0: ("10.0.0.1", 4791)}),
        "rank 0 is at 10.0.0.1, which the topology does not name",
        Limits(addresses=frozenset(HOSTS)),
    ),
    "another place for its own rank": Mode(
        control.Directory, _places({1: ("10.0.0.1", 4791)}), "sent another place for rank 1 than where it listens"
    ),
    "another port for its own rank": Mode(
        control.Directory, _places({1: (HOSTS[1], 53)}), "sent another place for rank 1 than where it listens"
    ),
    "a port that is none": Mode(control.Directory, _places({0: (HOSTS[0], 2**31)}), "complete"),
    "no peers": Mode(
        control.Directory,
        lambda value: replace(value, places={}),
        "sent another place for rank 1 than where it listens",
    ),
    "the directory twice": Mode(control.Directory, lambda value: [value, value], "rank 1 is connected already"),
    "nodes of another rank": Mode(
        Chunk, lambda value: replace(value, rank=0), "the controller sent nodes of rank 0, which does not play here"
    ),
    "nodes out of order": Mode(
        Chunk,
        lambda value: replace(value, first_position=FAR),
        "a malformed chunk message: communications that are not those of its nodes",
    ),
    "a start before all": Mode(
        control.Start,
        lambda value: replace(value, at_ns=-FAR),
        "agent b sent completions with times .* s before the iteration began|numbers that no run reaches",
    ),
    "another iteration": Mode(
        control.Start,
        lambda value: replace(value, iteration=7, through=7),
        "agent b sent Completions of iteration 7, which has not begun",
    ),
    "the end before the begin": Mode(
        control.Start, lambda value: control.Finish(), "nothing happened for 3 s while waiting for rank 0"
    ),
    "a message of another job": Mode(
        control.Start,
        _beside(control.Prepare(0)),
        "the controller sent Prepare before the iteration was over|agent b spoke out of turn",
    ),
}


class HostileLink(ControlLink):
    """The link of an agent that sends something else in a mode."""

    def __init__(self, target: str, mode: Mode) -> None:
        super().__init__(target)
        self._mode = mode

    def send(self, value: control.AgentValue, job: int | None = None) -> None:
        for one in self._mode.sent(value):
            super().send(one, job)


def session_plan(folder: Path) -> SessionPlan:
    """Two all-reduces of two ranks, each with an agent that dials in."""
    folder.mkdir(exist_ok=True)
    for rank in range(2):
        write(folder / f"t.{rank}.et", [collective(1), collective(2, ctrl_deps=[1])])
    job = run_plan(
        load_trace(folder).traces,
        {HONEST: [0], HOSTILE: [1]},
        iterations=range(-1, 2),
        silence_timeout_s=3,
        transport="roce",
        hosts=HOSTS,
        is_local=False,
    )
    listening = ListenAddress(f"unix:{folder}/control")
    return SessionPlan("run", [job], listening=listening, join_timeout_s=20)


async def play(plan: SessionPlan, mode: Mode, *, is_agent: bool) -> Ends:
    """Play a run in which an agent, or the controller towards one, is hostile."""
    session = JobSession(plan, [Observer()])  # type: ignore[list-item]
    if not is_agent:
        _make_hostile(session, mode)
    target = plan.listening.target
    agents = {}
    for name in (HONEST, HOSTILE):
        limits = mode.limits if name == HOSTILE else Limits()
        agents[name] = Agent(target, token="", name=name, ports=Ports(()), limits=limits, stays=True)
    if is_agent:
        agents[HOSTILE]._link = HostileLink(target, mode)
    playing = asyncio.create_task(_ended(session.play()))
    ends = [asyncio.create_task(_ended(agent.run())) for agent in agents.values()]
    await asyncio.wait([playing], timeout=60)
    controller, *found = [await _result(one) for one in (playing, *ends)]
    return Ends(controller, dict(zip(agents, found, strict=True)))


async def _result(end: asyncio.Task[str]) -> str:
    _, late = await asyncio.wait([end], timeout=20)
    if not late:
        return end.result()
    end.cancel()
    await asyncio.wait([end])
    return "hangs"


def _make_hostile(session: JobSession, mode: Mode) -> None:
    admit = session._roster.admit

    def admitted(channel: AgentChannel) -> str | None:
        if channel.hello.agent == HOSTILE:
            send = channel.send

            def replaced(value: control.ControllerValue, job: int | None = None) -> None:
                for one in mode.sent(value):
                    send(one, job)

            channel.send = replaced  # type: ignore[method-assign]
        return admit(channel)

    session._roster.admit = admitted  # type: ignore[method-assign]


async def _ended(work: Any) -> str:
    try:
        await work
    except EmulatorError as error:
        return f"{type(error).__name__}: {error}"
    return "complete"
