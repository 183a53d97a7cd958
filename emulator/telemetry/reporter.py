"""From what happens in a run to messages for a broker and metrics for a scraper."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from emulator.run_folder.observer import RunObserver
from emulator.statistics.summary import ClassSummary
from emulator.telemetry.messages import Composer, Kind, Message
from emulator.units import BITS_PER_BYTE

PROGRESS_S = 1.0


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What is known before a run begins; `nodes` are communication nodes of all iterations and ranks."""

    run_id: str
    trace: str
    ranks: int
    iterations: int
    nodes: int
    run_folder: str


class Sink(Protocol):
    """Where messages go; never waits."""

    dropped: int

    def offer(self, message: Message) -> None:
        """Take a message."""
        ...


class TelemetryReporter(RunObserver):
    """Tells a sink of a run. Progress and agents at most once a second, everything else as it happens.

    Args:
        facts: of the run.
        composer: makes the messages.
        sink: takes them.
        now: seconds of a monotonic clock.
    """

    def __init__(
        self, facts: RunFacts, composer: Composer, sink: Sink, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._facts, self._composer, self._sink, self._now = facts, composer, sink, now
        self._iteration = 0
        self._nodes_done = 0
        self._seen = (now(), 0)
        self._agents: dict[str, float] = {}

    def begin(self) -> None:
        """The run is about to start."""
        facts = self._facts
        self._tell_state(
            "starting",
            trace=facts.trace,
            ranks=facts.ranks,
            iterations=facts.iterations,
            nodes=facts.nodes,
            run_folder=facts.run_folder,
        )

    def end(self, state: str, reason: str | None) -> None:
        """The run is over: `complete` or `aborted`, and why."""
        for agent in self._agents:
            self._tell(Kind.AGENT, {"agent": agent, "state": "gone"}, name=agent)
        self._tell_state(state, reason=reason, run_folder=self._facts.run_folder)

    def iteration_started(self, iteration: int) -> None:
        """See RunObserver."""
        if not self._nodes_done:
            self._tell_state("playing")
        self._iteration = iteration

    def completed(self, nodes: int) -> None:
        """See RunObserver."""
        self._nodes_done += nodes

    def moved(self, bytes_sent: int) -> None:
        """See RunObserver."""
        now, (then, before) = self._now(), self._seen
        if now - then < PROGRESS_S:
            return
        self._seen = (now, bytes_sent)
        facts = {
            "iteration": self._iteration,
            "nodes_done": self._nodes_done,
            "nodes": self._facts.nodes,
            "bytes_sent": bytes_sent,
            "bits_per_second": round((bytes_sent - before) * BITS_PER_BYTE / (now - then)),
            "dropped": self._sink.dropped,
        }
        self._tell(Kind.PROGRESS, facts)

    def agent_moved(self, agent: str, *, bytes_sent: int, nodes_done: int, waiting_on: str) -> None:
        """See RunObserver."""
        now = self._now()
        if now - self._agents.get(agent, -PROGRESS_S) >= PROGRESS_S:
            self._agents[agent] = now
            facts = {"bytes_sent": bytes_sent, "nodes_done": nodes_done, "waiting_on": waiting_on}
            self._tell(Kind.AGENT, {"agent": agent, "state": "playing", **facts}, name=agent)

    def iteration_done(self, iteration: int, jct_ns: int) -> None:
        """See RunObserver."""
        self._tell(Kind.ITERATION, {"iteration": iteration, "jct_ns": jct_ns})

    def summed_up(self, iteration: int, classes: Sequence[ClassSummary]) -> None:
        """See IterationDigest."""
        self._tell(Kind.COMPLETIONS, {"iteration": iteration, "classes": [_class_facts(one) for one in classes]})

    def writing_trace(self) -> None:
        """See RunObserver."""
        self._tell_state("writing")

    def _tell_state(self, state: str, **facts: Any) -> None:
        self._tell(Kind.STATE, {"state": state, "dropped": self._sink.dropped, **facts})

    def _tell(self, kind: Kind, facts: Mapping[str, Any], *, name: str = "") -> None:
        self._sink.offer(self._composer.compose(kind, facts, name=name))


def _class_facts(one: ClassSummary) -> dict[str, Any]:
    return {
        "collective": one.collective,
        "group_size": one.members,
        "size_bytes": one.size_bytes,
        "algorithm": one.algorithm,
        "count": one.count,
        "cct_p50_ns": one.cct_p50_ns,
        "cct_max_ns": one.cct_max_ns,
        "busbw_bytes_per_s": one.busbw_bytes_per_s,
    }
