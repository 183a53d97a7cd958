"""Faults that strike a run: what is broken, when it is over at the latest, and what is put back afterwards."""

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from random import Random
from typing import TypeAlias

from emulator.controller.roster.local_agents import TOLD_LATER
from emulator.results.run_folder.store import is_run_folder
from tests.lab.sites import Site
from tests.support.command import Command, arguments_of, wait_for

SOON_S, UNHEARD_S, SILENT_S, LEASE_OVER_S = 2.0, 3.0, 12.0, 11.0
"""Deadlines of docs/faults.md: of what is noticed at once, of silence, and of agents whose controller is silent."""
JOIN_TIMEOUT_S, STANDSTILL_S = 10, 6
"""Options of the command."""
SHORT_RUN_S = 6.0
"""A short run takes so long at most, from its start: it may be played to its end before it notices a fault."""
ENDLESS, MIDDLE, SHORT = 100_000, 300, 60
LEAST_DESCRIPTORS = 5
"""With fewer the Python interpreter does not start."""
_OTHER_USER = 64_123
_PORT_HOLDER = """
import socket, time
one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
one.bind(("", 4791))
print("bound", flush=True)
time.sleep(60)
"""


@dataclass(frozen=True, slots=True)
class Scene:
    """Where a fault strikes: the site, and the folder of the run."""

    site: Site
    folder: Path
    drawn: Random


Prefix: TypeAlias = Sequence[str]
"""What stands before the command."""


class Kind(Enum):
    """Of a run: in the lab, on loopback, or with agents that dial in."""

    LAB, LOOPBACK, SERVERS = range(3)


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault.

    Attributes:
        strike: breaks something while the command runs; None: it is broken from the start.
        deadline_s: from the strike to the end of the command and its agents.
        prepare: around the run: yields what stands before the command, and puts back what was broken.
        iterations: ENDLESS, or SHORT where a run may not notice the fault.
        may_kill_command: no line can be expected of it then.
        loses_folder: what was written is not looked for.
        stopped_s: the command is stopped for so long, and its agents send nothing in the end.
    """

    name: str
    strike: Callable[[Command, Scene], None] | None
    deadline_s: float = SOON_S
    prepare: Callable[[Scene], AbstractContextManager[Prefix]] = lambda scene: nullcontext(())
    iterations: int = ENDLESS
    kind: Kind = Kind.LAB
    may_kill_command: bool = False
    loses_folder: bool = False
    stopped_s: float = 0


def _to_agent(number: signal.Signals) -> Callable[[Command, Scene], None]:
    def strike(command: Command, scene: Scene) -> None:
        if (agent := _wait_for_agent(command, scene)) is not None:
            os.kill(agent, number)

    return strike


def _wait_for_agent(command: Command, scene: Scene) -> int | None:
    """An agent of the lab, not one started before its place was known; None: the command has ended before."""
    while command.process.poll() is None:
        if agents := [pid for pid in command.agents() if TOLD_LATER.encode() not in arguments_of(pid)]:
            return scene.drawn.choice(agents)
        time.sleep(0.02)
    return None


def _to_command(number: signal.Signals) -> Callable[[Command, Scene], None]:
    return lambda command, scene: command.process.send_signal(number)


def _interrupt(command: Command, scene: Scene) -> None:
    """Once it is more than an interpreter that loads its first modules."""
    while command.process.poll() is None and not is_run_folder(scene.folder):
        time.sleep(0.01)
    command.process.send_signal(signal.SIGINT)


def _fill(command: Command, scene: Scene) -> None:
    with suppress(OSError), (scene.folder.parent / "ballast").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 14))


def _delete(command: Command, scene: Scene) -> None:
    while not is_run_folder(scene.folder) and command.process.poll() is None:
        time.sleep(0.01)
    time.sleep(scene.drawn.uniform(0, 2))
    while scene.folder.exists():
        shutil.rmtree(scene.folder, ignore_errors=True)


def _limit(which: int, *, of_agent: bool) -> Callable[[Command, Scene], None]:
    """No more than it has now."""

    def strike(command: Command, scene: Scene) -> None:
        pid = _wait_for_agent(command, scene) if of_agent else command.process.pid
        if pid is None:
            return
        with suppress(ProcessLookupError, FileNotFoundError):
            if which == resource.RLIMIT_NOFILE:
                most = len([*Path(f"/proc/{pid}/fd").iterdir()])
            else:
                most = int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize() + (1 << 20)
            resource.prlimit(pid, which, (most, most))

    return strike


def _from_the_start(option: str, least: int, most: int) -> Callable[[Scene], AbstractContextManager[Prefix]]:
    def prepare(scene: Scene) -> AbstractContextManager[Prefix]:
        return nullcontext(("prlimit", f"--{option}={scene.drawn.randint(least, most)}", "--"))

    return prepare


def _as_other_user(scene: Scene) -> AbstractContextManager[Prefix]:
    """Root has no limit of processes."""
    caps = "+dac_override"
    user = ("setpriv", "--reuid", _OTHER_USER, "--regid", _OTHER_USER, "--clear-groups")
    limit = ("prlimit", f"--nproc={scene.drawn.randint(1, 40)}", "--")
    return nullcontext((*limit, *map(str, user), f"--inh-caps={caps}", f"--ambient-caps={caps}"))


@contextmanager
def _small_disk(scene: Scene) -> Iterator[Prefix]:
    where = str(scene.folder.parent)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "charkha-chaos", where], check=True)
    try:
        yield ()
    finally:
        subprocess.run(["umount", "-l", where], check=True)


@contextmanager
def _held_port(scene: Scene) -> Iterator[Prefix]:
    words = [*scene.site.nodes["h1"], sys.executable, "-c", _PORT_HOLDER]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as holder:
        holder.stdout.readline()
        try:
            yield ()
        finally:
            holder.kill()


@contextmanager
def _little_memory(scene: Scene) -> Iterator[Prefix]:
    """A group of processes of which the kernel kills one when they have more than so much."""
    group, limit = _memory_group()
    group.mkdir()
    try:
        (group / limit).write_text(str(scene.drawn.randint(30 << 20, 500 << 20)))
        yield "sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"
    finally:
        wait_for(lambda: not (group / "cgroup.procs").read_text() or None)
        group.rmdir()


def _memory_group() -> tuple[Path, str]:
    """A group for this process, and the file of its limit: of cgroup v1 or v2."""
    v1 = Path("/sys/fs/cgroup/memory")
    parent, limit = (v1, "memory.limit_in_bytes") if v1.is_dir() else (v1.parent, "memory.max")
    return parent / f"charkha-chaos-{os.getpid()}", limit


def _around(*undo: tuple[str, str]) -> Callable[[Scene], AbstractContextManager[Prefix]]:
    """Commands of `ip`, (node, words), that put back what was broken."""

    @contextmanager
    def prepare(scene: Scene) -> Iterator[Prefix]:
        try:
            yield ()
        finally:
            for node, words in undo:
                scene.site.run(node, "ip", *words.split())

    return prepare


@contextmanager
def _renewed(scene: Scene) -> Iterator[Prefix]:
    try:
        yield ()
    finally:
        scene.site.renew()


def _ip(node: str, words: str) -> Callable[[Command, Scene], None]:
    def strike(command: Command, scene: Scene) -> None:
        scene.site.run(node, "ip", *words.split())

    return strike


def _cut(command: Command, scene: Scene) -> None:
    """Once there is traffic: who has not joined has nothing to lose."""
    begun = scene.site.frames() + 100
    while command.process.poll() is None and scene.site.frames() < begun:
        time.sleep(0.05)
    time.sleep(scene.drawn.uniform(0, 1))
    scene.site.run("middle", "ip", "link", "set", "mgmt1", "down")


_NOTICED_OR_PLAYED_S = SOON_S + SHORT_RUN_S
FAULTS: tuple[Fault, ...] = (
    Fault("agent killed", _to_agent(signal.SIGKILL)),
    Fault("agent stopped", _to_agent(signal.SIGSTOP), SILENT_S),
    Fault("command killed", _to_command(signal.SIGKILL), may_kill_command=True),
    Fault(
        "command stopped",
        _to_command(signal.SIGSTOP),
        _NOTICED_OR_PLAYED_S + SHORT_RUN_S,  # a run of which nothing was lost is played to its end
        iterations=MIDDLE,
        stopped_s=LEASE_OVER_S,
    ),
    Fault("command interrupted", _interrupt),
    Fault("disk full", _fill, prepare=_small_disk),
    Fault("run folder deleted", _delete, loses_folder=True),
    *(
        Fault(f"no {what}, {who}", _limit(which, of_agent=who == "agent"), _NOTICED_OR_PLAYED_S, iterations=SHORT)
        for what, which in (("descriptors", resource.RLIMIT_NOFILE), ("memory", resource.RLIMIT_AS))
        for who in ("agent", "command")
    ),
    *(
        Fault(name, None, _NOTICED_OR_PLAYED_S, prepare, SHORT)
        for name, prepare in (
            ("few descriptors", _from_the_start("nofile", LEAST_DESCRIPTORS, 70)),
            ("little address space", _from_the_start("as", 40 << 20, 900 << 20)),
            ("port in use", _held_port),
        )
    ),
    Fault("little memory", None, _NOTICED_OR_PLAYED_S, _little_memory, SHORT, may_kill_command=True),
    Fault("few processes", None, _NOTICED_OR_PLAYED_S, _as_other_user, SHORT, Kind.LOOPBACK),
    Fault(
        "interface down",
        _ip("h1", "link set eth0 down"),
        STANDSTILL_S + SOON_S,
        _around(("h1", "link set eth0 up"), ("h1", "route replace 198.18.1.0/24 via 198.18.1.1 dev eth0 onlink")),
    ),
    Fault("interface deleted", _ip("h1", "link delete eth0"), STANDSTILL_S + SOON_S, _renewed),
    Fault(
        "port of the switch down",
        _ip("sw0", "link set p1 down"),
        STANDSTILL_S + SOON_S,
        _around(("sw0", "link set p1 up")),
    ),
    Fault(
        "address removed",
        _ip("h1", "route del local 198.18.2.0/24 dev eth0 table local"),
        STANDSTILL_S + SOON_S,
        _around(("h1", "route add local 198.18.2.0/24 dev eth0 table local")),
    ),
    Fault("control network cut", _cut, UNHEARD_S, prepare=_around(("middle", "link set mgmt1 up")), kind=Kind.SERVERS),
    Fault("controller killed", _to_command(signal.SIGKILL), kind=Kind.SERVERS, may_kill_command=True),
)
