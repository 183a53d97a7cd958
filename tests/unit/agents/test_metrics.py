"""Metrics of an agent that plays several runs."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from agents.metrics import AgentMetrics


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
