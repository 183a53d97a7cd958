"""Prometheus metrics of an agent that plays one run after another."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


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
