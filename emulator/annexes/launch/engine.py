"""What an engine is: it places agents, tells when one of them ends too early, and removes them."""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from emulator.annexes.launch.identities import issue_identities

CONTROLLER = "controller"
"""Name in its identity."""
UNIX = "unix:"
_LONGEST_S = 7 * 24 * 3600.0
"""Identities of a launch are valid for a week."""


@dataclass(frozen=True, slots=True)
class Placement:
    """What is to be placed.

    Attributes:
        agents: their names, as the topology has them.
        interfaces: under test, of every agent.
        has_identities: control is protected by identities; otherwise by a token.
    """

    agents: Sequence[str]
    interfaces: Sequence[str] = ()
    has_identities: bool = True

    def arguments(self, name: str, target: str, secret: str) -> list[str]:
        """Words after `charkha` that run an agent.

        Args:
            name: of the agent.
            target: the controller, HOST:PORT or unix:PATH.
            secret: path of the file with its identity or token; not used for a Unix socket.
        """
        ports = [word for one in self.interfaces for word in ("--interface", one)]
        return ["agent", "start", "--controller", target, "--name", name, *ports, *self.security(target, secret)]

    def security(self, target: str, secret: str) -> list[str]:
        """Words that protect control, the same for controller and agents; the folder protects a Unix socket."""
        if target.startswith(UNIX):
            return []
        return ["--identity", secret] if self.has_identities else ["--insecure", "--token-file", secret]

    def secrets(self, addresses: Sequence[str]) -> Mapping[str, str]:
        """Content of the file of every agent and of the controller.

        Args:
            addresses: at which agents find the controller.
        """
        if self.has_identities:
            return issue_identities(self.agents, controller=CONTROLLER, addresses=addresses, lasting_s=_LONGEST_S)
        return dict.fromkeys([CONTROLLER, *self.agents], secrets.token_urlsafe(24))


@dataclass(frozen=True, slots=True)
class PlacedAgents:
    """Agents that were started and dial out.

    Attributes:
        listen: where the controller must listen for them.
        security: options of the controller that protect control.
        ended: why an agent ended, as soon as one has.
    """

    listen: str
    security: Sequence[str]
    ended: asyncio.Future[str]


class Engine(Protocol):
    """A way to start agents."""

    def describe(self, command: Sequence[str]) -> str:
        """What would be done to play a command: scripts and commands, without secrets."""
        ...

    def place(self, folder: Path) -> AbstractAsyncContextManager[PlacedAgents]:
        """Start all agents; they are gone when the context is left.

        Args:
            folder: private to this user, for sockets, secrets and logs.

        Raises:
            EmulatorError: an agent cannot be started; none is left.
        """
        ...


def free_port(address: str = "") -> int:
    """A TCP port that nobody listens at; "": at any address."""
    with socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
        return int(probe.getsockname()[1])
