"""A run's control server against agents that are not what they should be: real gRPC on the run's own socket.

The processes that the session starts only write down where to dial and wait; the tests dial in their place.
"""

import asyncio
import contextlib
import os
import resource
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from agents import control_link
from agents.control_link import ControlLink, Lease
from emulator.control import conversation as control
from emulator.control.authentication import NONCE_BYTES
from emulator.control.observations import Completions, RankSummary
from emulator.control.wire.codec import encode_agent
from emulator.controller import watchdog
from emulator.controller.roster import control_server, local_agents
from emulator.controller.roster.control_service import SERVER_OPTIONS
from emulator.controller.roster.roster import LEASE_S
from emulator.controller.run_plan import RunPlan, SessionPlan
from emulator.controller.session import JobSession
from emulator.errors import AgentLost, EmulatorError, HostError, RemoteProtocolError, RunAborted, RunTimeout
from emulator.results.run_folder.observer import WaitingFor
from emulator.trace.files.load import load_trace
from tests.support.limits import limited
from tests.support.plans import run_plan
from tests.support.trace_files import collective, write

AGENTS = {"agent-0": [0], "agent-1": [1]}
SILENCE_S = 60.0
IMPOSTOR = """#!/bin/sh
read -r token
printf '%s\\n%s\\n' "$5" "$token" > {folder}/$7.new
mv {folder}/$7.new {folder}/$7
exec sleep 600
"""
HELLO = control.Hello(
    oldest_version=control.OLDEST_VERSION,
    newest_version=control.NEWEST_VERSION,
    agent="agent-0",
    pid=1,
    hostname="h",
    software="0",
    clock_ns=0,
    nonce=bytes(NONCE_BYTES),
)


class Watching:
    """A SessionObserver that notes when the first agent has been let in."""

    def __init__(self) -> None:
        self.first_joined = asyncio.Event()

    def tell(self, event: object) -> None:
        if isinstance(event, WaitingFor) and len(event.agents) < len(AGENTS):
            self.first_joined.set()

    def wanted_steps(self) -> dict[int, list[int]]:
        return {}

    def record(self) -> None:
        pass

    def write(self) -> None:
        pass


@dataclass
class Open:
    """A session that waits for its agents."""

    target: str
    token: str
    hello: control.Hello
    playing: asyncio.Task[None]
    watching: Watching
    session: JobSession

    @contextlib.asynccontextmanager
    async def joined(self, agent: str = "agent-0") -> AsyncIterator[ControlLink]:
        """The connection of an agent that has proved who it is."""
        async with ControlLink(self.target) as link:
            await asyncio.wait_for(link.join(replace(self.hello, agent=agent), self.token.encode()), 60)
            yield link

    async def dial(self, hello: control.Hello | None = None) -> Any:
        """What the controller answers to an agent that has proved who it is."""
        async with ControlLink(self.target) as link:
            await link.join(hello or self.hello, self.token.encode())
            return (await asyncio.wait_for(link.receive(), 60)).value

    async def refusal(self, hello: control.AgentValue, token: str | None = None) -> str:
        """Why the agent is sent away, after the Welcome where there is one."""
        async with ControlLink(self.target) as link:
            with pytest.raises(RunAborted) as refused:
                await _join_and_read_on(link, hello, token or self.token)
        return refused.value.reason

    async def ended(self) -> EmulatorError:
        """How the run ends."""
        with pytest.raises(EmulatorError) as ended:
            await asyncio.wait_for(self.playing, 60)
        return ended.value


async def _join_and_read_on(link: ControlLink, hello: control.AgentValue, token: str) -> None:
    await link.join(hello, token.encode())
    await _read_on(link)


async def _read_on(link: ControlLink) -> None:
    """Read until the controller ends it."""
    while True:
        await asyncio.wait_for(link.receive(), 60)


def _plan(folder: Path) -> RunPlan:
    folder.mkdir()
    for rank in AGENTS.values():
        write(folder / f"t.{rank[0]}.et", [collective(1)])
    return run_plan(load_trace(folder).traces, AGENTS, silence_timeout_s=SILENCE_S)


@contextlib.asynccontextmanager
async def _open(folder: Path, *, jobs: int = 1) -> AsyncIterator[Open]:
    watching = Watching()
    plan = _plan(folder / "trace")
    session = JobSession(SessionPlan("run", [plan] * jobs), [watching] * jobs)  # type: ignore[list-item]
    playing = asyncio.create_task(session.play())
    try:
        async with asyncio.timeout(60):
            while not (folder / "agent-0").exists():  # noqa: ASYNC110 (a process writes it)
                await asyncio.sleep(0.01)
        target, token = (folder / "agent-0").read_text().splitlines()
        yield Open(target, token, HELLO, playing, watching, session)
    finally:
        session.abort(RunAborted("the test is over"))
        await asyncio.wait([playing])
        playing.exception()


Opening = Callable[..., contextlib.AbstractAsyncContextManager[Open]]


@pytest.fixture
def opening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opening:
    """Opens a session."""
    impostor = tmp_path / "impostor"
    impostor.write_text(IMPOSTOR.format(folder=tmp_path))
    impostor.chmod(0o700)
    monkeypatch.setattr("sys.executable", str(impostor))
    monkeypatch.setattr(local_agents, "TERM_GRACE_S", 0.05)
    return partial(_open, tmp_path)


async def test_an_agent_of_the_run_is_welcome(opening: Opening) -> None:
    async with opening() as opened:
        assert await opened.dial() == control.Welcome(control.NEWEST_VERSION)


async def test_a_wrong_token_is_refused_by_both_sides_before_anything_else(opening: Opening) -> None:
    async with opening() as opened:
        stranger = replace(opened.hello, agent="stranger")
        assert (await opened.refusal(stranger, "guess")).startswith("the token is not the controller's: nothing was")
        greeting = encode_agent(stranger), encode_agent(control.Proof(bytes(32)))
        assert await _say(opened.target, *greeting) == "the token is not the controller's"
        assert await opened.dial() == control.Welcome(control.NEWEST_VERSION)


async def test_an_agent_that_is_not_of_the_run_is_refused(opening: Opening) -> None:
    async with opening() as opened:
        stranger = replace(opened.hello, agent="agent-7")
        assert await opened.refusal(stranger) == "agent 'agent-7' is not part of this run"
        assert not opened.playing.done()


async def test_a_second_agent_of_one_name_is_refused_and_the_first_stays(opening: Opening) -> None:
    async with opening() as opened, opened.joined() as first:
        assert isinstance((await first.receive()).value, control.Welcome)
        assert await opened.refusal(opened.hello) == "an agent 'agent-0' has already joined"
        second = await opened.dial(replace(opened.hello, agent="agent-1"))
        assert isinstance(second, control.Welcome)
        assert isinstance((await asyncio.wait_for(first.receive(), 60)).value, control.Setup)


async def test_agents_hear_from_the_controller_while_it_waits_for_others(
    opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases = asyncio.Queue[float]()
    monkeypatch.setattr(Lease, "give", lambda _, seconds: leases.put_nowait(seconds))
    async with opening() as opened, opened.joined() as link:
        reading = asyncio.create_task(_read_on(link))
        assert [await asyncio.wait_for(leases.get(), 60) for _ in range(2)] == [LEASE_S] * 2
        reading.cancel()


async def test_an_agent_of_another_version_is_told_so(opening: Opening) -> None:
    async with opening() as opened:
        newer = replace(opened.hello, oldest_version=7, newest_version=9)
        assert await opened.refusal(newer) == (
            "no common control version: the agent supports 7 to 9, the controller 4 to 4"
        )
        both = replace(opened.hello, newest_version=9)
        assert await opened.dial(both) == control.Welcome(control.NEWEST_VERSION)


async def test_the_first_message_must_be_a_hello(opening: Opening) -> None:
    async with opening() as opened:
        assert await opened.refusal(control.Ready()) == "the first message must be a Hello"
        assert await _say(opened.target, b"") == "the first message must be a Hello"


async def _say(target: str, *messages: bytes) -> str:
    """How the controller ends the conversation with a client that sends these messages."""
    async with grpc.aio.insecure_channel(target) as channel:
        call = channel.stream_stream(control.METHOD)()  # type: ignore[call-arg]  # bytes as they are
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            for message in messages:
                await call.write(message)
            while await call.read():
                pass
        return str(await call.details())


async def test_a_message_larger_than_the_limit_ends_the_stream_before_it_is_taken(
    opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 4096
    small = [(name, most if name == "grpc.max_receive_message_length" else value) for name, value in SERVER_OPTIONS]
    monkeypatch.setattr(control_server, "SERVER_OPTIONS", small)
    async with opening() as opened:
        large = encode_agent(control.Abort("x" * 2 * most))
        assert f"larger than max ({len(large)} vs. {most})" in await _say(opened.target, large)
        async with opened.joined() as link:
            link.send(control.Progress(0, 0, False, "x" * 2 * most), 0)
            assert "agent agent-0 is lost" in str(await opened.ended())


async def test_what_an_agent_cannot_say_in_one_message_is_why_it_gives_up(
    opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "LARGEST_MESSAGE_BYTES", 1 << 20)
    async with opening() as opened:
        async with opened.joined() as link:
            link.send(control.Progress(0, 0, False, "x" * (1 << 21)), 0)
            error = str(await opened.ended())
        assert "the message Progress has 2 MiB, but the control stream takes at most 1 MiB: use more agents" in error


async def test_bytes_that_are_no_grpc_are_no_harm(opening: Opening) -> None:
    async with opening() as opened:
        for garbage in (
            b"GET / HTTP/1.1\r\n\r\n",
            bytes(range(256)) * 40,
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 99,
        ):
            _, writer = await asyncio.open_unix_connection(opened.target.removeprefix("unix:"))
            writer.write(garbage)
            with contextlib.suppress(ConnectionError):
                await writer.drain()
            writer.close()
        assert await opened.dial() == control.Welcome(control.NEWEST_VERSION)


async def test_an_agent_that_speaks_out_of_turn_ends_the_run(opening: Opening) -> None:
    async with opening() as opened:
        async with opened.joined() as link:
            link.send(control.Ready(), 0)
            error = await opened.ended()
        assert isinstance(error, RemoteProtocolError)
        assert str(error) == "agent agent-0 spoke out of turn while gathering"


async def test_an_agent_that_cannot_be_understood_is_lost(opening: Opening, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opening() as opened:
        async with opened.joined() as link:
            assert isinstance((await link.receive()).value, control.Welcome)  # the proof is written
            monkeypatch.setattr(control_link, "encode_agent", lambda *_: b"")
            link.send(control.Ready())
            with contextlib.suppress(RunAborted):
                await _read_on(link)
        error = await opened.ended()
        assert isinstance(error, AgentLost)
        assert "agent-0" in str(error)
        assert "a control message unknown to this version" in str(error)


async def test_an_agent_that_hangs_up_before_the_others_are_there_is_lost(opening: Opening) -> None:
    async with opening() as opened:
        async with opened.joined():
            await asyncio.wait_for(opened.watching.first_joined.wait(), 60)
        assert str(await opened.ended()) == "agent agent-0 is lost (its connection ended); its ranks: 0"


async def test_a_standstill_names_the_two_ranks_that_were_silent_for_longest(opening: Opening) -> None:
    async with opening() as opened:
        async with opened.joined() as first, opened.joined("agent-1") as second:
            for link, own, peer in ((first, 0, 1), (second, 1, 0)):
                silence_ns = 2_000_000_000 + own
                link.send(control.Progress(0, 0, False, f"rank {own}: waits", (own, peer), silence_ns), 0)
            async with asyncio.timeout(60):
                while len(opened.session._standstill.progress) < len(AGENTS):  # noqa: ASYNC110 (it tells nobody)
                    await asyncio.sleep(0.01)
            opened.session._standstill.standstill_s = 0
            error = await opened.ended()
        assert isinstance(error, RunTimeout)
        assert error.between == (1, 0)
        assert "rank 0: waits" in str(error)
        assert str(error).endswith("; rank 0 has not answered rank 1 for 2.0 s")


async def _heard(link: ControlLink, kind: type[Any], *, times: int = 1) -> list[control.JobMessage[Any]]:
    """The next values of a kind; others between them are passed over."""
    found: list[control.JobMessage[Any]] = []
    async with asyncio.timeout(60):
        while len(found) < times:
            message = await link.receive()
            found += [message] if isinstance(message.value, kind) else []
    return found


async def _started(link: ControlLink, jobs: int) -> list[control.JobMessage[Any]]:
    """Begin and Start of every job. All agents must listen meanwhile: the controller asks for their clocks."""
    return [*await _heard(link, control.Begin), *await _heard(link, control.Start, times=jobs)]


@contextlib.asynccontextmanager
async def _playing(opened: Open, jobs: int) -> AsyncIterator[dict[str, ControlLink]]:
    """Both agents, told to begin the first iteration of each job."""
    async with opened.joined() as first, opened.joined("agent-1") as second:
        links = {"agent-0": first, "agent-1": second}
        for name, link in links.items():
            (setup,) = await _heard(link, control.Setup)
            assert sorted(setup.value.jobs) == list(range(jobs))
            for job in range(jobs):
                link.send(
                    control.Bound({rank: control.Address(f"127.1.0.{rank + 1}", 9) for rank in AGENTS[name]}), job
                )
        for link in links.values():
            for prepare in await _heard(link, control.Prepare, times=jobs):
                link.send(control.Ready(), prepare.job)
        for begun, *starts in await asyncio.gather(*(_started(link, jobs) for link in links.values())):
            assert [(one.job, one.value.at_ns) for one in starts] == [(job, begun.value.at_ns) for job in range(jobs)]
        await asyncio.sleep(max(0, begun.value.at_ns - time.monotonic_ns()) / 1e9)  # the start is ahead
        yield links


def _complete(link: ControlLink, *ranks: int, job: int = 0, reported: int = 1, ended_ns: int | None = None) -> None:
    """What an agent says of ranks that have done all there is: an all-reduce."""
    now_ns = time.monotonic_ns()
    for rank in ranks:
        posted, zeros = np.full(reported, now_ns), np.zeros(reported, np.int64)
        ended = posted if ended_ns is None else np.full(reported, ended_ns)
        rest = (zeros, zeros, zeros.astype(np.bool_), zeros, zeros)
        link.send(Completions(0, rank + zeros, (zeros + 1).astype(np.uint64), posted, ended, ended, *rest), job)
    link.send(control.IterationDone(0, [RankSummary(rank, now_ns, now_ns, 0, 0, 0) for rank in ranks]), job)


Report = Callable[[ControlLink], None]


@pytest.mark.parametrize(
    ("report", "problem"),
    [
        (lambda link: _complete(link, 1), "sent completions of rank 1, which it does not play"),
        (lambda link: _complete(link), "ended iteration 0 for other ranks than it plays"),
        (lambda link: _complete(link, 0, reported=0), "1 of 1 completions are missing, among them node 1 of rank 0"),
        (lambda link: _complete(link, 0, reported=2), "sent more completions of iteration 0 than its ranks have"),
        (lambda link: _complete(link, 0, ended_ns=0), "sent completions that ended before they were posted"),
        (lambda link: _complete(link, 0, ended_ns=1 << 61), "s in the future"),
    ],
)
async def test_a_run_whose_reports_do_not_add_up_fails_and_names_the_agent(
    opening: Opening, report: Report, problem: str
) -> None:
    async with opening() as opened:
        async with _playing(opened, 1) as links:
            _complete(links["agent-1"], 1)
            report(links["agent-0"])
            error = await opened.ended()
        assert str(error).startswith("agent agent-0 ")
        assert problem in str(error)


async def test_a_job_that_hangs_ends_the_session_although_another_moves(opening: Opening) -> None:
    async with opening(jobs=2) as opened:
        async with _playing(opened, 2) as links:
            for one in (opened.session._standstill, *(loop._standstill for loop in opened.session._loops)):
                one.standstill_s = 1.0
            for events in range(1000):
                links["agent-0"].send(control.Progress(0, 0, False, "rank 0: waits"), 0)
                links["agent-0"].send(control.Progress(0, events, False, "rank 0: plays"), 1)
                await asyncio.wait([opened.playing], timeout=0.05)
                if opened.playing.done():
                    break
            error = await opened.ended()
        assert isinstance(error, RunTimeout)
        assert error.waiting_on == "rank 0: waits"
        assert opened.session.failed_job == 0


async def test_agents_leave_when_all_jobs_are_over(opening: Opening) -> None:
    async with opening(jobs=2) as opened, _playing(opened, 2) as links:
        for job in (1, 0):
            for name, link in links.items():
                _complete(link, *AGENTS[name], job=job)
            for finish in await asyncio.gather(*(_heard(link, control.Finish) for link in links.values())):
                assert [one.job for one in finish] == [job]
            for link in links.values():
                link.send(control.Farewell([], 0, 0), job)
        for link in links.values():
            await _heard(link, control.Leave)
        assert not opened.playing.done()
        for link in links.values():
            link.send(control.Left())
        await asyncio.wait_for(opened.playing, 60)


async def test_a_value_about_a_job_that_there_is_not_ends_the_session(opening: Opening) -> None:
    async with opening() as opened:
        async with opened.joined() as link:
            link.send(control.Ready(), 7)
            error = await opened.ended()
        assert isinstance(error, RemoteProtocolError)
        assert str(error) == "agent agent-0 sent Ready about a job it does not play"


async def test_an_abort_reaches_the_agents_with_its_reason(opening: Opening) -> None:
    async with opening() as opened, opened.joined() as first, opened.joined("agent-1") as second:
        second.send(control.Abort("my disk is gone", [1]))
        with pytest.raises(RunAborted, match="agent agent-1: my disk is gone"):
            await _read_on(first)
        assert str(await opened.ended()) == "agent agent-1: my disk is gone"


async def test_agents_that_never_join_are_named(opening: Opening) -> None:
    async with opening() as opened:
        async with opened.joined() as link:
            assert isinstance((await link.receive()).value, control.Welcome)
            opened.session._roster.watchdog.join_timeout_s = 0
            error = await opened.ended()
        assert isinstance(error, RunTimeout)
        assert "agents to join: agent-1" in str(error)


async def test_a_session_that_cannot_take_the_connections_of_its_agents_names_the_limit(opening: Opening) -> None:
    async with opening() as opened:
        with limited(resource.RLIMIT_NOFILE, 0):
            error = await opened.ended()
        assert isinstance(error, HostError)
        assert "too many open files (the limit is 0)" in str(error)


def _children() -> list[int]:
    return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: only it takes a lower priority back")
async def test_agents_go_before_the_controller_while_they_play(opening: Opening) -> None:
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    async with opening():
        async with asyncio.timeout(60):
            while os.getpriority(os.PRIO_PROCESS, 0) == usual:  # noqa: ASYNC110 (agents are being started)
                await asyncio.sleep(0.01)
        agents = _children()
        assert len(agents) >= 2
        assert {os.getpriority(os.PRIO_PROCESS, pid) for pid in agents} == {usual}
        assert os.getpriority(os.PRIO_PROCESS, 0) == min(usual + 10, 19)
    assert os.getpriority(os.PRIO_PROCESS, 0) == usual


async def test_a_watchdog_that_fails_ends_the_run_and_says_so(
    opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("agent-0")

    monkeypatch.setattr(watchdog.Watchdog, "overdue", broken)
    async with opening() as opened:
        error = await opened.ended()
        assert "the time limits can no longer be watched (KeyError: 'agent-0')" in str(error)


@pytest.mark.parametrize(
    ("host", "port"), [("8.8.8.8", 5353), ("127.1.0.2", 9), ("127.1.0.1", 0), ("127.1.0.1", 1 << 16)]
)
async def test_ranks_listen_where_they_were_told_to_and_only_the_port_is_news(
    opening: Opening, host: str, port: int
) -> None:
    async with opening() as opened:
        async with opened.joined() as first, opened.joined("agent-1"):
            await _heard(first, control.Setup)
            first.send(control.Bound({0: control.Address(host, port)}), 0)
            error = await opened.ended()
        problem = f"agent agent-0 says that rank 0 listens at {host} port {port}, which it was not given"
        assert problem in str(error)
