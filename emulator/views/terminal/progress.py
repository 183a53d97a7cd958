"""Progress of a run on stderr: iteration, communication nodes completed, rate."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from emulator.run_folder.observer import RunObserver
from emulator.units import BITS_PER_BYTE
from emulator.visible import visible


class RunProgress(RunObserver):
    """Shows the progress of a run; a context manager.

    Args:
        nodes: communication nodes of one iteration, over all ranks.
        iterations: to be played, warm-up included.
        dialling: agents that are started elsewhere and connect to the controller.
        address: where the controller accepts them.
    """

    def __init__(self, *, nodes: int, iterations: int, dialling: Sequence[str] = (), address: str = "") -> None:
        self._iterations = iterations
        self._dialling, self._address = dialling, address
        self._is_announced = False
        console = Console(stderr=True)
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("communication nodes"),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,  # it would leave an empty line in a log file
        )
        self._task = self._progress.add_task("starting agents", total=nodes * iterations or None, rate="")
        self._started = 0
        self._seen = (time.monotonic(), 0)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def waiting_for(self, agents: Sequence[str]) -> None:
        """See RunObserver."""
        remote = [name for name in agents if name in self._dialling]
        if not remote:
            self._progress.update(self._task, description="starting agents")
            return
        names = visible(", ".join(remote))
        line = f"waiting for agent{'s' * (len(remote) > 1)} {names} to dial in at {visible(self._address)}"
        self._progress.update(self._task, description=line)
        if self._progress.disable and not self._is_announced:  # a log file gets it once
            self._is_announced = True
            print(f"charkha: {line}", file=sys.stderr, flush=True)

    def iteration_started(self, iteration: int) -> None:
        """See RunObserver."""
        self._started += 1
        what = "warm-up" if iteration < 0 else "iteration"
        self._progress.update(self._task, description=f"{what} {self._started}/{self._iterations}")

    def completed(self, nodes: int) -> None:
        """See RunObserver."""
        self._progress.advance(self._task, nodes)

    def moved(self, bytes_sent: int) -> None:
        """See RunObserver."""
        now = time.monotonic()
        then, before = self._seen
        if now - then >= 0.5:
            gigabits = (bytes_sent - before) * BITS_PER_BYTE / (now - then) / 1e9
            self._progress.update(self._task, rate=f"{gigabits:.2f} Gbit/s payload")
            self._seen = (now, bytes_sent)

    def writing_trace(self) -> None:
        """See RunObserver."""
        self._progress.update(self._task, description="writing the measured trace", rate="")
