"""From the events of a run to messages for a broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from msgspec import UNSET

from emulator.annexes.telemetry.messages import BrokerMessage, Composer
from emulator.annexes.telemetry.payloads import (
    AgentState,
    ClassFigures,
    CompletionsPayload,
    IterationPayload,
    ProgressPayload,
    StatePayload,
    TelemetryPayload,
)
from emulator.results.run_folder.observer import RunHeader, RunObserver
from emulator.units import BITS_PER_BYTE

if TYPE_CHECKING:
    from emulator.results.statistics.class_summary import ClassSummary

PROGRESS_S = 1.0


class Sink(Protocol):
    """Takes messages and never waits; `dropped` counts those it had no room for."""

    dropped: int

    def offer(self, message: BrokerMessage) -> None:
        """Take a message."""
        ...


class TelemetryReporter(RunObserver):
    """Reports a run to a sink: progress and agents at most once a second, everything else at once.

    Args:
        facts: of the run.
        composer: makes the messages.
        sink: takes them.
        now: monotonic clock, seconds.
    """

    def __init__(
        self, facts: RunHeader, composer: Composer, sink: Sink, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._facts, self._composer, self._sink, self._now = facts, composer, sink, now
        self._iteration = 0
        self._nodes_done = 0
        self._last_progress = (now(), 0)
        self._agents: dict[str, float] = {}

    def begin(self) -> None:
        """Report that the run is about to start."""
        facts = self._facts
        self._send(
            StatePayload(
                **self._composer.envelope(),
                state="starting",
                trace=facts.trace,
                ranks=facts.ranks,
                iterations=facts.iterations or UNSET,
                nodes=facts.nodes or UNSET,
                run_folder=facts.run_folder,
                dropped=self._sink.dropped,
            )
        )

    def end(self, state: Literal["complete", "aborted"], reason: str | None) -> None:
        """Report that the run is over.

        Args:
            state: how it ended.
            reason: why it was aborted.
        """
        for agent in self._agents:
            self._send(AgentState(**self._composer.envelope(), agent=agent, state="gone"), name=agent)
        self._send(
            StatePayload(
                **self._composer.envelope(),
                state=state,
                reason=reason,
                run_folder=self._facts.run_folder,
                dropped=self._sink.dropped,
            )
        )

    def iteration_started(self, iteration: int) -> None:
        """See RunObserver."""
        if not self._nodes_done:
            self._send(StatePayload(**self._composer.envelope(), state="playing", dropped=self._sink.dropped))
        self._iteration = iteration

    def completed(self, nodes: int) -> None:
        """See RunObserver."""
        self._nodes_done += nodes

    def moved(self, bytes_sent: int) -> None:
        """See RunObserver."""
        now, (then, before) = self._now(), self._last_progress
        if now - then < PROGRESS_S:
            return
        self._last_progress = (now, bytes_sent)
        self._send(
            ProgressPayload(
                **self._composer.envelope(),
                iteration=self._iteration,
                nodes_done=self._nodes_done,
                nodes=self._facts.nodes,
                bytes_sent=bytes_sent,
                bits_per_second=round((bytes_sent - before) * BITS_PER_BYTE / (now - then)),
                dropped=self._sink.dropped,
            )
        )

    def agent_moved(self, agent: str, *, bytes_sent: int, nodes_done: int, waiting_on: str) -> None:
        """See RunObserver."""
        now = self._now()
        if now - self._agents.get(agent, -PROGRESS_S) < PROGRESS_S:
            return
        self._agents[agent] = now
        self._send(
            AgentState(
                **self._composer.envelope(),
                agent=agent,
                state="playing",
                bytes_sent=bytes_sent,
                nodes_done=nodes_done,
                waiting_on=waiting_on,
            ),
            name=agent,
        )

    def iteration_done(self, iteration: int, jct_ns: int) -> None:
        """See RunObserver."""
        self._send(IterationPayload(**self._composer.envelope(), iteration=iteration, jct_ns=jct_ns))

    def summed_up(self, iteration: int, classes: Sequence[ClassSummary]) -> None:
        """See ClassObserver."""
        figures = tuple(map(_figures, classes))
        self._send(CompletionsPayload(**self._composer.envelope(), iteration=iteration, classes=figures))

    def writing_trace(self) -> None:
        """See RunObserver."""
        self._send(StatePayload(**self._composer.envelope(), state="writing", dropped=self._sink.dropped))

    def _send(self, payload: TelemetryPayload, *, name: str = "") -> None:
        self._sink.offer(self._composer.compose(payload, name=name))


def _figures(one: ClassSummary) -> ClassFigures:
    return ClassFigures(
        collective=one.collective,
        group_size=one.members,
        size_bytes=one.size_bytes,
        algorithm=one.algorithm,
        count=one.count,
        cct_p50_ns=one.cct_p50_ns,
        cct_max_ns=one.cct_max_ns,
        busbw_bytes_per_s=one.busbw_bytes_per_s,
    )
