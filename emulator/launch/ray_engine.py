"""Agents on the nodes of a Ray cluster: one actor per node, in a placement group, each with an agent as its child.

Ray ends actors when the driver ends, for whatever reason, and an agent ends with its actor. `ray` is an optional
dependency, imported on use (`pip install 'charkha[ray]'`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emulator.certificates.secret_file import write_secret
from emulator.errors import HostError, InputError, RunError
from emulator.host.orphan import die_with_parent
from emulator.launch.engine import CONTROLLER, Placed, Placement, free_port
from emulator.visible import visible

STOP_S = 1.0
"""From SIGTERM to SIGKILL."""
LOOK_S = 1.0
"""Between two looks at the agents."""
_PAUSE_S = 0.2
"""Between two looks at what is to happen soon; Ctrl-C is heard in between."""
_SECRET = "SECRET"
"""Stands for the path of the secret, which only the node knows."""
_START = (
    "import sys; from emulator.launch.ray_engine import follow; follow(int(sys.argv.pop(1)));"
    " from emulator.cli.main import main; sys.exit(main(sys.argv[1:]))"
)


def connected(address: str) -> Any:
    """The module `ray`, connected to a cluster as its driver.

    Args:
        address: of the cluster, as `ray.init` takes it: HOST:PORT, or `auto` for that of this node.

    Raises:
        HostError: ray is not installed here, or no cluster answers.
    """
    try:
        import ray
    except ImportError as error:
        raise HostError("Ray is not installed: pip install 'charkha[ray]'") from error
    on_term = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address=address, log_to_driver=True, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        problem = f"no Ray cluster answers at {address} ({visible(str(error).partition(chr(10))[0])})"
        raise HostError(f"{problem}: `ray start --head` starts one, `ray status` shows it") from error
    signal.signal(signal.SIGTERM, on_term)  # Ray has put one of its own, which aborts the process
    return ray


@dataclass(frozen=True, slots=True)
class RayEngine:
    """Starts agents as actors. Implements Engine.

    Attributes:
        placement: of the agents, one per node.
        address: of the cluster, see `connected`.
        cores: that Ray keeps free for an agent.
        join_timeout_s: how long to wait for nodes.
    """

    placement: Placement
    address: str
    cores: float
    join_timeout_s: float

    def describe(self, command: Sequence[str]) -> str:
        """See Engine. Raises InputError: Ray has no job file."""
        raise InputError("--print: Ray has no job file; the actors are started by this command itself")

    @asynccontextmanager
    async def place(self, folder: Path) -> AsyncIterator[Placed]:
        """See Engine. Ray removes what this driver has made: actors, and the placement group."""
        ray, actors = connected(self.address), []
        try:
            node = str(ray.util.get_node_ip_address())
            target, secrets = f"{node}:{free_port(node)}", self.placement.secrets([node])
            group = await self._reserved(ray)
            for index, name in enumerate(self.placement.agents):
                words = self.placement.arguments(name, target, _SECRET)
                actors.append(self._actor(ray, group, index).remote(words, secrets[name]))
            await self._all_started(ray, actors)
            own = folder / CONTROLLER
            write_secret(own, secrets[CONTROLLER].encode())
            watching = asyncio.create_task(_first_end(ray, actors, self.placement.agents))
            yield Placed(target, self.placement.security(target, str(own)), watching)
            watching.cancel()
        finally:
            with suppress(ray.exceptions.RayError):
                ray.get([one.stop.remote() for one in actors], timeout=2 * STOP_S)
            ray.shutdown()

    async def _reserved(self, ray: Any) -> Any:
        """A placement group with a node for each agent."""
        from ray.util.placement_group import placement_group

        count = len(self.placement.agents)
        group = placement_group([{"CPU": self.cores}] * count, strategy="STRICT_SPREAD")
        if not await _happens(lambda: group.wait(_PAUSE_S), self.join_timeout_s):
            alive = sum(node["Alive"] for node in ray.nodes())
            raise RunError(
                f"{count} agents need as many nodes with {self.cores:g} free cores; the cluster has {alive} nodes: "
                "`ray status` shows what is in use"
            )
        return group

    def _actor(self, ray: Any, group: Any, index: int) -> Any:
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        # If an actor ends, so has its agent, and a measurement that lost one is no measurement: no restart.
        place = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=index)
        return ray.remote(AgentActor).options(num_cpus=self.cores, max_restarts=0, scheduling_strategy=place)

    async def _all_started(self, ray: Any, actors: Sequence[Any]) -> None:
        looks = [one.exit_code.remote() for one in actors]
        started = lambda: not ray.wait(looks, num_returns=len(looks), timeout=_PAUSE_S)[1]  # noqa: E731
        if not await _happens(started, self.join_timeout_s):
            raise RunError(f"after {self.join_timeout_s:g} s not all actors run: `ray list actors` shows why")
        try:
            ray.get(looks)
        except ray.exceptions.RayError as error:
            problem = f"an agent cannot be started on a node of Ray ({visible(str(error).strip().splitlines()[-1])})"
            raise RunError(f"{problem}: is the same charkha installed there?") from error


class AgentActor:
    """Runs `charkha agent` on the node where Ray put it, until it is stopped or killed.

    Args:
        words: after `charkha`; _SECRET stands for the path of the secret.
        secret: content of that file.
    """

    def __init__(self, words: Sequence[str], secret: str) -> None:
        # In memory: an actor that is killed leaves no file with a secret.
        descriptor = os.memfd_create("charkha-secret")
        os.fchmod(descriptor, 0o600)
        os.write(descriptor, secret.encode())
        known = [f"/proc/self/fd/{descriptor}" if word == _SECRET else word for word in words]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _START, str(os.getpid()), *known],
            stdin=subprocess.DEVNULL,
            pass_fds=[descriptor],
        )

    def exit_code(self) -> int | None:
        """Of the agent; None while it runs."""
        return self._process.poll()

    def stop(self) -> None:
        """End the agent and wait for it."""
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_S)
        self._process.kill()


def follow(actor: int) -> None:
    """Have this process end with the process of its actor, and run at a normal priority: Ray gives actors a low one."""
    die_with_parent()
    if os.getppid() != actor:  # it was killed before the line above
        os._exit(1)
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, 0)


async def _first_end(ray: Any, actors: Sequence[Any], names: Sequence[str]) -> str:
    """Wait until an agent has ended; which, and why."""
    while True:
        for name, actor in zip(names, actors, strict=True):
            try:
                code = await actor.exit_code.remote()
            except ray.exceptions.RayError as error:
                return f"agent {name} is gone with its actor ({type(error).__name__})"
            if code is not None:
                return f"agent {name} ended with exit code {code}"
        await asyncio.sleep(LOOK_S)


async def _happens(look: Callable[[], bool], timeout_s: float) -> bool:
    """Whether something happens in time; each look takes a moment."""
    deadline = time.monotonic() + timeout_s
    while not look():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0)
    return True
