"""Inside a Slurm job: agents as one step of it, a task per node, and the controller beside this process."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from emulator.annexes.launch.engine import CONTROLLER, PlacedAgents, Placement, free_port
from emulator.annexes.launch.playing import last_words
from emulator.control.certificates.secret_file import write_secret
from emulator.errors import HostError, RunError

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
    return f"the step with the agents ended with exit code {code}{_said(log)}"


def _said(log: Path) -> str:
    return last_words(log.read_text(errors="replace"))


async def _stop(process: asyncio.subprocess.Process, ended: asyncio.Future[str]) -> None:
    if process.returncode is None:
        process.terminate()  # srun hands it on to all tasks
        await asyncio.wait([ended], timeout=STOP_S)
    if process.returncode is None:
        process.kill()
    await ended
