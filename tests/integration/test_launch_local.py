"""`charkha agent launch local`: agents as processes of this machine."""

import asyncio
import json
import signal
from pathlib import Path

import pytest

from emulator.annexes.launch.engine import Placement
from emulator.annexes.launch.launch_here import LocalEngine
from tests.support.command import Command, succeed
from tests.support.full import IS_FULL
from tests.support.launched import LAST_FRAME_S, bench, counting_namespace, last_frame_s, write_topology
from tests.support.namespaces import why_not
from tests.support.skips import need


def test_agents_of_a_topology_play_a_bench(tmp_path: Path) -> None:
    write_topology(tmp_path)
    succeed("agent", "launch", "local", "--", *bench(iterations=2), cwd=tmp_path)
    (manifest,) = tmp_path.glob("runs/*/manifest.json")
    assert {one["agent"] for one in json.loads(manifest.read_text())["hosts"]} == {"agent-0", "agent-1"}


def test_an_agent_that_ends_is_told_with_its_reason(tmp_path: Path) -> None:
    """The engine alone, which no controller answers: what it says ends a launch as any failure does."""
    need("ip")

    async def placed() -> str:
        engine = LocalEngine(Placement(["agent-0"], ["none0"]))
        async with engine.place(tmp_path) as place:
            return await asyncio.wait_for(asyncio.shield(place.ended), 60)

    said = asyncio.run(placed())
    assert said.startswith("agent agent-0 ended with exit code ")
    assert "none0" in said


def kill(command: Command) -> None:
    command.process.kill()


def interrupt(command: Command) -> None:
    command.process.send_signal(signal.SIGINT)


@pytest.mark.skipif(not IS_FULL, reason="measures the last frame: CHARKHA_FULL=1")
@pytest.mark.parametrize("end", [kill, interrupt])
def test_no_frame_after_the_command(end: object, tmp_path: Path) -> None:
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    write_topology(tmp_path)
    assert callable(end)
    with counting_namespace() as alone:
        assert last_frame_s(alone, ["agent", "launch", "local", "--"], tmp_path, end) <= LAST_FRAME_S
