"""A run as OpenTelemetry metrics, sent to a collector over OTLP/HTTP, at the time the run was started.

Names follow OpenTelemetry's conventions (units after UCUM); every point of a class has the class as attributes, the run
and the device under test are attributes of the resource.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import getproxies

from emulator.errors import HostError, RunError
from emulator.results.run_folder.manifest import Manifest
from emulator.results.run_folder.reader import Run
from emulator.results.statistics.metric import MetricKind, Scope, Subject
from emulator.results.statistics.metrics import METRICS
from emulator.results.statistics.samples.classes import ClassKey
from emulator.results.statistics.summary import RunSummary, summarise
from emulator.units import NS_PER_S

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import Metric, MetricsData

_PATH = "/v1/metrics"
_PORTS = {"http": 80, "https": 443}
_REACH_S = 2.0
Attributes = Mapping[str, str | int | float | bool]


@dataclass(frozen=True, slots=True)
class Measure:
    """A metric: its points are (attributes, value)."""

    name: str
    unit: str
    description: str
    points: list[tuple[Attributes, float]]
    is_sum: bool = False


def require() -> None:
    """Check that the OpenTelemetry packages are there.

    Raises:
        HostError: one is missing.
    """
    try:
        import opentelemetry.exporter.otlp.proto.http.metric_exporter
        import opentelemetry.sdk.metrics.export  # noqa: F401
    except ImportError as error:
        raise HostError("OpenTelemetry needs its packages: pip install 'charkha[export]'") from error


def send(run: Run, endpoint: str, *, timeout_s: float = 10) -> int:
    """Send the figures of a run.

    Args:
        run: to be sent.
        endpoint: URL of the collector, as `http://localhost:4318`.
        timeout_s: for all attempts together.

    Returns:
        How many points were sent.

    Raises:
        HostError: the OpenTelemetry packages are missing.
        ResultError: the run cannot be read.
        RunError: the collector did not take them.
    """
    require()
    _reach(endpoint)
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics.export import MetricExportResult

    measured = list(measures(summarise(run)))
    exporter = OTLPMetricExporter(endpoint=endpoint.rstrip("/") + _PATH, timeout=timeout_s)
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # what it would say, the error says in one line
    try:
        outcome = exporter.export(_metrics_data(run.manifest, measured), timeout_millis=1000 * timeout_s)
    finally:
        exporter.shutdown()
    if outcome is not MetricExportResult.SUCCESS:
        raise RunError(f"{endpoint}: the collector did not take the metrics; is it listening for OTLP over HTTP there?")
    return sum(len(one.points) for one in measured)


def _reach(endpoint: str) -> None:
    """Look for a listener, which the exporter would ask again and again.

    Raises:
        RunError: there is none.
    """
    url = urlsplit(endpoint)
    if url.scheme in getproxies():  # which is asked instead
        return
    try:
        with socket.create_connection((url.hostname or "", url.port or _PORTS[url.scheme]), timeout=_REACH_S):
            pass
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise RunError(
            f"{endpoint}: no collector takes connections there ({reason}): start one, or mend --endpoint"
        ) from error


def measures(summary: RunSummary) -> Iterator[Measure]:
    """The metrics of a run; what was not measured has no point. Metrics of one family are points of one measure."""
    found: dict[str, Measure] = {}
    # A point per flow or iteration would be a series of its own in the collector.
    for metric in (one for one in METRICS.values() if not one.scope.is_many):
        statistic: Attributes = {"statistic": metric.statistic} if metric.statistic else {}
        for subject, value, *_ in metric.read(summary):
            if value is not None:
                is_sum = metric.kind is MetricKind.COUNTER
                new = Measure(metric.otel_name, metric.published_unit, metric.what, [], is_sum)
                points = found.setdefault(metric.otel_name, new).points
                points.append(({**_attributes(subject, metric.scope), **statistic}, metric.published(value)))
    yield from found.values()


def _attributes(subject: Subject, scope: Scope) -> dict[str, str | int]:
    if isinstance(subject, str):
        return {scope.value: subject}
    if not isinstance(subject, ClassKey):
        return {}
    attributes: dict[str, str | int] = {
        "collective": subject.collective,
        "group_size": subject.members,
        "size_bytes": subject.size_bytes,
        "algorithm": subject.algorithm,
    }
    return attributes | {"where": subject.where} if subject.where else attributes


def _metrics_data(manifest: Manifest, measured: Iterable[Measure]) -> MetricsData:
    from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics, ScopeMetrics
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    time_ns = int(datetime.fromisoformat(manifest.created).timestamp() * NS_PER_S)
    version = manifest.versions.get("charkha", "")
    metrics = [_metric(one, time_ns) for one in measured]
    scope = ScopeMetrics(InstrumentationScope("charkha", version), metrics, "")
    return MetricsData([ResourceMetrics(Resource(_resource(manifest)), [scope], "")])


def _resource(manifest: Manifest) -> dict[str, str | int | float | bool]:
    dut = {f"dut.{name}": value for name, value in (manifest.dut or {}).items() if isinstance(value, str | int | float)}
    facts = {"charkha.run_id": manifest.run_id, "charkha.trace": manifest.trace.path, "charkha.status": manifest.status}
    return {"service.name": "charkha", "charkha.scale_bytes": manifest.scaling.bytes, **facts, **dut}


def _metric(one: Measure, time_ns: int) -> Metric:
    from opentelemetry.sdk.metrics.export import AggregationTemporality, Gauge, Metric, NumberDataPoint, Sum

    points = [NumberDataPoint(dict(attributes), time_ns, time_ns, value) for attributes, value in one.points]
    data = Sum(points, AggregationTemporality.CUMULATIVE, True) if one.is_sum else Gauge(points)
    return Metric(one.name, one.description, one.unit, data)
