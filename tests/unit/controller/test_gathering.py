"""Agents that are waited for before a run is planned: over a real socket, with the streams of agents."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from agents.control_link import ControlLink
from emulator.control import conversation as control
from emulator.controller.roster import gathering
from emulator.controller.roster.gathering import gather_agents
from emulator.controller.roster.listen_address import ListenAddress
from emulator.errors import ControllerRefusal, HostError, RunError

HELLO = control.Hello(
    control.OLDEST_VERSION,
    control.NEWEST_VERSION,
    nonce=bytes(16),
    agent="node-10",
    pid=1,
    hostname="h",
    software="0",
    clock_ns=0,
    stays=True,
    ports=(control.Port("p"),),
)


async def join(target: str, hello: control.Hello) -> list[str]:
    """What an agent hears until the controller is gone."""
    heard = []
    async with ControlLink(target) as link:
        await link.join(hello, b"")
        try:
            while True:
                heard.append(type((await link.receive()).value).__name__)
        except RunError as error:
            if isinstance(error, ControllerRefusal):
                raise
    return heard


def gather(
    folder: Path, count: int, *hellos: control.Hello, timeout_s: float = 20
) -> tuple[list[control.Hello], list[list[str]]]:
    target = f"unix:{folder}/c"

    async def both() -> tuple[list[control.Hello], list[list[str]]]:
        joining = [asyncio.create_task(join(target, hello)) for hello in hellos]
        try:
            lines: list[str] = []
            found = await gather_agents(ListenAddress(target), count=count, timeout_s=timeout_s, notify=lines.append)
            return found, [await task for task in joining]
        finally:
            for task in joining:
                task.cancel()

    return asyncio.run(both())


def test_agents_wait_and_are_ordered_by_name(tmp_path: Path) -> None:
    others = [replace(HELLO, agent="node-2"), replace(HELLO, agent="node-1")]
    found, heard = gather(tmp_path, 3, HELLO, *others)
    assert [hello.agent for hello in found] == ["node-1", "node-2", "node-10"]
    assert [port.name for port in found[0].ports] == ["p"]
    assert heard == [["Welcome", "Wait"]] * 3


def test_an_agent_that_comes_twice_counts_once(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"waits for 2 agents, and only node-10 joined within 0.5 s \(--join-timeout\)"):
        gather(tmp_path, 2, HELLO, HELLO, timeout_s=0.5)


def test_where_no_connection_can_be_taken_the_limit_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*, descriptors: int) -> None:
        raise HostError("too many open files")

    monkeypatch.setattr(gathering, "reserve", refuse)
    with pytest.raises(HostError, match="too many open files"):
        gather(tmp_path, 1)


def test_an_agent_that_plays_one_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ControllerRefusal, match="waiting agents"):
        gather(tmp_path, 1, replace(HELLO, stays=False), replace(HELLO, agent="other"))
