"""An agent against a controller that asks for what the machine's owner does not allow: real gRPC on a Unix socket."""

from __future__ import annotations

import asyncio
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
from emulator.errors import HostError, RemoteProtocolError
from emulator.planner.rank_program import PlaySettings
from tests.support.loopback import NET

SETTINGS = PlaySettings(credits=True, instances=1, algorithms=(), groups=[[0, 1]])


class Hostile:
    """Lets the agent in, sends a setup and, when its ranks are bound, a directory; notes what the agent says."""

    def __init__(self, host: str, peer: str, *, directed: str = "") -> None:
        self._setup = control.Setup(
            [control.JobSetup(0, "r", [control.RankPlace(0, host, 1, 1)], "roce", 1 << 20, 0, SETTINGS)]
        )
        self._directory = control.Directory({0: (directed or host, 4791), 1: (peer, 4791)})
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


def play(folder: Path, controller: Hostile, limits: Limits) -> None:
    async def run() -> None:
        target, token = f"unix:{folder}/control", secrets.token_urlsafe()
        async with serve_control(controller, target, token=token, run_id="r"):
            await Agent(target, token=token, name="a", ports=Ports(()), limits=limits).run()

    asyncio.run(run())


def test_a_public_address_is_refused_before_it_is_added(tmp_path: Path) -> None:
    controller = Hostile("1.1.1.1", "127.0.0.1")
    with pytest.raises(HostError, match=r"rank 0 is at 1\.1\.1\.1"):
        play(tmp_path, controller, Limits())
    assert [type(value) for value in controller.said] == [control.Abort]
    assert "rank 0 is at 1.1.1.1" in controller.said[0].reason


def test_a_public_peer_is_refused_before_a_packet_is_sent(tmp_path: Path) -> None:
    controller = Hostile(f"{NET}.0.1", "8.8.8.8")
    with pytest.raises(HostError, match=r"rank 1 is at 8\.8\.8\.8"):
        play(tmp_path, controller, Limits())
    assert [type(value) for value in controller.said] == [control.Bound, control.Abort]


def test_an_agent_of_this_host_sends_only_where_the_topology_says(tmp_path: Path) -> None:
    host = f"{NET}.0.1"
    controller = Hostile(host, "10.0.0.1")
    with pytest.raises(HostError, match=r"rank 1 is at 10\.0\.0\.1, which the topology does not name"):
        play(tmp_path, controller, Limits(addresses=frozenset([host, f"{NET}.0.2"])))
    assert [type(value) for value in controller.said] == [control.Bound, control.Abort]


def test_an_agent_knows_where_its_own_ranks_are(tmp_path: Path) -> None:
    controller = Hostile(f"{NET}.0.1", f"{NET}.0.2", directed="10.0.0.1")
    with pytest.raises(RemoteProtocolError, match="sent another place for rank 0 than where it listens"):
        play(tmp_path, controller, Limits())
    assert [type(value) for value in controller.said] == [control.Bound, control.Abort]


def test_a_run_without_a_rate_cap_is_refused_where_the_owner_has_one(tmp_path: Path) -> None:
    controller = Hostile(f"{NET}.0.1", f"{NET}.0.2")
    with pytest.raises(HostError, match="has no rate cap"):
        play(tmp_path, controller, Limits(rate_bps=10**9))
