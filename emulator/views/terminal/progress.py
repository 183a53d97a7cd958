"""Progress of a run on stderr: iteration, communication nodes completed, rate."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

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

from emulator.results.run_folder.observer import IterationStarted, Moved, Recorded, RunEvent, WaitingFor, WritingTrace
from emulator.units import BITS_PER_BYTE
from emulator.visible import visible

LINE_EVERY_S = 10.0
"""Between lines of progress where stderr is not a terminal."""

MOST_NAMES = 16
"""Of agents that are waited for."""


class RunProgress:
    """Shows the progress of a run: a bar on a terminal, else a line every 10 s.

    Args:
        display: shows the bars of all jobs; see `make_display`.
        nodes: communication nodes of one iteration, over all ranks.
        iterations: to be played, warm-up included.
        dialling: agents that are started elsewhere and connect to the controller.
        address: where the controller accepts them.
        job: name of the job, where there are several.
        clock: seconds.
    """

    def __init__(
        self,
        display: Progress,
        *,
        nodes: int,
        iterations: int | None,
        dialling: Sequence[str] = (),
        address: str = "",
        job: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._iterations = iterations
        self._label = f"job {job}: " if job else ""
        self._dialling, self._address = dialling, address
        self._is_announced = False
        self._progress = display
        self._total = nodes * (iterations or 0)
        self._task = self._progress.add_task(f"{self._label}starting agents", total=self._total or None, rate="")
        self._started = self._done = 0
        self._rate = ""
        self._began: float | None = None
        self._line_at = self._clock() + LINE_EVERY_S
        self._seen = (self._clock(), 0)

    def _describe(self, what: str, **fields: Any) -> None:
        self._progress.update(self._task, description=self._label + what, **fields)

    def tell(self, event: RunEvent) -> None:
        """See RunObserver."""
        match event:
            case WaitingFor(agents):
                self._waits_for(agents)
            case IterationStarted(iteration):
                self._started += 1
                self._began = self._began or self._clock()
                what = "warm-up" if iteration < 0 else "iteration"
                of = "" if self._iterations is None else f"/{self._iterations}"
                self._describe(f"{what} {self._started}{of}")
            case Recorded():
                self._done += event.nodes
                self._progress.advance(self._task, event.nodes)
            case Moved(bytes_sent):
                self._moved(bytes_sent)
            case WritingTrace():
                self._describe("writing the measured trace", rate="")

    def _waits_for(self, agents: Sequence[str]) -> None:
        remote = [name for name in agents if name in self._dialling]
        if not remote:
            self._describe("starting agents")
            return
        hidden = len(remote) - MOST_NAMES
        names = visible(", ".join(remote[:MOST_NAMES])) + f" and {hidden} more" * (hidden > 0)
        line = f"waiting for agent{'s' * (len(remote) > 1)} {names} to connect to {visible(self._address)}"
        self._describe(line)
        if self._progress.disable and not self._is_announced:  # a log file gets it once
            self._is_announced = True
            print(f"charkha: {line}", file=sys.stderr, flush=True)

    def _moved(self, bytes_sent: int) -> None:
        now = self._clock()
        then, before = self._seen
        if now - then >= 0.5:
            gigabits = (bytes_sent - before) * BITS_PER_BYTE / (now - then) / 1e9
            self._rate = f"{gigabits:.2f} Gbit/s payload"
            self._progress.update(self._task, rate=self._rate)
            self._seen = (now, bytes_sent)
        if self._progress.disable and now >= self._line_at:
            self._line_at = now + LINE_EVERY_S
            print(f"charkha: {visible(self._label + self._line(now))}", file=sys.stderr, flush=True)

    def _line(self, now: float) -> str:
        """`iteration 3 of 6, 41 % of the communications are done, 2.13 Gbit/s payload, about 40 s left`."""
        share = self._done / self._total if self._total else 0.0
        done = f"{100 * share:.0f} % of the communications are done"
        line = f"iteration {self._started}"
        if self._iterations is not None:
            line += f" of {self._iterations}, {done}"
        if self._rate:
            line += f", {self._rate}"
        if self._began is not None and share:
            line += f", about {(now - self._began) * (1 - share) / share:.0f} s left"
        return line


def make_display() -> Progress:
    """Where bars are shown; a context manager. It shows none where stderr is not a terminal."""
    console = Console(stderr=True)
    return Progress(
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
