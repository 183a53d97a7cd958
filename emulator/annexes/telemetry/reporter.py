"""From the events of a run to messages for a broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from msgspec import UNSET

from emulator.annexes.telemetry.messages import (
    AgentState,
    BrokerMessage,
    ClassFigures,
    CompletionsPayload,
    Composer,
    IterationPayload,
    ProgressPayload,
    StatePayload,
    TelemetryPayload,
)
from emulator.results.run_folder.observer import (
    AgentMoved,
    IterationEnded,
    IterationStarted,
    Moved,
    Recorded,
    RunEvent,
    RunHeader,
    WritingTrace,
)
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


class SummedUp(NamedTuple):
    """The classes of an iteration that is over."""

    iteration: int
    classes: Sequence[ClassSummary]


class ClassObserver(Protocol):
    """Follows the classes of a run."""

    def tell(self, event: SummedUp) -> None:
        """Take an event."""
        ...


class TelemetryReporter:
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

    def tell(self, event: RunEvent | SummedUp) -> None:
        """See RunObserver and ClassObserver."""
        envelope = self._composer.envelope
        match event:
            case IterationStarted(iteration):
                if not self._nodes_done:
                    self._send(StatePayload(**envelope(), state="playing", dropped=self._sink.dropped))
                self._iteration = iteration
            case Recorded():
                self._nodes_done += event.nodes
            case Moved(bytes_sent):
                self._moved(bytes_sent)
            case AgentMoved():
                self._agent_moved(event)
            case IterationEnded(iteration, jct_ns):
                self._send(IterationPayload(**envelope(), iteration=iteration, jct_ns=jct_ns))
            case SummedUp(iteration, classes):
                figures = tuple(map(_figures, classes))
                self._send(CompletionsPayload(**envelope(), iteration=iteration, classes=figures))
            case WritingTrace():
                self._send(StatePayload(**envelope(), state="writing", dropped=self._sink.dropped))

    def _moved(self, bytes_sent: int) -> None:
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

    def _agent_moved(self, event: AgentMoved) -> None:
        now = self._now()
        if now - self._agents.get(event.agent, -PROGRESS_S) < PROGRESS_S:
            return
        self._agents[event.agent] = now
        facts = AgentState(**self._composer.envelope(), state="playing", **event._asdict())
        self._send(facts, name=event.agent)

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
