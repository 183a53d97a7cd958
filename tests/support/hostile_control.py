"""Control messages of somebody who means harm: valid, out of order, with impossible numbers, damaged, random, huge.

`python -m tests.support.hostile_control [controller|agent] [COUNT]` sends that many and prints what came of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import grpc
import numpy as np
from scipy.stats import linregress

from agents.agent import Agent
from agents.control_link import ControlLink
from agents.host.limits import Limits
from agents.host.ports import Ports
from emulator.control import conversation as control
from emulator.control.authentication import Binding, Purpose, code_of, new_nonce
from emulator.control.flows import FlowReport, FlowTask
from emulator.control.observations import Completions, ComputeSpans, FlowEvents, RankSteps, RankSummary, StepRecords
from emulator.control.wire.codec import decode_controller, encode_agent, encode_controller
from emulator.control.wire.descriptions import Sealer
from emulator.controller.roster.control_service import ControlService, Keys
from emulator.controller.run_plan import SessionPlan
from emulator.controller.session import JobSession
from emulator.errors import EmulatorError
from emulator.host.clock import clock_id
from emulator.planner.rank_program import Chunk, PlannedCommunication, PlaySettings
from emulator.trace.files.load import load_trace
from emulator.trace.meaning.model import CommKind, Resource
from emulator.transports.registry import VerbsOptions
from tests.support.mutants import damaged_bytes, damaged_message
from tests.support.plans import run_plan
from tests.support.trace_files import collective, write

KEY = b"a key of the lab"
LONGEST = 400
"""Messages of a conversation."""
NUMBERS = (0, 1, 2, 7, 255, 2**16, 2**31 - 1, 2**32 - 1, 2**63 - 1)
HELLO = control.Hello(control.OLDEST_VERSION, control.NEWEST_VERSION, "a", 1, "h", "0", 0, bytes(16))


class Anything:
    """Values and bytes of one seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def number(self, bits: int = 31) -> int:
        """Small, or at an edge."""
        edge = self.random.choice(NUMBERS)
        return self.random.randrange(3) if self.random.random() < 0.7 or edge >= 1 << bits else edge

    def signed(self) -> int:
        return self.number() * self.random.choice((1, 1, -1))

    def column(self, count: int, kind: Any) -> np.ndarray[Any, Any]:
        return np.array([self.number() for _ in range(count)], kind)

    def damaged(self, content: bytes) -> bytes:
        """The same message with other fields, or other bytes, or a long one."""
        if self.random.random() < 0.01:
            return content + b"\xf2\x3f\x80\x80\x40" + bytes(1 << 20)  # an unknown field of a mebibyte
        return self.random.choice((damaged_message, damaged_bytes))(content, self.random)

    def agent_value(self) -> control.AgentValue:
        count, number = self.random.randrange(3), self.number
        return self.random.choice(AGENT_VALUES)(self, count, number)

    def controller_value(self, host: str) -> control.ControllerValue:
        return self.random.choice(CONTROLLER_VALUES)(self, self.number, host)

    def job(self) -> int | None:
        return 0 if self.random.random() < 0.98 else self.random.choice((None, 1, 2**31))


def _completions(any_: Anything, count: int, _: Any) -> Completions:
    kinds = (np.int64, np.uint64, *[np.int64] * 5, np.bool_, np.int64, np.int64)
    return Completions(any_.signed(), *[any_.column(count, kind) for kind in kinds])


def _steps(any_: Anything, count: int, number: Any) -> StepRecords:
    columns = [[number() for _ in range(count)] for _ in range(10)]
    iteration = any_.signed()
    return StepRecords(iteration, [RankSteps(iteration, number(), number(), number(), *columns)])


AGENT_VALUES: list[Callable[[Anything, int, Any], control.AgentValue]] = [
    lambda a, c, n: replace(HELLO, agent=a.random.choice(("a", "b", "x\x1b"))),
    lambda a, c, n: control.Proof(bytes(n(8))),
    lambda a, c, n: control.Bound({n(): control.Address("127.0.0.1", n()) for _ in range(c)}),
    lambda a, c, n: control.Bound({0: control.Address("127.0.0.1", 9)}),
    lambda a, c, n: control.Credit(n(), n(63)),
    lambda a, c, n: control.Ready(),
    _completions,
    lambda a, c, n: ComputeSpans(a.signed(), *[a.column(c, np.int64) for _ in range(3)]),
    lambda a, c, n: FlowEvents(a.signed(), []),
    _steps,
    lambda a, c, n: control.IterationDone(a.signed(), [RankSummary(n(), n(), n(), n(), n(), n()) for _ in range(c)]),
    lambda a, c, n: control.Progress(n(63), n(63), c == 1, "x" * n(8), [n()] * c, n(63)),
    lambda a, c, n: control.Farewell([], n(63), a.signed()),
    lambda a, c, n: control.ClockReply(a.signed(), a.signed(), a.signed()),
    lambda a, c, n: FlowReport(n(), c == 1, []),
    lambda a, c, n: control.Left(),
    lambda a, c, n: control.Abort("\x1b[2J" * c, (n(),) * c),
]


def _setup(any_: Anything, number: Any, host: str) -> control.Setup:
    settings = PlaySettings(
        credits=True,
        instances=number(63),
        algorithms=("ring",) * any_.random.randrange(2),
        groups=[[0, 1], [number(), number()]][: any_.random.randrange(3)],
        record_steps=any_.random.choice((0, 0, -1, 1)),
    )
    places = [control.RankPlace(rank, host, number(63), number(63)) for rank in (0, number())[: any_.number() % 3]]
    transport = any_.random.choice(("roce", "roce", "zmq", "none"))
    flows = [FlowTask(0, "perftest", "f", host, "", "{}")] if any_.random.random() < 0.05 else []
    options = VerbsOptions(dscp=7) if any_.random.random() < 0.1 else None
    job = control.JobSetup(
        "r", places, transport, any_.random.choice((1, 4096, 1 << 20, number())), 0, settings, options
    )
    return control.Setup({number() % 2: job for _ in range(any_.random.choice((1, 1, 1, 0, 2)))}, (), flows)


def _chunk(any_: Anything, number: Any, _: str) -> Chunk:
    count, first = any_.random.randrange(4), number(40)
    resources = [any_.random.choice(list(Resource)) for _ in range(count)]
    dependencies = [any_.random.randrange(2) for _ in range(count)]
    planned = PlannedCommunication(
        kind=any_.random.choice(list(CommKind)),
        group=number(),
        size_bytes=number(63),
        instance=number(63),
        peer=number(),
        root=number(),
        algorithm=number(),
    )
    return Chunk(
        rank=number(),
        first_position=first,
        node_id=any_.column(count, np.uint64),
        resource=np.array(resources, np.uint32),
        duration_ns=any_.column(count, np.uint64),
        dependencies=np.array(dependencies, np.uint32),
        distance=any_.column(sum(dependencies), np.uint64),
        communications={first + k: planned for k, one in enumerate(resources) if one is Resource.NETWORK},
    )


CONTROLLER_VALUES: list[Callable[[Anything, Any, str], control.ControllerValue]] = [
    lambda a, n, h: control.Welcome(n()),
    _setup,
    lambda a, n, h: control.Directory({0: control.Address(h, 4791), n(): control.Address(h, n(16))}),
    lambda a, n, h: control.Prepare(a.signed()),
    _chunk,
    _chunk,
    lambda a, n, h: control.Begin(a.signed()),
    lambda a, n, h: control.Start(a.signed(), a.signed(), a.number(8)),
    lambda a, n, h: control.Continue(a.number(8)),
    lambda a, n, h: control.Finish(),
    lambda a, n, h: control.Leave(),
    lambda a, n, h: control.ClockQuery(a.signed()),
    lambda a, n, h: control.Wait("x"),
    lambda a, n, h: control.WantSteps(a.signed(), (n(63),)),
    lambda a, n, h: control.Challenge("r", bytes(n(8)), ()),
]


# --- to a controller --------------------------------------------------------------------------------------------


class Refused(grpc.aio.AbortError):
    """The service ended the stream."""


class Context:
    """What gRPC gives a service."""

    def __init__(self) -> None:
        self.written = asyncio.Queue[bytes]()

    async def write(self, message: bytes) -> None:
        self.written.put_nowait(message)

    async def abort(self, code: grpc.StatusCode, reason: str) -> None:
        raise Refused(reason)

    def auth_context(self) -> dict[str, list[bytes]]:
        return {}

    def peer(self) -> str:
        return "ipv4:192.0.2.1:5"


class Observer:
    """Takes what is reported."""

    def wanted_steps(self) -> dict[int, list[int]]:
        return {}

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


async def _hostile_agent(any_: Anything, context: Context, name: str, heard: Counter[str]) -> AsyncIterator[bytes]:
    if any_.random.random() < 0.98:
        hello = replace(HELLO, agent=name, nonce=new_nonce(), clock_id=clock_id())
        yield encode_agent(hello)
        challenge = decode_controller(await context.written.get()).value
        binding = Binding(challenge.run_id, hello.agent, hello.nonce, challenge.nonce)
        yield encode_agent(control.Proof(code_of(KEY, binding.statement(Purpose.AGENT))))
    usual = _usual_of_an_agent("ab".index(name))
    while True:
        value = next(usual) if any_.random.random() < 0.85 else any_.agent_value()
        content = encode_agent(value, any_.job())
        heard["messages"] += 1
        yield any_.damaged(content) if any_.random.random() < 0.05 else content
        await asyncio.sleep(0)


def _usual_of_an_agent(rank: int) -> Iterator[control.AgentValue]:
    """What agents say, in a good order."""
    yield control.Bound({rank: control.Address(f"127.1.0.{rank + 1}", 9)})
    yield control.Ready()
    for iteration in range(-1, 2):
        for number in range(8):
            yield control.Progress(number, number, False, "rank 0: waits")
            yield control.Credit(rank, 1)
            one = np.ones(1, np.int64)
            columns = [one * rank, one.astype(np.uint64), *[one] * 5, one.astype(np.bool_), one, one]
            yield Completions(iteration, *columns)
        yield control.IterationDone(iteration, [RankSummary(rank, 0, 1, 0, 0, 0)])
        yield control.Ready()
    yield control.Farewell([], 1, 1)
    yield control.Left()
    while True:
        yield control.Progress(1, 1, False, "")


def plan(folder: Path) -> SessionPlan:
    for rank in (0, 1):
        write(folder / f"t.{rank}.et", [collective(1)])
    job = run_plan(load_trace(folder).traces, {"a": [0], "b": [1]}, iterations=range(-1, 2), silence_timeout_s=10)
    return SessionPlan("run", [job])


async def attack_controller(any_: Anything, session_plan: SessionPlan, heard: Counter[str]) -> str:
    """How a session ends that two hostile agents join."""
    session = JobSession(session_plan, [Observer()])  # type: ignore[list-item]
    session._over = asyncio.get_running_loop().create_future()
    service = ControlService(session._roster, keys=Keys([KEY]), run_id="run")

    async def dial(name: str) -> None:
        context = Context()
        with contextlib.suppress(Refused):
            await service._session(_hostile_agent(any_, context, name, heard), context)

    agents = [asyncio.create_task(dial(name)) for name in "ab"]
    await asyncio.wait([*agents, session._over], timeout=0.3, return_when=asyncio.FIRST_EXCEPTION)
    for agent in agents:
        if agent.done():
            agent.result()
        agent.cancel()
    await asyncio.wait(agents)
    if not session._over.done():
        return "goes on"
    error = session._over.exception()
    return "over" if error is None else f"{type(error).__name__}: {error}"


# --- to an agent ------------------------------------------------------------------------------------------------


class Feed(ControlLink):
    """A link on whose other end is a hostile controller that has the key."""

    def __init__(self, any_: Anything, heard: Counter[str]) -> None:
        super().__init__("unix:none")
        self._any, self._heard, self._call = any_, heard, self
        self._incoming = self._messages()

    async def __aenter__(self) -> Feed:
        self._writer = asyncio.create_task(self._write())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.cancel()

    async def write(self, message: bytes) -> None:
        await asyncio.sleep(0)

    async def done_writing(self) -> None:
        pass

    async def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.OK

    async def details(self) -> str:
        return ""

    def send(self, value: control.AgentValue, job: int | None = None) -> None:
        if isinstance(value, control.Hello):
            self._hello = value
        super().send(value, job)

    async def read(self) -> Any:
        await asyncio.sleep(0)
        return next(self._incoming, grpc.aio.EOF)  # type: ignore[attr-defined]

    def _messages(self) -> Iterator[bytes]:
        any_, nonce = self._any, new_nonce()
        host = "127.66.0.1"
        binding = Binding("r", self._hello.agent, self._hello.nonce, nonce)
        sealer = Sealer(binding, KEY)
        own = code_of(KEY, binding.statement(Purpose.CONTROLLER))
        yield encode_controller(control.Challenge("r", nonce, [own]))
        usual = _usual_of_a_controller(host)
        for number in range(LONGEST):
            value = next(usual) if any_.random.random() < 0.93 else any_.controller_value(host)
            content = sealer.encode(value, None if number < 2 else any_.job())
            self._heard["messages"] += 1
            yield any_.damaged(content) if any_.random.random() < 0.03 else content


def _usual_of_a_controller(host: str) -> Iterator[control.ControllerValue]:
    """What a controller says, in a good order, to an agent whose rank has no peer to wait for."""
    settings = PlaySettings(credits=True, instances=1, algorithms=(), groups=[[0]])
    places = [control.RankPlace(0, host, 2, 2)]
    yield control.Welcome(control.NEWEST_VERSION)
    yield control.Setup({0: control.JobSetup("r", places, "roce", 1 << 20, 0, settings)})
    yield control.Directory({0: control.Address(host, 4791)})
    yield control.Prepare(0)
    nothing = np.zeros(2, np.uint64)
    yield Chunk(0, 0, nothing, np.zeros(2, np.uint32), nothing, np.zeros(2, np.uint32), nothing[:0], {})
    for iteration in range(LONGEST):
        yield control.Start(iteration, 0, iteration)
        yield from [control.ClockQuery(1)] * 8
        yield control.Prepare(iteration + 1)


async def attack_agent(any_: Anything, heard: Counter[str]) -> str:
    """How an agent ends that a hostile controller commands."""
    agent = Agent("unix:none", token=KEY.decode(), name="a", ports=Ports(()), limits=Limits())
    agent._link = Feed(any_, heard)
    try:
        await asyncio.wait_for(agent.run(), 60)
    except EmulatorError as error:
        return f"{type(error).__name__}: {error}"
    return "over"


# --- both -------------------------------------------------------------------------------------------------------


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def attack(side: str, messages: int, *, seed: int = 21) -> tuple[Counter[str], list[int]]:
    """Ends of all conversations without their numbers, and the resident memory at 20 moments of the second half."""
    ends, memory, heard = Counter[str](), list[int](), Counter[str]()

    async def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            session_plan = plan(Path(folder))
            for number in count():
                if heard["messages"] >= messages:
                    break
                if number % 50 == 0:
                    gc.unfreeze()  # as an agent does after every run
                    gc.collect()
                any_ = Anything(seed * 1_000_003 + number)
                if side == "controller":
                    end = await attack_controller(any_, session_plan, heard)
                else:
                    end = await attack_agent(any_, heard)
                ends["".join(one for one in end if not one.isdigit())[:120]] += 1
                if heard["messages"] >= messages * (20 + len(memory)) // 40:
                    memory.append(resident_bytes())

    asyncio.run(run())
    return ends, memory


def main() -> None:
    side, messages = sys.argv[1], int(sys.argv[2])
    began = time.monotonic()
    ends, memory = attack(side, messages)
    for end, times in ends.most_common():
        print(f"{times:8,} {end!r}")
    fit = linregress(range(len(memory)), memory)
    per = messages / 2 / max(1, len(memory)) / 1e6
    print(
        f"{messages:,} messages to the {side} in {time.monotonic() - began:.0f} s; resident memory "
        f"{memory[0] / 2**20:.1f} to {memory[-1] / 2**20:.1f} MiB in the second half, slope "
        f"{fit.slope / per / 2**20:+.2f} ± {1.96 * fit.stderr / per / 2**20:.2f} MiB per million messages"
    )


if __name__ == "__main__":
    main()
