"""docs/metrics.md lists every metric as the registry has it, and names that users rely on stay as they are."""

from emulator.annexes.telemetry.publishing import LIVE
from emulator.results.statistics.metric import Metric
from emulator.results.statistics.metrics import METRICS
from emulator.results.statistics.traffic.flow_counters import MAXIMA, SUMMED
from tests.support.command import ROOT


def row(one: Metric) -> str:
    otel = f"`{one.otel_name}`" + (f" {one.statistic}" if one.statistic else "") if not one.scope.is_many else ""
    prometheus = f"`{one.prometheus_name}`" if one.name in LIVE else ""
    cells = (
        f"`{one.name}`",
        one.unit.value,
        one.scope.value,
        one.effect.value,
        f"`{one.key}`",
        otel,
        prometheus,
        one.meaning,
    )
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")


def test_the_page_lists_every_metric_as_it_is() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text().splitlines()
    assert [line for line in page if line.startswith("| `")] == [row(one) for one in METRICS.values()]


def test_published_names_stay() -> None:
    otel = {one.otel_name for one in METRICS.values() if not one.scope.is_many}
    counters = {f"charkha.flow.{name}" for name in (*SUMMED, *MAXIMA)}
    times = {"charkha.jct", "charkha.cct", "charkha.communication.exposed", "charkha.communication.overlapped"}
    assert counters | times | {"charkha.busbw", "charkha.ideal"} <= otel
    assert [METRICS[name].prometheus_name for name in LIVE] == [
        "charkha_jct_seconds",
        "charkha_cct_seconds",
        "charkha_busbw_bytes_per_second",
    ]


def test_metrics_of_one_family_agree_on_what_is_not_their_statistic() -> None:
    for one in METRICS.values():
        alike = {(other.unit, other.what, other.kind) for other in METRICS.values() if other.family == one.family}
        assert len(alike) == 1, one.family
