"""Progress of a run on stderr: iteration, communication nodes completed, rate."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from emulator.run_folder.observer import RunObserver
from emulator.units import BITS_PER_BYTE
from emulator.visible import visible

LINE_EVERY_S = 10.0
"""Between lines of progress where stderr is not a terminal."""


class RunProgress(RunObserver):
    """Shows the progress of a run: a bar on a terminal, else a line every 10 s. A context manager.

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
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,  # it would leave an empty line in a log file
        )
        self._task = self._progress.add_task("starting agents", total=nodes * iterations or None, rate="")
        self._started = self._done = 0
        self._total = nodes * iterations
        self._rate = ""
        self._began: float | None = None
        self._line_at = time.monotonic() + LINE_EVERY_S
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
        self._began = self._began or time.monotonic()
        what = "warm-up" if iteration < 0 else "iteration"
        self._progress.update(self._task, description=f"{what} {self._started}/{self._iterations}")

    def completed(self, nodes: int) -> None:
        """See RunObserver."""
        self._done += nodes
        self._progress.advance(self._task, nodes)

    def moved(self, bytes_sent: int) -> None:
        """See RunObserver."""
        now = time.monotonic()
        then, before = self._seen
        if now - then >= 0.5:
            gigabits = (bytes_sent - before) * BITS_PER_BYTE / (now - then) / 1e9
            self._rate = f"{gigabits:.2f} Gbit/s payload"
            self._progress.update(self._task, rate=self._rate)
            self._seen = (now, bytes_sent)
        if self._progress.disable and now >= self._line_at:
            self._line_at = now + LINE_EVERY_S
            print(f"charkha: {self._line(now)}", file=sys.stderr, flush=True)

    def _line(self, now: float) -> str:
        """`iteration 3 of 6, 41 % of the communications are done, 2.13 Gbit/s payload, about 40 s left`."""
        share = self._done / self._total if self._total else 0.0
        done = f"{100 * share:.0f} % of the communications are done"
        line = f"iteration {self._started} of {self._iterations}, {done}"
        if self._rate:
            line += f", {self._rate}"
        if self._began is not None and share:
            line += f", about {(now - self._began) * (1 - share) / share:.0f} s left"
        return line

    def writing_trace(self) -> None:
        """See RunObserver."""
        self._progress.update(self._task, description="writing the measured trace", rate="")
