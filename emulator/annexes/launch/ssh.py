"""Agents over SSH: a connection each, host keys checked, secrets over stdin; an agent ends when its stdin does.

`asyncssh` is an optional dependency, imported on use (`pip install 'charkha[ssh]'`).
"""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emulator.annexes.launch.engine import CONTROLLER, PlacedAgents, Placement, free_port
from emulator.errors import HostError, InputError, RunError
from emulator.host.files import write_secret
from emulator.host.stderr_log import last_words
from emulator.visible import visible

CONNECT_S = 15.0
STOP_S = 2.0
"""From the end of an agent's stdin to the end of its connection."""


_PORT = re.compile(r"[0-9]{1,5}")
_OF_SHELLS = frozenset("\"'`$\\;&<>|(){}*?!#~,")


def _is_plain(name: str) -> bool:
    """Whether a name of a user or host is no option, and does nothing in a shell or as part of a ProxyCommand."""
    spaces = any(character.isspace() for character in name)
    return bool(name) and name.isprintable() and not spaces and name[0] != "-" and _OF_SHELLS.isdisjoint(name)


@dataclass(frozen=True, slots=True)
class Login:
    """How to reach a host.

    Attributes:
        user: None: as OpenSSH's configuration has it.
        port: None: as OpenSSH's configuration has it.
    """

    host: str
    user: str | None = None
    port: int | None = None

    @classmethod
    def parse(cls, text: str) -> Login:
        """From `[USER@]HOST[:PORT]`; an IPv6 address with a port is in brackets.

        Raises:
            InputError: it is not of that form, or OpenSSH or a shell would take it for something else.
        """
        user, at, rest = text.rpartition("@")
        host, colon, port = rest.rpartition(":")
        if not colon or (rest.count(":") > 1 and not rest.startswith("[")) or rest.endswith("]"):
            host, port = rest, ""
        host = host.strip("[]")
        is_safe = all(_is_plain(name) for name in ((user, host) if at else (host,)))
        if not is_safe or (port and not (_PORT.fullmatch(port) and 0 < int(port) < 1 << 16)):
            raise InputError(f"{text!r}: write [USER@]HOST[:PORT]")
        return cls(host, user or None, int(port) if port else None)

    def words(self) -> list[str]:
        """The same for OpenSSH's command."""
        port = ["-p", str(self.port)] if self.port else []
        return ["ssh", *port, f"{self.user}@{self.host}" if self.user else self.host]


@dataclass(frozen=True, slots=True)
class SshEngine:
    """Starts agents over SSH. Implements Engine.

    Attributes:
        logins: agent → its host.
        charkha: the command there.
        address: of this machine, as all agents know it; None: the end of the SSH connections.
        config: file in the format of OpenSSH's ssh_config; None: the user's.
    """

    placement: Placement
    logins: Mapping[str, Login]
    charkha: str = "charkha"
    address: str | None = None
    config: Path | None = None

    def describe(self, command: Sequence[str]) -> str:
        """See Engine."""
        target = f"{self.address or 'ADDRESS'}:PORT"
        lines = [shlex.join([*self.logins[name].words(), self._remote(name, target, "BYTES")]) for name in self.logins]
        here = [*command, "--listen", target, *self.placement.security(target, f"FOLDER/{CONTROLLER}.pem")]
        return "\n".join([*lines, shlex.join(["charkha", *here])]) + "\n"

    @asynccontextmanager
    async def place(self, folder: Path) -> AsyncIterator[PlacedAgents]:
        """See Engine."""
        async with AsyncExitStack() as stack:
            connections = {name: await stack.enter_async_context(self._connection(name)) for name in self.logins}
            addresses = {name: self.address or _near_end(one) for name, one in connections.items()}
            port = free_port()
            secrets = self.placement.secrets(sorted(set(addresses.values())))
            own = folder / f"{CONTROLLER}.pem"
            write_secret(own, secrets[CONTROLLER].encode())
            watchers = []
            for name, connection in connections.items():
                content = secrets[name].encode()
                target = f"{_bracketed(addresses[name])}:{port}"
                process = await connection.create_process(
                    self._remote(name, target, str(len(content))), encoding=None, stderr=-1
                )
                process.stdin.write(content)
                watchers.append(asyncio.create_task(_watch(name, process)))
                stack.push_async_callback(_stop, process, watchers[-1])
            any_ended = asyncio.create_task(_first(watchers))
            stack.callback(any_ended.cancel)
            listen = f"{'[::]' if any(':' in one for one in addresses.values()) else '0.0.0.0'}:{port}"
            yield PlacedAgents(listen, self.placement.security(listen, str(own)), any_ended)

    def _remote(self, name: str, target: str, size: str) -> str:
        """Shell command of an agent: its secret begins stdin, and is kept in a folder that goes with it."""
        words = shlex.join(self.placement.arguments(name, target, "SECRET")).replace("SECRET", '"$d/secret"')
        keep = f'umask 077; d=$(mktemp -d) && trap \'rm -rf "$d"\' EXIT && head -c {size} >"$d/secret"'
        return f"{keep} && {self.charkha} {words} --until-eof"

    @asynccontextmanager
    async def _connection(self, name: str) -> AsyncIterator[Any]:
        try:
            import asyncssh
        except ImportError as error:
            raise HostError("SSH needs the extra ssh: pip install 'charkha[ssh]'") from error
        login = self.logins[name]
        given: dict[str, Any] = {"username": login.user, "port": login.port, "config": self.config}
        try:
            connection = await asyncssh.connect(
                login.host,
                connect_timeout=CONNECT_S,
                keepalive_interval=1,
                **{key: str(value) if key == "config" else value for key, value in given.items() if value is not None},
            )
        except asyncssh.HostKeyNotVerifiable as error:
            problem = f"{login.host}: its host key is not in known_hosts ({visible(error.reason)})"
            raise HostError(f"{problem}: `{shlex.join(login.words())}` shows and adds it") from error
        except (OSError, asyncssh.Error) as error:
            raise HostError(f"{login.host}: no SSH connection for agent {name} ({visible(str(error))})") from error
        async with connection:
            yield connection


def _near_end(connection: Any) -> str:
    """Address of this machine on an SSH connection."""
    return str(connection.get_extra_info("sockname")[0])


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


async def _watch(name: str, process: Any) -> str:
    log = bytearray()
    async for line in process.stderr:
        log[:] = line  # the last words
    await process.wait_closed()
    code = process.exit_status
    how = "its connection was lost" if code is None else f"ended with exit code {code}"
    return f"agent {name}: {how}{last_words(log.decode(errors='replace'))}"


async def _first(watchers: Sequence[asyncio.Task[str]]) -> str:
    done, _ = await asyncio.wait(watchers, return_when=asyncio.FIRST_COMPLETED)
    try:
        return done.pop().result()
    except OSError as error:
        raise RunError(f"an SSH connection failed ({error})") from error


async def _stop(process: Any, watcher: asyncio.Task[str]) -> None:
    """The agent ends with its stdin."""
    process.stdin.write_eof()
    await asyncio.wait([watcher], timeout=STOP_S)
    process.close()
    watcher.cancel()
    await asyncio.gather(watcher, return_exceptions=True)
