"""Agents on the nodes of a Ray cluster: one actor per node, in a placement group, each with an agent as its child.

Ray ends actors when the driver ends, for whatever reason, and an agent ends with its actor. `ray` is an optional
dependency, imported on use (`pip install 'charkha[ray]'`).
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from emulator.errors import HostError, RunError
from emulator.host.orphan import die_with_parent
from emulator.host.scratch import scratch_folder
from emulator.launch.identities import issue_identities
from emulator.visible import visible
from emulator.wire.control.credentials import TOKEN_VARIABLE

CONTROLLER = "controller"
LOOK_S = 1.0
"""Between two looks at the agents."""
INTERRUPT_S = 2.0
"""How long an interrupted controller may take to end."""
_LONGEST_S = 7 * 24 * 3600.0
"""Identities of a launch are valid for a week."""
STOP_S = 1.0
"""From SIGTERM to SIGKILL."""
_START = (
    "import sys; from emulator.launch.ray_nodes import follow; follow(int(sys.argv.pop(1)));"
    " from emulator.cli.main import main; sys.exit(main(sys.argv[1:]))"
)


def follow(actor: int) -> None:
    """Have this process end with the process of its actor, and run at a normal priority: Ray gives actors a low one."""
    die_with_parent()
    if os.getppid() != actor:  # it was killed before the line above
        os._exit(1)
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, 0)


class AgentActor:
    """Runs `charkha agent` on the node where Ray put it, until it is stopped or killed.

    Args:
        arguments: after `charkha`.
        environment: of the agent, beside the actor's.
        identity: content of its identity file; "": it has none.
    """

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str], identity: str) -> None:
        words, kept = list(arguments), []
        if identity:
            kept.append(_in_memory(identity))
            words += ["--identity", f"/proc/self/fd/{kept[0]}"]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _START, str(os.getpid()), *words],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            pass_fds=kept,
        )

    def host(self) -> str:
        """Name of the node's host, for messages."""
        return os.uname().nodename

    def exit_code(self) -> int | None:
        """Of the agent; None while it runs."""
        return self._process.poll()

    def stop(self) -> None:
        """End the agent and wait for it."""
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_S)
        self._process.kill()


class RayNodes:
    """Context manager: nodes of a cluster, and the agents on them.

    Args:
        address: of the cluster, as `ray.init` takes it: HOST:PORT, or `auto` for that of this node.
        cores: that Ray keeps free for an agent.
    """

    def __init__(self, address: str, *, cores: float) -> None:
        self._cluster, self._cores = address, cores
        self._actors: list[Any] = []

    def __enter__(self) -> Self:
        """Connect.

        Raises:
            HostError: ray is not installed here, or no cluster answers.
        """
        try:
            import ray
        except ImportError as error:
            raise HostError("this engine needs ray: pip install 'charkha[ray]'") from error
        try:
            ray.init(address=self._cluster, log_to_driver=True, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError) as error:
            problem = f"no Ray cluster answers at {self._cluster} ({visible(str(error).partition(chr(10))[0])})"
            raise HostError(f"{problem}: `ray start --head` starts one, `ray status` shows it") from error
        self._ray = ray
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Stop the agents. Ray removes what this driver has made: actors, and the placement group."""
        with suppress(self._ray.exceptions.RayError):
            self._ray.get([one.stop.remote() for one in self._actors], timeout=2 * STOP_S)
        self._ray.shutdown()

    @property
    def address(self) -> str:
        """Of this node, as other nodes know it."""
        return str(self._ray.util.get_node_ip_address())

    def start(
        self,
        commands: Sequence[Sequence[str]],
        *,
        environment: Mapping[str, str],
        identities: Sequence[str],
        timeout_s: float,
    ) -> list[str]:
        """Start an agent on each of as many nodes; returns the names of their hosts.

        Args:
            commands: of each agent, after `charkha`.
            environment: of every agent, beside its actor's.
            identities: content of the identity file of each; "": it has none.
            timeout_s: how long to wait for nodes.

        Raises:
            RunError: there are too few nodes with free cores, or an agent cannot be started.
        """
        ray = self._ray
        from ray.util.placement_group import placement_group
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        group = placement_group([{"CPU": self._cores}] * len(commands), strategy="STRICT_SPREAD")
        if not group.wait(timeout_s):
            alive = sum(node["Alive"] for node in ray.nodes())
            raise RunError(
                f"{len(commands)} agents need as many nodes with {self._cores:g} free cores; the cluster has {alive} "
                "nodes: `ray status` shows what is in use"
            )
        # If an actor ends, so has its agent, and a measurement that lost one is no measurement: no restart.
        actor = ray.remote(AgentActor)
        for index, (command, identity) in enumerate(zip(commands, identities, strict=True)):
            place = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=index)
            options = {"num_cpus": self._cores, "max_restarts": 0, "scheduling_strategy": place}
            self._actors.append(actor.options(**options).remote(command, environment, identity))
        try:
            return list(ray.get([one.host.remote() for one in self._actors], timeout=timeout_s))
        except ray.exceptions.RayError as error:
            last = visible(str(error).strip().splitlines()[-1])
            raise RunError(
                f"an agent cannot be started on a node of Ray ({last}): is charkha installed there?"
            ) from error

    def check(self) -> None:
        """See whether all agents are there.

        Raises:
            RunError: one is not.
        """
        ray = self._ray
        for index, actor in enumerate(self._actors):
            try:
                code = ray.get(actor.exit_code.remote())
            except ray.exceptions.RayError as error:
                raise RunError(f"the node of agent {index} is gone ({type(error).__name__})") from error
            if code is not None:
                raise RunError(f"agent {index} ended with exit code {code}")


def play(
    nodes: RayNodes,
    command: Sequence[str],
    *,
    count: int,
    interfaces: Sequence[str],
    is_insecure: bool,
    timeout_s: float,
    report: Callable[[str], None],
) -> int:
    """Run `charkha COMMAND` here, with agents on the nodes of a cluster; returns its exit code.

    Args:
        nodes: of the cluster.
        command: one that takes --listen.
        count: agents, one per node: `agent-0` and so on.
        interfaces: under test, of each node.
        is_insecure: with a token instead of identities.
        timeout_s: how long to wait for nodes.
        report: called with a line of text.

    Raises:
        HostError: ray is not installed, no cluster answers, or certificates cannot be issued.
        RunError: there are too few nodes, or an agent ended.
    """
    agents = [f"agent-{index}" for index in range(count)]
    with nodes, scratch_folder() as folder:
        target, environment, identity = f"{nodes.address}:{_free_port(nodes.address)}", {}, folder / "controller.pem"
        security = ["--insecure"]
        identities = dict.fromkeys(agents, "")
        if is_insecure:
            environment[TOKEN_VARIABLE] = secrets.token_urlsafe(24)
        else:
            security = ["--identity", str(identity)]
            identities = issue_identities(
                agents, controller=CONTROLLER, addresses=[nodes.address], lasting_s=_LONGEST_S
            )
            _write_secret(identity, identities[CONTROLLER])
        calls = [_agent_command(name, target, interfaces, is_insecure=is_insecure) for name in agents]
        hosts = nodes.start(
            calls, environment=environment, identities=[identities[name] for name in agents], timeout_s=timeout_s
        )
        report(f"agents on {', '.join(sorted(set(hosts)))}")
        return _run_here([*command, "--listen", target, *security], environment, nodes)


def _agent_command(name: str, target: str, interfaces: Sequence[str], *, is_insecure: bool) -> list[str]:
    ports = [word for one in interfaces for word in ("--interface", one)]
    return ["agent", "--controller", target, "--name", name, *ports, *(["--insecure"] if is_insecure else [])]


def _run_here(command: Sequence[str], environment: Mapping[str, str], nodes: RayNodes) -> int:
    """Run a command as a child that ends with this process, while all agents are there."""
    words = [sys.executable, "-P", "-c", _START, str(os.getpid()), *command]
    with subprocess.Popen(words, env={**os.environ, **environment}) as process:
        try:
            while True:
                with suppress(subprocess.TimeoutExpired):
                    return process.wait(LOOK_S)
                nodes.check()
        except BaseException:
            process.send_signal(signal.SIGINT)  # it closes its run folder
            with suppress(subprocess.TimeoutExpired):
                process.wait(INTERRUPT_S)
            process.kill()
            raise


def _free_port(address: str) -> int:
    with socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
        return int(probe.getsockname()[1])


def _in_memory(secret: str) -> int:
    """A file descriptor with a secret: an actor that is killed leaves no file of it."""
    descriptor = os.memfd_create("charkha-identity")
    os.fchmod(descriptor, 0o600)
    os.write(descriptor, secret.encode())
    return descriptor


def _write_secret(path: Path, content: str) -> None:
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        file.write(content)
