"""The flows of an agent: they meet their peers first, end when the job does, and stop at once."""

import asyncio
from collections.abc import Sequence
from ipaddress import ip_network

import pytest

from agents.flows import Flows, make_actor
from agents.host.limits import Limits
from emulator.control.flows import FlowDirection, FlowFigures, FlowObserver, FlowTask
from emulator.errors import HostError, RemoteProtocolError, RunError


class Actor:
    """A flow that ends when it is told to; with `problem`, it fails at that point."""

    waiting_for = "its peer"
    addresses = ("127.0.0.1", "198.51.100.7")

    def __init__(self, fails_at: str = "") -> None:
        self._fails_at, self.happened = fails_at, list[str]()
        self._over = asyncio.Event()

    async def prepare(self) -> None:
        await self._step("prepare")

    async def play(self, at_ns: int) -> None:
        await self._step("play")
        await self._over.wait()
        self.happened.append("done")

    def end(self) -> None:
        self.happened.append("end")
        self._over.set()

    def figures(self) -> Sequence[FlowFigures]:
        sent = 10 * len(self.happened)
        return [FlowFigures(direction=FlowDirection.SENT, observer=FlowObserver.CHARKHA, messages=1, bytes=sent)]

    def close(self) -> None:
        self.happened.append("close")

    async def _step(self, name: str) -> None:
        await asyncio.sleep(0)
        self.happened.append(name)
        if name == self._fails_at:
            raise RunError("nobody is there")


def task(number: int) -> FlowTask:
    return FlowTask(number, "perftest", f"flow {number}", "127.0.0.1", "", "{}")


def made(*actors: Actor) -> tuple[Flows, list[str]]:
    failures: list[str] = []
    tasks = [task(number) for number in range(len(actors))]
    return Flows(tasks, {}, failures.append, limits=Limits(), make=lambda one, device: actors[one.number]), failures


def test_a_flow_to_a_peer_beyond_the_limits_is_refused() -> None:
    only_loopback = Limits([ip_network("127.0.0.0/8")])
    with pytest.raises(HostError, match=r"flow 0 is at 198\.51\.100\.7, but this agent may use only 127\.0\.0\.0/8"):
        Flows([task(0)], {}, pytest.fail, limits=only_loopback, make=lambda one, device: Actor())


async def test_flows_meet_their_peers_then_play_until_the_job_is_over() -> None:
    actors = Actor(), Actor()
    flows, failures = made(*actors)
    assert flows.waiting_on == "flow 0: its peer; flow 1: its peer"
    await flows.prepare()
    assert flows.waiting_on == ""
    assert [one.happened for one in actors] == [["prepare"], ["prepare"]]
    flows.start(0)
    flows.start(0)  # of a later iteration
    await asyncio.sleep(0.01)
    assert [report.is_complete for report in flows.reports()] == [False, False]
    assert flows.waiting_on == "flow 0: its peer; flow 1: its peer"
    await flows.finish()
    assert [one.happened for one in actors] == [["prepare", "play", "end", "done"]] * 2
    assert [report.is_complete for report in flows.reports()] == [True, True]
    assert (flows.waiting_on, failures) == ("", [])


async def test_a_peer_that_cannot_be_met_is_named_with_its_flow() -> None:
    flows, _ = made(Actor(), Actor(fails_at="prepare"))
    with pytest.raises(RunError, match="flow 1: nobody is there"):
        await flows.prepare()


async def test_a_flow_that_fails_in_the_midst_of_the_job_stops_the_agent() -> None:
    flows, failures = made(Actor(fails_at="play"))
    await flows.prepare()
    flows.start(0)
    await flows.finish()
    assert failures == ["flow 0: nobody is there"]
    assert [report.is_complete for report in flows.reports()] == [False]


async def test_closing_ends_all_at_once_and_keeps_what_was_counted() -> None:
    actor = Actor()
    flows, failures = made(actor)
    await flows.prepare()
    flows.start(0)
    await asyncio.sleep(0.01)
    flows.close()
    await asyncio.sleep(0)
    assert actor.happened == ["prepare", "play", "close"]
    (report,) = flows.reports()
    assert (report.is_complete, report.figures[0].bytes, failures) == (False, 30, [])


async def test_a_flow_moves_when_it_counts_more() -> None:
    flows, _ = made(Actor())
    await flows.prepare()
    assert flows.has_moved()
    assert not flows.has_moved()


async def test_an_agent_without_flows_has_nothing_to_do() -> None:
    flows, _ = made()
    assert not flows
    await flows.prepare()
    flows.start(0)
    await flows.finish()
    assert flows.reports() == []


def test_a_kind_that_this_agent_does_not_know_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="flow 3: this agent plays only flows of kind perftest"):
        make_actor(FlowTask(3, "storage", "flow 3", "127.0.0.1", "", "{}"), None)
