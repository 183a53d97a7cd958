"""`charkha agent launch`: agents started on machines or by what a cluster has, for one command.

Here are the command, and the options of the engines whose controller is a child of this command: all but Kubernetes.

Of these, the engine of this machine is here: agents are processes, and control goes through a Unix socket.
"""

from __future__ import annotations

import argparse
import asyncio
import shlex
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.annexes.launch.engine import UNIX, PlacedAgents, Placement, own_child, play
from emulator.cli.parser import argument
from emulator.cli.words import renamed
from emulator.errors import HostError, InputError
from emulator.host.stderr_log import last_words
from emulator.plugins import BUILT_IN, PluginKind, installed, load

if TYPE_CHECKING:
    from emulator.annexes.launch.engine import Engine
    from emulator.cli.parser import Parser, Subparsers
    from emulator.topology.model import Topology

STOP_S = 1.0
"""From SIGTERM to SIGKILL."""


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Starts agents as child processes, which the kernel kills if this process ends. Implements Engine."""

    placement: Placement

    def describe(self, command: Sequence[str]) -> str:
        """See Engine."""
        target = f"{UNIX}FOLDER/control.sock"
        agents = [self.placement.arguments(name, target, "") for name in self.placement.agents]
        lines = [shlex.join(["charkha", *words]) for words in [*agents, [*command, "--listen", target]]]
        return "\n".join([*(f"{line} &" for line in lines[:-1]), lines[-1]]) + "\n"

    @asynccontextmanager
    async def place(self, folder: Path) -> AsyncIterator[PlacedAgents]:
        """See Engine."""
        target = f"{UNIX}{folder}/control.sock"
        ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        processes: dict[str, asyncio.subprocess.Process] = {}
        watchers: list[asyncio.Task[None]] = []
        try:
            for name in self.placement.agents:
                processes[name] = await self._start(name, target, folder)
                watchers.append(asyncio.create_task(_watch(name, processes[name], folder, ended)))
            yield PlacedAgents(target, (), ended)
        finally:
            await _stop(list(processes.values()), watchers)

    async def _start(self, name: str, target: str, folder: Path) -> asyncio.subprocess.Process:
        words = own_child(*self.placement.arguments(name, target, ""))
        try:
            with _log(folder, name).open("wb") as log:
                return await asyncio.create_subprocess_exec(
                    *words, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
        except OSError as error:
            raise HostError(f"agent {name} cannot be started ({error.strerror}): `ulimit -a` shows limits") from error


def _log(folder: Path, name: str) -> Path:
    return folder / f"{name.replace('/', '_')}.log"


async def _watch(name: str, process: asyncio.subprocess.Process, folder: Path, ended: asyncio.Future[str]) -> None:
    code = await process.wait()
    if not ended.done():
        said = last_words(_log(folder, name).read_text(errors="replace"))
        ended.set_result(f"agent {name} ended with exit code {code}{said}")


async def _stop(processes: Sequence[asyncio.subprocess.Process], watchers: Sequence[asyncio.Task[None]]) -> None:
    running = [one for one in processes if one.returncode is None]
    for process in running:
        process.terminate()
    if watchers:
        await asyncio.wait(watchers, timeout=STOP_S)
    for process in running:
        if process.returncode is None:
            process.kill()
    await asyncio.gather(*watchers)


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """An engine on the command line.

    Attributes:
        text: how it starts agents, for the help.
        example: below its help.
        add: adds what it takes beside the command.
        run: plays the command with it, or prints what it would do; returns the exit code, raises EmulatorError.
    """

    text: str
    example: str
    add: Callable[[Parser], None]
    run: Callable[[argparse.Namespace, Sequence[str]], int]


def add_interfaces(parser: Parser) -> None:
    """Options that every agent gets."""
    parser.add_argument(
        "--interface", metavar="NAME", action="append", default=[], help="port under test of each agent (repeatable)"
    )


def add_insecure(parser: Parser) -> None:
    """Control between machines without certificates."""
    parser.add_argument("--insecure", action="store_true", help="use a token instead of certificates")


def placement_of(args: argparse.Namespace, agents: Sequence[str]) -> Placement:
    """What is to be placed."""
    is_insecure = getattr(args, "insecure", False)
    return Placement(tuple(agents), tuple(args.interface), has_identities=not is_insecure)


def agents_of(command: Sequence[str]) -> list[str]:
    """Names of the agents that the topology of a command waits for, in the order of its hosts.

    Raises:
        InputError: the command has no topology, or it names no agents.
        TopologyError: the topology is not valid.
    """
    topology = topology_of(command)
    agents = topology.agents
    if not agents and "--by-hand" in command:
        agents = {host.name: host.name for host in topology.hosts}
    found = dict.fromkeys(agents[host.name] for host in topology.hosts if host.name in agents)
    if not found:
        raise InputError(f"{topology.source} names no agents: add `agents: {{HOST: NAME}}`, or give `run` --by-hand")
    return list(found)


def topology_of(command: Sequence[str]) -> Topology:
    """The topology of a command, without ranks.

    Raises:
        InputError: it has none, or the command line is not valid.
        TopologyError: it is not valid.
    """
    from emulator.cli.main import build_parser
    from emulator.experiment.spec.document import read_experiment
    from emulator.topology.load import load_topology

    args = build_parser(command[:1]).parse_args(command)
    given, allowed = getattr(args, "network.topology"), getattr(args, "network.allow_networks") or []
    if given is None and getattr(args, "file", None) is not None:
        network = read_experiment(args.file).network
        given, allowed = network.topology, [*allowed, *network.allow_networks]
    if given is None:
        raise InputError("the command needs --topology FILE: its `agents` say which agent serves which host")
    return load_topology(Path(given), ranks=0, allow_networks=allowed)


def refuse_own_control(command: Sequence[str]) -> None:
    """Where the controller listens, and what protects it, is the business of the launch.

    Raises:
        InputError: the command says it as well.
    """
    for word in command:
        if word.partition("=")[0] in ("--listen", "--identity", "--token-file", "--insecure", "--tls-cert"):
            raise InputError(f"{word}: leave it out of the command; the launch chooses it")


def print_or_play(engine: Engine, args: argparse.Namespace, command: Sequence[str]) -> int:
    """Print what an engine would do, or do it.

    Raises:
        EmulatorError: see `play`.
    """
    if args.print:
        print(engine.describe(command), end="")
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # agents are removed either way
    return play(engine, command)


def _run_local(args: argparse.Namespace, command: Sequence[str]) -> int:
    return print_or_play(LocalEngine(placement_of(args, agents_of(command))), args, command)


LOCAL = EngineOptions(
    "as processes of this machine",
    """example:
  charkha agent launch local -- run traces/my-job --topology two-agents.yaml

Starts every agent in the topology as a local process, to try a topology of
several machines on one. docs/launch.md has the details.
""",
    add_interfaces,
    _run_local,
)


def _login(text: str) -> str:
    from emulator.annexes.launch.ssh import Login

    Login.parse(text)
    return text


def _add_ssh(parser: Parser) -> None:
    parser.add_argument(
        "--host",
        metavar="[USER@]HOST[:PORT]",
        type=argument(_login),
        action="append",
        default=[],
        help="host of an agent, in topology order (repeatable)",
    )
    add_interfaces(parser)
    parser.add_argument("--charkha", metavar="COMMAND", default="charkha", help="command that starts Charkha there")
    parser.add_argument("--address", help="address of this machine for agents (default: that of the SSH connection)")
    parser.add_argument("--config", metavar="FILE", type=Path, help="SSH configuration (default: ~/.ssh/config)")
    add_insecure(parser)


def _run_ssh(args: argparse.Namespace, command: Sequence[str]) -> int:
    from emulator.annexes.launch.ssh import Login, SshEngine

    agents = agents_of(command)
    hosts = args.host or agents
    if len(hosts) != len(agents):
        raise InputError(f"the topology names {len(agents)} agents ({', '.join(agents)}): give as many --host")
    logins = {name: Login.parse(host) for name, host in zip(agents, hosts, strict=True)}
    placement = placement_of(args, agents)
    engine = SshEngine(placement, logins, charkha=args.charkha, address=args.address, config=args.config)
    return print_or_play(engine, args, command)


SSH = EngineOptions(
    "over SSH",
    """example:
  charkha agent launch ssh --host root@server0 --host root@server1 --interface eth1 \\
      -- run traces/my-job --topology rack.yaml

Starts the agents in the topology: the first on the first host, and so on. Without --host, each
agent starts on the host of its name. docs/launch.md has the details.
""",
    _add_ssh,
    _run_ssh,
)


def _add_slurm(parser: Parser) -> None:
    add_interfaces(parser)
    parser.add_argument(
        "--sbatch",
        metavar="OPTION",
        action="append",
        default=[],
        help="sbatch option, for example partition=lab (repeatable)",
    )
    add_insecure(parser)
    parser.add_argument(
        "--in-job", advanced=True, action="store_true", help="play in the current job, for batch scripts"
    )


def _run_slurm(args: argparse.Namespace, command: Sequence[str]) -> int:
    from emulator.annexes.launch.slurm import SlurmBatch, SlurmStep, submitted

    placement = placement_of(args, agents_of(command))
    if args.in_job:
        return print_or_play(SlurmStep(placement, Path.cwd()), args, command)
    script = SlurmBatch(placement, args.sbatch).script(command)
    if args.print:
        print(script, end="")
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the job is cancelled either way
    return submitted(script, Path.cwd())


SLURM = EngineOptions(
    "as a step of a Slurm job",
    """example, on a login node:
  charkha agent launch slurm --interface eth1 --sbatch partition=lab -- run job --topology rack.yaml

Submits a job with a node for each agent in the topology, shows its output, and cancels it
on Ctrl-C. The current folder must be on a file system that all nodes share: docs/launch.md.
""",
    _add_slurm,
    _run_slurm,
)


_EXAMPLE = """example:
  charkha agent launch slurm --interface eth1 -- run traces/my-job --topology rack.yaml
"""
PLAYS = ("run", "bench")


def add_parser(subparsers: Subparsers) -> None:
    """Add `launch` to the command line."""
    parser = subparsers.add_parser(
        "launch",
        description="Start agents on machines or the nodes of a cluster, play one command, and remove the agents.",
        epilog=_EXAMPLE,
    )
    engines = parser.add_subparsers(title="engines", metavar="ENGINE", required=True)
    for name in (*BUILT_IN[PluginKind.ENGINES], *installed(PluginKind.ENGINES)):
        one = load(PluginKind.ENGINES, name, EngineOptions)
        engine = engines.add_parser(name, help=one.text, description=f"Start agents {one.text}.", epilog=one.example)
        engine.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="run … or bench …")
        engine.add_argument("--print", action="store_true", help="print what would be started, without starting it")
        one.add(engine)
        engine.set_defaults(handler=_run, engine=one)


def _run(args: argparse.Namespace) -> int:
    words = args.command[1:] if args.command[:1] == ["--"] else args.command
    words = renamed(words)
    if not words or words[0] not in PLAYS:
        raise InputError(f"give the command after --: one of {', '.join(PLAYS)}")
    refuse_own_control(words)
    engine: EngineOptions = args.engine
    return engine.run(args, words)
