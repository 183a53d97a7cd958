"""Observers of a run, and what they know before it begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from emulator.results.run_folder.schema import Columns


@dataclass(frozen=True, slots=True)
class RunHeader:
    """What is known of a run before it begins.

    Attributes:
        iterations: to be played, warm-up included; 0: nobody knows yet.
        nodes: communication nodes of all iterations and ranks; 0: nobody knows yet.
    """

    run_id: str
    trace: str
    ranks: int
    iterations: int
    nodes: int
    run_folder: str


class RunObserver:
    """Receives the events of a run, on the thread of the controller. Methods that are not overridden do nothing."""

    def waiting_for(self, agents: Sequence[str]) -> None:
        """These agents have not joined yet."""

    def iteration_started(self, iteration: int) -> None:
        """All agents received the start of the iteration."""

    def completed(self, nodes: int) -> None:
        """This many more communication nodes are done."""

    def recorded(self, samples: Columns) -> None:
        """The same nodes as rows of the samples, see `SAMPLES_SCHEMA`; all of one iteration."""

    def iteration_done(self, iteration: int, jct_ns: int) -> None:
        """All ranks completed the iteration, `jct_ns` after it began: see statistics/samples/iterations.py."""

    def moved(self, bytes_sent: int) -> None:
        """Total payload sent since the start of the run, bytes."""

    def agent_moved(self, agent: str, *, bytes_sent: int, nodes_done: int, waiting_on: str) -> None:
        """An agent reported its total payload and completed nodes since the start of the run."""

    def writing_trace(self) -> None:
        """Traffic has ended; the measured trace is being written."""
