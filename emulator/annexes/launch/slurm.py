"""A launch as a Slurm job: sbatch, its output as it comes, and scancel when this command ends first.

Inside the job, agents are one step of it, a task per node, and the controller is beside this process.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from emulator.annexes.launch.engine import CONTROLLER, PlacedAgents, Placement, failed, free_port
from emulator.errors import HostError, RunError
from emulator.host.files import write_secret
from emulator.host.stderr_log import last_words
from emulator.visible import visible

LOOK_S = 0.5
"""Between two looks at the job."""
_UNFINISHED = {"PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "RESIZING", "REQUEUED"}
_GUARD = 'read -r finished || exec scancel "$0" </dev/null >/dev/null 2>&1'
"""Shell: cancels a job when stdin ends without a line, however its writer ended."""


@dataclass(frozen=True, slots=True)
class SlurmBatch:
    """A job that plays a command: one agent per node, the controller on the first.

    Attributes:
        options: of sbatch, as `partition=lab`.
    """

    placement: Placement
    options: Sequence[str] = ()

    def script(self, command: Sequence[str]) -> str:
        """What sbatch gets."""
        placement = self.placement
        nodes = len(placement.agents)
        ports = [word for one in placement.interfaces for word in ("--interface", one)]
        security = [] if placement.has_identities else ["--insecure"]
        words = [sys.executable, "-P", "-m", "emulator", "agent", "launch", "slurm", "--in-job", *ports, *security]
        options = [
            "--job-name=charkha",
            f"--nodes={nodes}",
            f"--ntasks={nodes}",
            "--ntasks-per-node=1",
            "--no-requeue",
            "--output=charkha-%j.out",
            "--error=charkha-%j.err",
            *(f"--{one.lstrip('-')}" for one in self.options),
        ]
        lines = ["#!/bin/sh", *(f"#SBATCH {one}" for one in options)]
        return "\n".join([*lines, f"exec {shlex.join([*words, '--', *command])}"]) + "\n"


def submitted(script: str, folder: Path) -> int:
    """Play a script as a job, with its output on stdout and stderr of this process; returns its exit code.

    Raises:
        HostError: Slurm is not installed.
        RunError: Slurm refuses the job, or it ended without an exit code.
        KeyboardInterrupt: the job is cancelled.
    """
    job = _said("sbatch", "--parsable", stdin=script).strip().partition(";")[0]
    print(f"charkha: job {job} is queued", file=sys.stderr, flush=True)
    with _cancelling(job):
        shown = [(folder / f"charkha-{job}.{kind}", stream) for kind, stream in _STREAMS]
        offsets = dict.fromkeys((file for file, _ in shown), 0)
        while True:
            state, code, killed = _look(job)
            for file, stream in shown:
                offsets[file] = _show(file, offsets[file], stream)
            if state not in _UNFINISHED:
                break
            time.sleep(LOOK_S)
    if killed or (state != "COMPLETED" and not code):
        raise RunError(f"job {job} ended: {visible(state)}")
    return code


_STREAMS = (("out", sys.stdout), ("err", sys.stderr))


@contextmanager
def _cancelling(job: str) -> Iterator[None]:
    """Cancel the job if the context, or this process, ends early; a child sees to it, which a killed process leaves."""
    guard = subprocess.Popen(["sh", "-c", _GUARD, job], stdin=subprocess.PIPE, start_new_session=True)
    assert guard.stdin is not None
    with guard:
        yield
        with suppress(BrokenPipeError):
            guard.stdin.write(b"finished\n")


def _look(job: str) -> tuple[str, int, int]:
    """State, exit code, and the signal that ended it."""
    facts = _said("scontrol", "--oneliner", "show", "job", job)
    found = re.search(r"JobState=(\S+).*\bExitCode=(\d+):(\d+)", facts)
    if found is None:
        raise RunError(f"Slurm says nothing of job {job}")
    return found[1], int(found[2]), int(found[3])


def _show(file: Path, offset: int, stream: IO[str]) -> int:
    """Print what is new in a file; returns how far it was read."""
    with suppress(FileNotFoundError), file.open("rb") as content:
        content.seek(offset)
        new = content.read()
        stream.write(new.decode(errors="replace"))
        stream.flush()
        offset += len(new)
    return offset


def _said(*words: str, stdin: str = "") -> str:
    try:
        done = subprocess.run(words, input=stdin, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise HostError(f"no {words[0]} here: `charkha agent launch slurm` needs a login node of Slurm") from error
    if done.returncode:
        raise failed(words[0], done.stderr, done.returncode)
    return done.stdout


STOP_S = 2.0
"""From SIGTERM to SIGKILL of srun."""


@dataclass(frozen=True, slots=True)
class SlurmStep:
    """Starts agents with srun on every node of the job. Implements Engine.

    Attributes:
        shared: a folder that all nodes see, in which a private one is made for secrets.
    """

    placement: Placement
    shared: Path

    def describe(self, command: Sequence[str]) -> str:
        """See Engine."""
        return agents_script(self.placement, "ADDRESS:PORT", "FOLDER")

    @asynccontextmanager
    async def place(self, folder: Path) -> AsyncIterator[PlacedAgents]:
        """See Engine."""
        address, port = await _own_address(), free_port()
        private = Path(tempfile.mkdtemp(prefix=".charkha-launch-", dir=self.shared))
        try:
            for name, content in self.placement.secrets([address]).items():
                write_secret(private / f"{name}.pem", content.encode())
            script, log = private / "agents.sh", private / "agents.log"
            log.touch()
            script.write_text(agents_script(self.placement, f"{address}:{port}", str(private)))
            words = [*_srun(len(self.placement.agents)), "--kill-on-bad-exit=1", f"--output={log}", "sh", str(script)]
            process = await asyncio.create_subprocess_exec(*words, stdin=asyncio.subprocess.DEVNULL)
            ended = asyncio.ensure_future(_watch(process, log))
            try:
                security = self.placement.security("", str(private / f"{CONTROLLER}.pem"))
                yield PlacedAgents(f"0.0.0.0:{port}", security, ended)
            finally:
                await _stop(process, ended)
        finally:
            shutil.rmtree(private, ignore_errors=True)


def agents_script(placement: Placement, target: str, folder: str) -> str:
    """A shell script that becomes the agent of its task.

    Args:
        placement: of the agents: one per task, in order.
        target: the controller.
        folder: that holds NAME.pem of every agent.
    """
    lines = ["case $SLURM_PROCID in"]
    for number, name in enumerate(placement.agents):
        words = placement.arguments(name, target, f"{folder}/{name}.pem")
        lines.append(f"  {number}) exec {shlex.join([sys.executable, '-P', '-m', 'emulator', *words])} ;;")
    return "\n".join([*lines, "esac"]) + "\n"


async def _own_address() -> str:
    """Of this node, as the other nodes of the job know it."""
    words = [*_srun(1), "printenv", "SLURM_LAUNCH_NODE_IPADDR"]
    process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    said, _ = await process.communicate()
    if process.returncode or not said.strip():
        raise RunError(f"srun cannot start a step of this job (exit code {process.returncode})")
    return said.decode().strip()


def _srun(nodes: int) -> list[str]:
    if shutil.which("srun") is None or "SLURM_JOB_ID" not in os.environ:
        raise HostError("--in-job is for the inside of a Slurm job: leave it out")
    return ["srun", f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1"]


async def _watch(process: asyncio.subprocess.Process, log: Path) -> str:
    code = await process.wait()
    return f"the step with the agents ended with exit code {code}{_slurm_step_said(log)}"


def _slurm_step_said(log: Path) -> str:
    return last_words(log.read_text(errors="replace"))


async def _stop(process: asyncio.subprocess.Process, ended: asyncio.Future[str]) -> None:
    if process.returncode is None:
        process.terminate()  # srun hands it on to all tasks
        await asyncio.wait([ended], timeout=STOP_S)
    if process.returncode is None:
        process.kill()
    await ended
