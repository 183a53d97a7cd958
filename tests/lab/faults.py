"""Faults that strike a run: what is broken, when it is over at the latest, and what is put back afterwards."""

from __future__ import annotations

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
from pathlib import Path
from random import Random
from typing import TypeAlias

from agents.lease import CHECK_S
from emulator.controller.roster import LEASE_S
from emulator.controller.watchdog import JOIN_TIMEOUT_S
from emulator.lab.recipe import exec_prefix
from emulator.lab.state import LabState
from emulator.run_folder.store import is_run_folder
from tests.support.command import Command

SOON_S, SILENT_S = 6.0, 20.0
"""Deadlines: of a fault that is noticed at once (2 s are promised on a quiet machine), and of a silence."""
ENDLESS, MIDDLE, SHORT = 100_000, 300, 60
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
    """Where a fault strikes."""

    lab: LabState
    folder: Path
    drawn: Random

    def run(self, node: str, *words: object) -> None:
        """A command in a namespace of the lab."""
        command = [*exec_prefix(self.lab.design.node(node)), *map(str, words)]
        subprocess.run(command, check=True, capture_output=True)


Prefix: TypeAlias = Sequence[str]
"""What stands before the command."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault.

    Attributes:
        strike: breaks something while the command runs.
        deadline_s: from the strike to the end of the command and its agents.
        prepare: around the run: yields what stands before the command, and puts back what was broken.
        iterations: ENDLESS, or SHORT where a run may not notice the fault.
        kills_command: no line can be expected of it.
        loses_folder: what was written is not looked for.
        resumes_after_s: the command is stopped for so long; agents send nothing in the end.
    """

    name: str
    strike: Callable[[Command, Scene], None]
    deadline_s: float = SOON_S
    prepare: Callable[[Scene], AbstractContextManager[Prefix]] = lambda scene: nullcontext(())
    iterations: int = ENDLESS
    kills_command: bool = False
    loses_folder: bool = False
    needs_lab: bool = True
    resumes_after_s: float = 0

    def resume(self, command: Command) -> None:
        """Let a stopped command go on."""
        command.process.send_signal(signal.SIGCONT)


def _to_agent(number: signal.Signals) -> Callable[[Command, Scene], None]:
    def strike(command: Command, scene: Scene) -> None:
        if (agent := _wait_for_agent(command, scene)) is not None:
            os.kill(agent, number)

    return strike


def _wait_for_agent(command: Command, scene: Scene) -> int | None:
    """An agent, once there are any; None: the command has ended before."""
    while command.process.poll() is None:
        if agents := command.agents():
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


def _nothing(command: Command, scene: Scene) -> None:
    """It was broken before."""


def _fill(command: Command, scene: Scene) -> None:
    with suppress(OSError), (scene.folder.parent / "ballast").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 14))


def _delete(command: Command, scene: Scene) -> None:
    while not is_run_folder(scene.folder):
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
    words = [*exec_prefix(scene.lab.design.node("h1")), sys.executable, "-c", _PORT_HOLDER]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        try:
            yield ()
        finally:
            holder.kill()


def _around(*undo: tuple[str, str]) -> Callable[[Scene], AbstractContextManager[Prefix]]:
    """Commands of `ip`, (node, words), that put back what was broken."""

    @contextmanager
    def prepare(scene: Scene) -> Iterator[Prefix]:
        try:
            yield ()
        finally:
            for node, words in undo:
                scene.run(node, "ip", *words.split())

    return prepare


def _ip(node: str, words: str) -> Callable[[Command, Scene], None]:
    return lambda command, scene: scene.run(node, "ip", *words.split())


FAULTS: tuple[Fault, ...] = (
    Fault("agent killed", _to_agent(signal.SIGKILL)),
    Fault("agent stopped", _to_agent(signal.SIGSTOP), JOIN_TIMEOUT_S + SOON_S),
    Fault("command killed", _to_command(signal.SIGKILL), kills_command=True),
    Fault(
        "command stopped",
        _to_command(signal.SIGSTOP),
        LEASE_S + CHECK_S + 1.5 + SILENT_S,
        iterations=MIDDLE,
        resumes_after_s=LEASE_S + CHECK_S + 1.5,
    ),
    Fault("command interrupted", _interrupt),
    Fault("disk full", _fill, prepare=_small_disk),
    Fault("run folder deleted", _delete, loses_folder=True),
    Fault("no descriptors, agent", _limit(resource.RLIMIT_NOFILE, of_agent=True), SILENT_S, iterations=SHORT),
    Fault("no descriptors, command", _limit(resource.RLIMIT_NOFILE, of_agent=False), SILENT_S, iterations=SHORT),
    Fault("few descriptors", _nothing, SILENT_S, _from_the_start("nofile", 4, 70), SHORT),
    Fault("no memory, agent", _limit(resource.RLIMIT_AS, of_agent=True), SILENT_S, iterations=SHORT),
    Fault("no memory, command", _limit(resource.RLIMIT_AS, of_agent=False), SILENT_S, iterations=SHORT),
    Fault("little memory", _nothing, SILENT_S, _from_the_start("as", 40 << 20, 900 << 20), SHORT),
    Fault("few processes", _nothing, SILENT_S, _as_other_user, SHORT, needs_lab=False),
    Fault("port in use", _nothing, SILENT_S, _held_port, SHORT),
    Fault(
        "interface down",
        _ip("h1", "link set eth0 down"),
        SILENT_S,
        _around(("h1", "link set eth0 up"), ("h1", "route replace 198.18.1.0/24 via 198.18.1.1 dev eth0 onlink")),
    ),
    Fault("port of the switch down", _ip("sw0", "link set p1 down"), SILENT_S, _around(("sw0", "link set p1 up"))),
    Fault(
        "address removed",
        _ip("h1", "route del local 198.18.2.0/24 dev eth0 table local"),
        SILENT_S,
        _around(("h1", "route add local 198.18.2.0/24 dev eth0 table local")),
    ),
)
