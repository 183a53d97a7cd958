"""A run as OpenTelemetry metrics, sent to a collector over OTLP/HTTP, at the time the run was started.

Names follow OpenTelemetry's conventions (units after UCUM); every point of a class has the class as attributes, the run
and the device under test are attributes of the resource.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from emulator.errors import HostError, RunError
from emulator.run_folder.manifest import Manifest
from emulator.run_folder.reader import Run
from emulator.statistics.class_summary import ClassSummary
from emulator.statistics.flow_counters import MAXIMA
from emulator.statistics.summary import RunSummary, summarise
from emulator.units import NS_PER_S

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import Metric, MetricsData

_PATH = "/v1/metrics"
Attributes = Mapping[str, str | int | float | bool]


@dataclass(frozen=True, slots=True)
class Measure:
    """A metric: its points are (attributes, value)."""

    name: str
    unit: str
    description: str
    points: Sequence[tuple[Attributes, float]]
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
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics.export import MetricExportResult

    measured = list(measures(summarise(run)))
    exporter = OTLPMetricExporter(endpoint=endpoint.rstrip("/") + _PATH, timeout=timeout_s)
    try:
        outcome = exporter.export(_metrics_data(run.manifest, measured), timeout_millis=1000 * timeout_s)
    finally:
        exporter.shutdown()
    if outcome is not MetricExportResult.SUCCESS:
        raise RunError(f"{endpoint}: the collector did not take the metrics; is it listening for OTLP over HTTP there?")
    return sum(len(one.points) for one in measured)


def measures(summary: RunSummary) -> Iterator[Measure]:
    """The metrics of a run; what was not measured has no point."""
    yield from filter(lambda one: one.points, (*_of_iterations(summary), *_of_classes(summary.classes)))
    for name, value in summary.totals.counters.items():
        is_maximum = name in MAXIMA
        what = f"{'maximum over' if is_maximum else 'of'} all flows, warm-up included"
        yield Measure(f"charkha.flow.{name}", "1", what, [({}, value)], is_sum=not is_maximum)


def _of_iterations(summary: RunSummary) -> Iterator[Measure]:
    iteration = summary.iteration
    if iteration is None:
        return
    known = {"min": iteration.jct_min_ns, "p50": iteration.jct_ns, "max": iteration.jct_max_ns}
    points = [({"statistic": name}, value / NS_PER_S) for name, value in known.items()]
    yield Measure("charkha.jct", "s", "job completion time of one iteration", points)
    for name, value in (("exposed", iteration.exposed_ns), ("overlapped", iteration.overlap_ns)):
        what = f"{name} communication of the slowest rank in the median iteration"
        yield Measure(f"charkha.communication.{name}", "s", what, [({}, value / NS_PER_S)])


def _of_classes(classes: Iterable[ClassSummary]) -> Iterator[Measure]:
    times = [
        (_class_attributes(one) | {"statistic": name}, value / NS_PER_S)
        for one in classes
        for name, value in (("p50", one.cct_p50_ns), ("p99", one.cct_p99_ns), ("max", one.cct_max_ns))
        if value is not None
    ]
    yield Measure("charkha.cct", "s", "collective completion time: last done - last post", times)
    speeds = [(_class_attributes(one), one.busbw_bytes_per_s) for one in classes]
    yield Measure("charkha.busbw", "By/s", "bus bandwidth at the median cct", _known(speeds))
    shares = [(_class_attributes(one), one.ideal_percent) for one in classes]
    yield Measure("charkha.ideal", "%", "ideal cct over measured cct, at the median", _known(shares))


def _known(points: Iterable[tuple[Attributes, float | None]]) -> list[tuple[Attributes, float]]:
    return [(attributes, value) for attributes, value in points if value is not None]


def _class_attributes(one: ClassSummary) -> dict[str, str | int]:
    attributes: dict[str, str | int] = {
        "collective": one.collective,
        "group_size": one.members,
        "size_bytes": one.size_bytes,
        "algorithm": one.algorithm,
    }
    return attributes | {"where": one.where} if one.where else attributes


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
