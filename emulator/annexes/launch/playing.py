"""Play one command here, with agents that an engine places."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from emulator.annexes.launch.engine import Engine, PlacedAgents
from emulator.errors import RunError
from emulator.host.scratch import scratch_folder
from emulator.visible import visible

INTERRUPT_S = 2.0
"""How long an interrupted controller may take to end."""
OWN_WORDS_S = 1.5
"""An agent that ended ends the run: how long the controller may take to say so itself, and better."""
_START = (
    "import os, sys; from emulator.host.orphan import die_with_parent; die_with_parent();"
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


def last_words(log: str) -> str:
    """The last line that an agent wrote, as the end of a sentence."""
    lines = log.strip().splitlines()
    return f": {visible(lines[-1])}" if lines else ""
