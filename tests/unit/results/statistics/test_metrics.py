from dataclasses import replace
from typing import Any

import pytest

from emulator.control.observations import FlowCounters
from emulator.results.statistics.events import DeviceEvent, EventFigures
from emulator.results.statistics.metric import IterationKey, Metric, Reading, Scope, Unit
from emulator.results.statistics.metrics import METRICS
from emulator.results.statistics.port_rates import PortRates
from emulator.results.statistics.summary import RunSummary, summarise
from emulator.results.statistics.traffic.dut_counters import DeviceFrames
from emulator.results.statistics.traffic.flow_figures import FlowKey
from emulator.trace.meaning.imported import DROPPED, GUESSED, NOT_IMPORTED, ImportFacts, ImportLoss
from emulator.views.as_json import summary_to_json
from tests.support.runs import collective, ranks, write_run

_SUFFIX = {Unit.NS: "_ns", Unit.BYTES_PER_S: "_bytes_per_s", Unit.PERCENT: "_percent"}


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> RunSummary:
    rows = [one for n in (0, 1) for one in collective([0, 0], [100, 50], iteration=n, ideal_ns=80)]
    flows = [FlowCounters(0, 1, bytes=5, packets=100, retransmits=9, duplicates=4, out_of_order=2, timeouts=1)]
    spans = {n: ranks((0, 500), (0, 400)) for n in (0, 1)}
    run = write_run(tmp_path_factory.mktemp("metrics") / "run", rows, iterations=spans, flows=flows)
    losses = (ImportLoss(GUESSED, "root", 4), ImportLoss(GUESSED, "splits", 2), ImportLoss(DROPPED, "events", 3))
    event = DeviceEvent("events[0]", "port down", "sw0:p1", True, True, 5, 7, 2, 105, 107, 2, "kernel")
    figures = EventFigures(event, 7, 120, 4, recovery_ns=13, jct_ns=600, steady_p99_ns=300, retransmissions=9)
    ports = (PortRates("h1:eth0", 2, 8e6, 9e6, 0.5, 0.9, 50, 10),)
    return replace(summarise(run), imported=ImportFacts("pytorch", losses), events=(figures,), ports=ports)


def in_json(document: Any, key: str) -> list[Any]:
    """The values at a key as `Metric.key` writes it."""
    found = [document]
    for step in key.split("."):
        found = [one.get(step.removesuffix("[]")) for one in found if one is not None]
        if step.endswith("[]"):
            found = [item for one in found for item in one]
    return found


_OF_DEVICES = [one for one in METRICS.values() if one.scope is Scope.DEVICE]
_OF_FLOWS = [one for one in METRICS.values() if one.scope is Scope.FLOW]
_SIMPLE = [one for one in METRICS.values() if one.key != "totals.dut" and one not in (*_OF_DEVICES, *_OF_FLOWS)]


@pytest.mark.parametrize("metric", _SIMPLE, ids=lambda one: one.name)
def test_a_metric_is_what_json_prints_under_its_key(metric: Metric, summary: RunSummary) -> None:
    values = [one.value for one in metric.read(summary)]
    assert values == in_json(summary_to_json(summary), metric.key)


@pytest.mark.parametrize(
    ("imported", "guessed", "dropped"), [(None, None, None), (NOT_IMPORTED, 0, 0), ("as the fixture", 6, 3)]
)
def test_an_exact_import_has_no_guess_and_an_older_run_does_not_know(
    summary: RunSummary, imported: Any, guessed: int | None, dropped: int | None
) -> None:
    one = summary if imported == "as the fixture" else replace(summary, imported=imported)
    values = [[reading.value for reading in METRICS[name].read(one)] for name in ("import_guessed", "import_dropped")]
    assert values == [[guessed], [dropped]]


def test_units_of_metrics_are_those_of_their_keys() -> None:
    for metric in METRICS.values():
        if metric.unit in _SUFFIX:
            assert metric.key.endswith(_SUFFIX[metric.unit]), metric.name


def test_metrics_of_classes_name_their_class(summary: RunSummary) -> None:
    named = {
        Scope.CLASS: [one.key for one in summary.classes],
        Scope.ITERATION: [IterationKey(0), IterationKey(1)],
        Scope.FLOW: [FlowKey(0, 1, None, "", "")],
        Scope.PORT: ["h1:eth0"],
        Scope.EVENT: ["sw0:p1 port down (events[0])"],
    }
    for metric in METRICS.values():
        assert [one.subject for one in metric.read(summary)] == named.get(metric.scope, [None]), metric.name


def test_metrics_of_flows_are_columns_of_their_file(summary: RunSummary) -> None:
    assert summary.flows is not None
    for metric in _OF_FLOWS:
        place, _, column = metric.key.partition(" ")
        values = [one.value for one in metric.read(summary)]
        assert place == "flows.parquet"
        assert column == "goodput_bytes_per_s" or values == summary.flows.table[column].to_pylist()


def test_counters_of_an_unmonitored_device_have_no_value(summary: RunSummary) -> None:
    assert [one.value for name in ("device_drops", "device_marks") for one in METRICS[name].read(summary)] == [None] * 2


def test_the_slowest_rank_is_compared_with_the_mean_of_all(summary: RunSummary) -> None:
    (reading,) = METRICS["slowest_to_mean"].read(summary)
    assert reading.value == pytest.approx(100 / 75)


def test_metrics_of_devices_name_their_device(summary: RunSummary) -> None:
    frames = (DeviceFrames("sw0", 10, 7, 0, {"qdisc_drops": 2}), DeviceFrames("sw1", 5, 5, 0, {}))
    two = replace(summary, totals=replace(summary.totals, device_frames=frames))
    assert list(METRICS["frames_lost"].read(two)) == [Reading("sw0", 3), Reading("sw1", 0)]
    assert [one.value for one in METRICS["frames_lost_unexplained"].read(two)] == [1, 0]
    more = replace(summary, totals=replace(summary.totals, device_frames=(DeviceFrames("sw0", 10, 11, 0, {}),)))
    (none,) = METRICS["frames_lost"].read(more)
    assert (none.value, none.why.startswith("1 more out than its counters explain")) == (None, True)
    for metric in _OF_DEVICES:
        assert [one.value for one in metric.read(two)] == in_json(summary_to_json(two), metric.key)
