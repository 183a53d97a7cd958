"""Prometheus metrics of several jobs at one endpoint: those of each have the label `job`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from emulator.telemetry.endpoint import new_registry

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric

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
