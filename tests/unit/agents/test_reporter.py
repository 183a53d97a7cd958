"""What an agent's ranks did, on its way to the controller."""

from typing import Any

import numpy as np
from prometheus_client import CollectorRegistry

from agents.reporter import BATCH, LARGEST_BATCH, AgentMetrics, Reporter
from emulator.control.conversation import Credit, IterationDone
from emulator.control.observations import Completion, Completions, RankSummary
from tests.support.virtual_clock import VirtualClock

INTERVAL_NS = 200_000_000


class Desk:
    """A reporter of ranks 0 and 1, of which 1 is streamed, and what it sent."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.failures: list[tuple[str, tuple[int, int]]] = []
        self.clock, self.waiting = VirtualClock(), 0
        self.reporter = Reporter(
            self.sent.append,
            self.clock,
            interval_ns=INTERVAL_NS,
            fail=lambda reason, between: self.failures.append((reason, between)),
            streamed=frozenset({1}),
            ranks=2,
            waiting=lambda: self.waiting,
        )

    def complete(self, node_id: int, *, rank: int = 0, iteration: int = 0) -> None:
        self.reporter.completed(
            Completion(iteration, rank, node_id, 10, 20, 15, bytes_sent=1, bytes_received=2, early=rank == 1)
        )

    def nodes(self) -> list[list[int]]:
        return [value.node_id.tolist() for value in self.sent if isinstance(value, Completions)]


def summary(rank: int) -> RankSummary:
    return RankSummary(rank, 0, 1, 2, 3, 4)


def test_completions_go_out_together_after_the_interval() -> None:
    desk = Desk()
    desk.complete(1)
    desk.complete(2**63 + 5, rank=1)
    desk.clock.run(INTERVAL_NS - 1)
    assert desk.sent == []
    desk.clock.run(INTERVAL_NS)
    (batch,) = desk.sent
    assert (batch.iteration, batch.rank.tolist(), batch.node_id.tolist()) == (0, [0, 1], [1, 2**63 + 5])
    assert (batch.post_ns.tolist(), batch.done_ns.tolist(), batch.arrival_ns.tolist()) == ([10] * 2, [20] * 2, [15] * 2)
    assert (batch.bytes_sent.tolist(), batch.bytes_received.tolist()) == ([1, 1], [2, 2])
    assert batch.early.tolist() == [False, True]
    assert batch.node_id.dtype == np.uint64
    desk.complete(3)
    desk.clock.run()
    assert desk.nodes() == [[1, 2**63 + 5], [3]]


def test_a_full_batch_goes_out_at_once() -> None:
    desk = Desk()
    for node in range(BATCH + 1):
        desk.complete(node)
    assert desk.nodes() == [list(range(BATCH))]
    desk.clock.run()
    assert desk.nodes() == [list(range(BATCH)), [BATCH]]


def test_an_iteration_is_done_when_all_ranks_are_after_all_its_completions() -> None:
    desk = Desk()
    desk.complete(1, iteration=-1)
    desk.reporter.iteration_done(-1, summary(1))
    assert desk.sent == []
    desk.complete(2, iteration=-1)
    desk.reporter.iteration_done(-1, summary(0))
    assert desk.nodes() == [[1, 2]]
    assert desk.sent[1:] == [IterationDone(-1, [summary(1), summary(0)])]
    desk.complete(3)
    desk.reporter.iteration_done(0, summary(0))
    desk.reporter.iteration_done(0, summary(1))
    assert desk.nodes() == [[1, 2], [3]]
    assert desk.sent[-1] == IterationDone(0, [summary(0), summary(1)])
    desk.clock.run()
    assert len(desk.sent) == 4


def test_ranks_may_be_in_several_iterations() -> None:
    desk = Desk()
    desk.complete(1)
    desk.reporter.computed(0, 0, [(5, 6)])
    desk.reporter.iteration_done(0, summary(0))
    desk.complete(2, iteration=1)
    desk.complete(3, rank=1)
    desk.reporter.computed(0, 1, [(7, 8)])
    desk.reporter.iteration_done(1, summary(0))
    assert desk.sent == []
    desk.reporter.iteration_done(0, summary(1))
    first, second, spans, done = desk.sent
    assert [(one.iteration, one.node_id.tolist()) for one in (first, second)] == [(0, [1, 3]), (1, [2])]
    assert (spans.iteration, spans.start_ns.tolist()) == (0, [5])
    assert done == IterationDone(0, [summary(0), summary(1)])
    desk.reporter.iteration_done(1, summary(1))
    assert desk.sent[-1] == IterationDone(1, [summary(0), summary(1)])


def test_only_streamed_ranks_give_room_back_and_all_count() -> None:
    desk = Desk()
    desk.reporter.retired(0, 5)
    desk.reporter.retired(1, 7)
    assert desk.sent == [Credit(1, 7)]
    assert desk.reporter.events == 12


def test_what_was_measured_goes_out_before_a_failure() -> None:
    desk = Desk()
    desk.complete(1)
    desk.reporter.failed(1, 0, "it broke")
    assert desk.nodes() == [[1]]
    assert desk.failures == [("it broke", (1, 0))]


def test_while_the_controller_does_not_keep_up_messages_become_larger_up_to_a_limit() -> None:
    desk = Desk()
    desk.waiting = 1
    for node_id in range(LARGEST_BATCH + 3):
        desk.complete(node_id)
    desk.clock.run(4 * INTERVAL_NS)
    assert [len(nodes) for nodes in desk.nodes()] == [LARGEST_BATCH]
    desk.waiting = 0
    desk.clock.run(8 * INTERVAL_NS)
    assert [len(nodes) for nodes in desk.nodes()] == [LARGEST_BATCH, 3]


def values(registry: CollectorRegistry) -> list[float | None]:
    names = ("playing", "runs_total", "run_payload_bytes", "run_nodes_done", "run_strange_packets")
    return [registry.get_sample_value(f"charkha_agent_{name}") for name in names]


def test_an_agent_counts_the_runs_it_has_played() -> None:
    registry = CollectorRegistry()
    metrics = AgentMetrics(registry, "a0")
    assert values(registry) == [0, 0, 0, 0, 0]
    metrics.progressed(bytes_sent=100, nodes_done=3, strange_packets=0)
    metrics.progressed(bytes_sent=200, nodes_done=5, strange_packets=7)
    assert values(registry) == [1, 0, 200, 5, 7]
    metrics.ended()
    assert values(registry) == [0, 1, 200, 5, 7]


def test_an_agent_that_never_played_has_played_no_run() -> None:
    registry = CollectorRegistry()
    metrics = AgentMetrics(registry, "a0")
    metrics.ended()
    metrics.ended()
    assert values(registry)[1] == 0


def test_the_agent_is_named() -> None:
    registry = CollectorRegistry()
    AgentMetrics(registry, "a0")
    assert registry.get_sample_value("charkha_agent_info", {"agent": "a0"}) == 1
