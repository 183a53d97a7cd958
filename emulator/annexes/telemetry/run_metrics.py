"""Prometheus metrics of a run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from emulator.host.metrics_endpoint import new_registry
from emulator.results.run_folder.observer import RunObserver
from emulator.results.statistics.metric import Scope
from emulator.results.statistics.metrics import METRICS

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric

    from emulator.results.run_folder.observer import RunHeader
    from emulator.results.statistics.class_summary import ClassSummary


LIVE = ("iteration_jct", "cct_p50", "busbw")
"""The metrics of the registry that a run publishes while it is played."""
_OF_CLASSES = [name for name in LIVE if METRICS[name].scope is Scope.CLASS]
_CLASS = ("collective", "group_size", "size_bytes", "algorithm")


class RunMetrics(RunObserver):
    """Keeps the metrics of a run up to date.

    Args:
        registry: where the metrics are registered.
        facts: of the run.
    """

    def __init__(self, registry: CollectorRegistry, facts: RunHeader) -> None:
        from prometheus_client import Counter, Gauge, Info

        info = Info("charkha_run", "the current run", registry=registry)
        info.info({"run_id": facts.run_id, "trace": facts.trace, "run_folder": facts.run_folder})
        self._ranks = Gauge("charkha_ranks", "ranks of the trace", registry=registry)
        self._ranks.set(facts.ranks)
        self._nodes = Gauge("charkha_communication_nodes", "communication nodes of the whole run", registry=registry)
        self._nodes.set(facts.nodes or math.nan)
        self._iteration = Gauge(
            "charkha_iteration", "number of the current iteration, negative for warm-up", registry=registry
        )
        self._done = Counter("charkha_communication_nodes_done", "communication nodes completed", registry=registry)
        self._metrics = {
            name: Gauge(
                one.prometheus_name,
                f"{one.meaning}; the last iteration" if one.scope is Scope.CLASS else f"{one.what}; the last",
                _CLASS if one.scope is Scope.CLASS else (),
                registry=registry,
            )
            for name, one in METRICS.items()
            if name in LIVE
        }
        self._sent = Gauge(
            "charkha_agent_payload_bytes",
            "payload sent and acknowledged since the run began",
            ("agent",),
            registry=registry,
        )

    def iteration_started(self, iteration: int) -> None:
        """See RunObserver."""
        self._iteration.set(iteration)

    def completed(self, nodes: int) -> None:
        """See RunObserver."""
        self._done.inc(nodes)

    def agent_moved(self, agent: str, *, bytes_sent: int, nodes_done: int, waiting_on: str) -> None:
        """See RunObserver."""
        self._sent.labels(agent).set(bytes_sent)

    def iteration_done(self, iteration: int, jct_ns: int) -> None:
        """See RunObserver."""
        self._metrics["iteration_jct"].set(METRICS["iteration_jct"].published(jct_ns))

    def summed_up(self, iteration: int, classes: Sequence[ClassSummary]) -> None:
        """See ClassObserver."""
        for one in classes:
            labels = (one.collective, one.members, one.size_bytes, one.algorithm)
            for metric in map(METRICS.__getitem__, _OF_CLASSES):
                value = getattr(one, metric.field)
                if value is not None:
                    self._metrics[metric.name].labels(*labels).set(metric.published(value))


LABEL = "job"


def labelled(registries: Mapping[str, CollectorRegistry]) -> CollectorRegistry:
    """A registry with the metrics of all jobs; `registries`: job → its metrics."""
    together = new_registry()
    together.register(_Jobs(registries))
    return together


class _Jobs:
    """A collector of prometheus_client."""

    def __init__(self, registries: Mapping[str, CollectorRegistry]) -> None:
        self._registries = registries

    def collect(self) -> Iterator[Metric]:
        """Every metric once, with the samples of all jobs."""
        found: dict[str, Metric] = {}
        for job, registry in self._registries.items():
            for metric in registry.collect():
                samples = [one._replace(labels={LABEL: job, **one.labels}) for one in metric.samples]
                known = found.setdefault(metric.name, metric)
                known.samples = samples if known is metric else known.samples + samples
        yield from found.values()
