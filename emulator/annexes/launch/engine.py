"""What an engine is: it places agents, tells when one of them ends too early, and removes them.

One command is played here with these agents. Their identities come from an authority that exists only while they are
issued.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

from emulator.annexes.launch.authority import issue, make_authority
from emulator.control.certificates.roles import Role
from emulator.errors import RunError
from emulator.host.files import scratch_folder
from emulator.host.stderr_log import last_words

_SLACK_S = 3600.0
"""Identities outlive the launch by as much: it may have to wait for nodes."""


def issue_identities(
    agents: Sequence[str], *, controller: str, addresses: Sequence[str], lasting_s: float
) -> dict[str, str]:
    """Name → content of the identity file, of the agents and the controller. Nothing of it stays on disk.

    Args:
        agents: their names.
        controller: name of the controller.
        addresses: that agents connect to.
        lasting_s: how long the launch may last.
    """
    valid = timedelta(seconds=lasting_s + _SLACK_S)
    with scratch_folder() as folder:
        make_authority(folder, name="launch")
        made = [issue(folder, controller, role=Role.CONTROLLER, addresses=addresses, valid=valid)]
        made += [issue(folder, name, role=Role.AGENT, valid=valid) for name in agents]
        return {one.name: one.path.read_text() for one in made}


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


def failed(problem: str, stderr: str, code: int) -> RunError:
    """The error of a program of somebody else's that failed: its last line on stderr, or its exit code."""
    return RunError(f"{problem}{last_words(stderr) or f': exit code {code}'}")


INTERRUPT_S = 2.0
"""How long an interrupted controller may take to end."""
OWN_WORDS_S = 1.5
"""An agent that ended ends the run: how long the controller may take to say so itself, and better."""
_START = (
    "import os, sys; from emulator.host.resources import die_with_parent; die_with_parent();"
    " os.getppid() == int(sys.argv.pop(1)) or os._exit(1);"
    " from emulator.cli.main import main; sys.exit(main(sys.argv[1:]))"
)
"""Runs `charkha` as a child that does not outlive its parent: words of `own_child`."""


def own_child(*arguments: str) -> list[str]:
    """Words that run `charkha` in a process that ends with this one."""
    # -P: a folder named emulator where the user stands must not be taken for ours.
    return [sys.executable, "-P", "-c", _START, str(os.getpid()), *arguments]


def play(engine: Engine, command: Sequence[str]) -> int:
    """Run `charkha COMMAND` here while the agents of an engine are there; returns its exit code.

    Raises:
        EmulatorError: agents cannot be started, or one ended before the command.
        KeyboardInterrupt: the command was interrupted and has ended, agents are removed.
    """
    with scratch_folder() as folder:
        return asyncio.run(_play(engine, command, folder))


async def _play(engine: Engine, command: Sequence[str], folder: Path) -> int:
    async with engine.place(folder) as placed, _controller(command, placed) as controller:
        ending = asyncio.ensure_future(controller.wait())
        either: list[asyncio.Future[Any]] = [ending, placed.ended]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not ending.done():
            await asyncio.wait([ending], timeout=OWN_WORDS_S)
        if ending.done():
            return ending.result()
        raise RunError(placed.ended.result())


@asynccontextmanager
async def _controller(command: Sequence[str], placed: PlacedAgents) -> AsyncIterator[asyncio.subprocess.Process]:
    """The command as a child; if the context is left early, it is interrupted and closes its run folder."""
    words = own_child(*command, "--listen", placed.listen, *placed.security)
    # In a session of its own, so that Ctrl-C at the terminal reaches it once: from here.
    process = await asyncio.create_subprocess_exec(*words, stdin=asyncio.subprocess.DEVNULL, start_new_session=True)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), INTERRUPT_S)
        if process.returncode is None:
            process.kill()
        await process.wait()
