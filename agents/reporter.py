"""Collects what an agent's players report, and sends it to the controller in batches while the run goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from emulator.control.conversation import AgentValue, Credit, IterationDone
from emulator.control.observations import Completion, Completions, ComputeSpans, RankSummary
from emulator.host.clock import Clock

BATCH = 512
LARGEST_BATCH = 1 << 14
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
        self.events = 0

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
            self._send(IterationDone(iteration, self._summaries.pop(iteration)))
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
            self._send(_columns([one for one in batch if one.iteration == iteration]))

    def _flush_spans(self, iteration: int) -> None:
        if spans := self._spans.pop(iteration, None):
            rank, start_ns, end_ns = np.array(spans, np.int64).T
            self._send(ComputeSpans(iteration, rank, start_ns, end_ns))


def _columns(batch: list[Completion]) -> Completions:
    return Completions(
        iteration=batch[0].iteration,
        rank=np.array([one.rank for one in batch], np.int64),
        node_id=np.array([one.node_id for one in batch], np.uint64),
        post_ns=np.array([one.post_ns for one in batch], np.int64),
        done_ns=np.array([one.done_ns for one in batch], np.int64),
        arrival_ns=np.array([one.arrival_ns for one in batch], np.int64),
        bytes_sent=np.array([one.bytes_sent for one in batch], np.int64),
        bytes_received=np.array([one.bytes_received for one in batch], np.int64),
        early=np.array([one.early for one in batch], np.bool_),
        read_delay_ns=np.array([one.read_delay_ns for one in batch], np.int64),
        core_wait_ns=np.array([one.core_wait_ns for one in batch], np.int64),
    )
