"""Observers of a run, and what they know before it begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

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


class WaitingFor(NamedTuple):
    """These agents have not joined yet."""

    agents: Sequence[str]


class IterationStarted(NamedTuple):
    """All agents received the start of the iteration."""

    iteration: int


class Recorded(NamedTuple):
    """More communication nodes are done; `samples`: their rows, see `SAMPLES_SCHEMA`, ordered by iteration."""

    samples: Columns

    @property
    def nodes(self) -> int:
        """How many."""
        return len(self.samples["rank"])


class IterationEnded(NamedTuple):
    """All ranks completed the iteration, `jct_ns` after it began: see statistics/samples/iterations.py."""

    iteration: int
    jct_ns: int


class Moved(NamedTuple):
    """Total payload sent since the start of the run, bytes."""

    bytes_sent: int


class AgentMoved(NamedTuple):
    """An agent reported its total payload and completed nodes since the start of the run."""

    agent: str
    bytes_sent: int
    nodes_done: int
    waiting_on: str


class WritingTrace(NamedTuple):
    """Traffic has ended; the measured trace is being written."""


RunEvent: TypeAlias = WaitingFor | IterationStarted | Recorded | IterationEnded | Moved | AgentMoved | WritingTrace


class RunObserver(Protocol):
    """Receives the events of a run, on the thread of the controller."""

    def tell(self, event: RunEvent) -> None:
        """Take an event; those that mean nothing to it are passed over."""
        ...
