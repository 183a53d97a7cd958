"""Collects what an agent's players report, sends it to the controller in batches; metrics of a staying agent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from emulator.control.conversation import AgentValue, Credit, IterationDone
from emulator.control.observations import Completion, Completions, ComputeSpans, RankSummary
from emulator.host.clock import Clock

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


BATCH: Final = 512
LARGEST_BATCH: Final = 1 << 14
"""Completions that are collected while the controller does not keep up: messages become larger, not more."""


class Reporter:
    """A PlayObserver that sends completions at an interval or when 512 are collected, and before IterationDone.

    While earlier messages wait for the controller to read, it goes on collecting.

    Args:
        send: queues a value for the controller.
        interval_ns: how long completions are collected.
        fail: stops the agent with a reason.
        streamed: ranks whose program does not fit their window; they return credits.
        ranks: number of ranks that play in this agent.
        before_done: called with an iteration before it is reported as done.
        rank_done: called with (rank, iteration) when a rank has completed one.
        waiting: the number of messages that are still to be sent.

    Attributes:
        events: nodes reported as retired, over all ranks and iterations.
        start_ahead_ns: of the next IterationDone.
    """

    def __init__(
        self,
        send: Callable[[AgentValue], None],
        clock: Clock,
        *,
        interval_ns: int,
        fail: Callable[[str, tuple[int, int]], None],
        streamed: frozenset[int],
        ranks: int,
        before_done: Callable[[int], None] = lambda iteration: None,
        rank_done: Callable[[int, int], None] = lambda rank, iteration: None,
        waiting: Callable[[], int] = lambda: 0,
    ) -> None:
        self._send, self._clock, self._interval_ns = send, clock, interval_ns
        self._fail, self._streamed, self._ranks = fail, streamed, ranks
        self._before_done, self._rank_done, self._waiting = before_done, rank_done, waiting
        self._batch: list[Completion] = []
        self._spans: dict[int, list[tuple[int, int, int]]] = {}  # by iteration: ranks may be in several
        self._summaries: dict[int, list[RankSummary]] = {}
        self._alarm_set = False
        self.events = self.start_ahead_ns = 0

    def completed(self, completion: Completion) -> None:
        """See PlayObserver."""
        self._batch.append(completion)
        collected = len(self._batch)
        if collected >= BATCH and (collected >= LARGEST_BATCH or not self._waiting()):
            self.flush()
        elif not self._alarm_set:
            self._set_alarm()

    def _set_alarm(self) -> None:
        self._alarm_set = True
        self._clock.call_at(self._clock.now() + self._interval_ns, self._on_alarm)

    def retired(self, rank: int, nodes: int) -> None:
        """See PlayObserver."""
        self.events += nodes
        if rank in self._streamed:
            self._send(Credit(rank, nodes))

    def iteration_done(self, iteration: int, summary: RankSummary) -> None:
        """See PlayObserver."""
        summaries = self._summaries.setdefault(iteration, [])
        summaries.append(summary)
        if len(summaries) == self._ranks:
            self.flush()
            self._flush_spans(iteration)
            self._before_done(iteration)
            self._send(IterationDone(iteration, self._summaries.pop(iteration), self.start_ahead_ns))
            self.start_ahead_ns = 0
        self._rank_done(summary.rank, iteration)

    def computed(self, rank: int, iteration: int, spans: Sequence[tuple[int, int]]) -> None:
        """See PlayObserver."""
        known = self._spans.setdefault(iteration, [])
        known += [(rank, start_ns, end_ns) for start_ns, end_ns in spans]
        if len(known) >= BATCH:
            self._flush_spans(iteration)

    def failed(self, rank: int, peer: int, reason: str) -> None:
        """See PlayObserver; completions collected so far are sent first."""
        self.flush()
        self._fail(reason, (rank, peer))

    def _on_alarm(self) -> None:
        self._alarm_set = False
        if self._batch and self._waiting():
            self._set_alarm()
        else:
            self.flush()

    def flush(self) -> None:
        """Send the completions collected so far, those of each iteration together."""
        batch, self._batch = self._batch, []
        for iteration in sorted({one.iteration for one in batch}):
            self._send(Completions.of([one for one in batch if one.iteration == iteration]))

    def _flush_spans(self, iteration: int) -> None:
        if spans := self._spans.pop(iteration, None):
            rank, start_ns, end_ns = np.array(spans, np.int64).T
            self._send(ComputeSpans(iteration, rank, start_ns, end_ns))


class AgentMetrics:
    """What an agent is playing now, and how many runs it has played.

    Args:
        registry: where the metrics are registered.
        agent: name of the agent.
    """

    def __init__(self, registry: CollectorRegistry, agent: str) -> None:
        from prometheus_client import Counter, Gauge, Info

        self._is_playing = False
        Info("charkha_agent", "name of the agent", registry=registry).info({"agent": agent})
        self._playing = Gauge("charkha_agent_playing", "1 while the agent plays a run, else 0", registry=registry)
        self._runs = Counter("charkha_agent_runs", "runs that have ended, whatever their outcome", registry=registry)
        self._sent = Gauge(
            "charkha_agent_run_payload_bytes",
            "payload sent in the current run, bytes",
            registry=registry,
        )
        self._done = Gauge(
            "charkha_agent_run_nodes_done", "nodes of the trace completed in the current run", registry=registry
        )
        self._strange = Gauge(
            "charkha_agent_run_strange_packets",
            "packets of strangers and damaged packets that came in the current run",
            registry=registry,
        )

    def progressed(self, *, bytes_sent: int, nodes_done: int, strange_packets: int) -> None:
        """Record the progress of the current run.

        Args:
            bytes_sent: payload sent and acknowledged since it began.
            nodes_done: nodes completed since it began.
            strange_packets: came from strangers, or damaged, since it began.
        """
        self._is_playing = True
        self._playing.set(1)
        self._sent.set(bytes_sent)
        self._done.set(nodes_done)
        self._strange.set(strange_packets)

    def ended(self) -> None:
        """Record the end of the current run, if there is one."""
        if self._is_playing:
            self._is_playing = False
            self._playing.set(0)
            self._runs.inc()
