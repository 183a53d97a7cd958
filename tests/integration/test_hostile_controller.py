"""An agent against a controller that asks for what the machine's owner does not allow: real gRPC on a Unix socket."""

import secrets
from pathlib import Path
from typing import Any

import pytest

from agents.agent import Agent
from agents.host.limits import Limits
from agents.host.ports import Ports
from emulator.control import conversation as control
from emulator.controller.roster.control_server import serve_control
from emulator.controller.roster.control_service import AgentChannel
from emulator.errors import HostError
from emulator.planner.rank_program import PlaySettings
from tests.support.loopback import NET

SETTINGS = PlaySettings(credits=True, instances=1, algorithms=(), groups=[[0, 1]])


class Hostile:
    """Lets the agent in, sends a setup and, when its ranks are bound, a directory; notes what the agent says."""

    def __init__(self, host: str, peer: str) -> None:
        self._setup = control.Setup(
            {0: control.JobSetup("r", [control.RankPlace(0, host, 1, 1)], "roce", 1 << 20, 0, SETTINGS)}
        )
        self._directory = control.Directory({0: control.Address(host, 4791), 1: control.Address(peer, 4791)})
        self.said: list[Any] = []

    def admit(self, channel: AgentChannel) -> str | None:
        channel.send(self._setup)
        return None

    def heard(self, channel: AgentChannel, message: control.JobMessage[Any]) -> None:
        value, _ = message
        if not isinstance(value, control.Progress | control.Farewell | control.Left):
            self.said.append(value)
        if isinstance(value, control.Bound):
            channel.send(self._directory, 0)
        if isinstance(value, control.Abort):
            channel.close()

    def lost(self, channel: AgentChannel, reason: str) -> None:
        pass


async def play(folder: Path, controller: Hostile) -> None:
    target, token = f"unix:{folder}/control", secrets.token_urlsafe()
    async with serve_control(controller, target, token=token, run_id="r"):
        await Agent(target, token=token, name="a", ports=Ports(()), limits=Limits()).run()


async def test_a_public_address_is_refused_before_it_is_added(tmp_path: Path) -> None:
    controller = Hostile("1.1.1.1", "127.0.0.1")
    with pytest.raises(HostError, match=r"rank 0 is at 1\.1\.1\.1"):
        await play(tmp_path, controller)
    assert [type(value) for value in controller.said] == [control.Abort]
    assert "rank 0 is at 1.1.1.1" in controller.said[0].reason


async def test_a_public_peer_is_refused_before_a_packet_is_sent(tmp_path: Path) -> None:
    controller = Hostile(f"{NET}.0.1", "8.8.8.8")
    with pytest.raises(HostError, match=r"rank 1 is at 8\.8\.8\.8"):
        await play(tmp_path, controller)
    assert [type(value) for value in controller.said] == [control.Bound, control.Abort]
