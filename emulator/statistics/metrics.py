"""The metrics of a run: one registry of names, units and meanings for rules, JSON, exports, comparisons and reports.

A metric is read from the summary of a run. What was not measured has no value; it is never 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from emulator.statistics.classes import ClassKey
from emulator.statistics.dut_counters import MARKS, dropped_frames
from emulator.statistics.flow_counters import MAXIMA
from emulator.statistics.summary import RunSummary
from emulator.units import NS_PER_S


class Unit(Enum):
    """Unit of a metric; the value is its symbol as in UCUM."""

    NS = "ns"
    BYTES_PER_S = "By/s"
    BYTES = "By"
    RATIO = "1"
    PERCENT = "%"
    COUNT = "{count}"


class Scope(Enum):
    """What a value of a metric describes."""

    RUN = "run"
    CLASS = "class"
    DEVICE = "device"


class Kind(Enum):
    """TIMING: a slow tester changes it. COUNTER: events of the whole run, which add up. LEVEL: neither."""

    TIMING = "timing"
    COUNTER = "counter"
    LEVEL = "level"


Subject: TypeAlias = ClassKey | str | None


class Reading(NamedTuple):
    """A value of a metric.

    Attributes:
        subject: the class, or the name of the device; None: the run.
        value: in the unit of the metric; None: not measured.
        is_tester_limited: the tester rather than the device set the value.
    """

    subject: Subject
    value: float | None
    is_tester_limited: bool = False


Reader: TypeAlias = Callable[[RunSummary], Iterator[Reading]]
STATISTICS = {"p50": "median", "p99": "99th percentile", "min": "smallest", "max": "largest"}
_PUBLISHED_UNITS = {Unit.NS: ("s", "seconds"), Unit.BYTES_PER_S: ("By/s", "bytes_per_second"), Unit.COUNT: ("1", "")}


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric.

    Attributes:
        name: in rules, and in documents that list metrics by name.
        title: for people, in tables and figures.
        unit: of its values.
        scope: what a value describes.
        what: one line for people: what is measured.
        key: where `--json` has it: `iteration.jct_ns`, `classes[].busbw_bytes_per_s`.
        kind: of its values.
        family: its name outside Charkha, without prefix; metrics of one family differ in their statistic.
        statistic: a key of STATISTICS; "": the family has one metric.
        read: its values in a run.
    """

    name: str
    title: str
    unit: Unit
    scope: Scope
    what: str
    key: str
    kind: Kind
    family: str
    statistic: str
    read: Reader

    @property
    def meaning(self) -> str:
        """One line for people, with the statistic."""
        return f"{self.what}, {STATISTICS[self.statistic]}" if self.statistic else self.what

    @property
    def field(self) -> str:
        """Last part of `key`: the attribute of a summary, or the counter."""
        return self.key.rpartition(".")[2]

    @property
    def otel_name(self) -> str:
        """Its name in OpenTelemetry: `charkha.cct`."""
        return f"charkha.{self.family}"

    @property
    def published_unit(self) -> str:
        """Unit outside Charkha: both OpenTelemetry and Prometheus have times in seconds."""
        return _PUBLISHED_UNITS.get(self.unit, (self.unit.value, ""))[0]

    @property
    def prometheus_name(self) -> str:
        """Its name in Prometheus: `charkha_cct_seconds`."""
        parts = ("charkha", self.family.replace(".", "_"), _PUBLISHED_UNITS.get(self.unit, ("", ""))[1])
        return "_".join(filter(None, parts))

    def published(self, value: float) -> float:
        """A value in the unit of `published_unit`."""
        return value / NS_PER_S if self.unit is Unit.NS else value


def _of_iteration(
    name: str, unit: Unit, field: str, what: str, *, title: str = "", family: str, statistic: str = ""
) -> Metric:
    def read(summary: RunSummary) -> Iterator[Reading]:
        yield Reading(None, getattr(summary.iteration, field, None))

    key = f"iteration.{field}"
    return Metric(name, title or name, unit, Scope.RUN, what, key, Kind.TIMING, family, statistic, read)


def _of_class(name: str, unit: Unit, field: str, what: str, *, family: str = "", statistic: str = "") -> Metric:
    def read(summary: RunSummary) -> Iterator[Reading]:
        for one in summary.classes:
            if one.size_bytes or field.startswith(("cct", "skew")):
                yield Reading(one.key, getattr(one, field), bool(one.is_tester_limited))

    key, title = f"classes[].{field}", name.replace("_", " ")
    return Metric(name, title, unit, Scope.CLASS, what, key, Kind.TIMING, family or name, statistic, read)


def _of_transfers(name: str, family: str, what: str) -> Metric:
    times, statistic = name.rpartition("_")[::2]

    def read(summary: RunSummary) -> Iterator[Reading]:
        yield Reading(None, getattr(getattr(summary.transfers, times), f"{statistic}_ns"))

    key, title = f"transfers.{times}.{statistic}_ns", name.replace("_", " ")
    return Metric(name, title, Unit.NS, Scope.RUN, what, key, Kind.TIMING, family, statistic, read)


def _of_flows(name: str, counter: str, what: str, *, title: str = "") -> Metric:
    def read(summary: RunSummary) -> Iterator[Reading]:
        yield Reading(None, summary.totals.counters.get(counter))

    kind = Kind.LEVEL if counter in MAXIMA else Kind.COUNTER
    key, title = f"totals.counters.{counter}", title or name.replace("_", " ")
    return Metric(name, title, Unit.COUNT, Scope.RUN, what, key, kind, f"flow.{counter}", "", read)


def _total(name: str, what: str, key: str, value: Callable[[RunSummary], Any], *, family: str, title: str) -> Metric:
    def read(summary: RunSummary) -> Iterator[Reading]:
        yield Reading(None, value(summary))

    return Metric(name, title, Unit.COUNT, Scope.RUN, what, key, Kind.COUNTER, family, "", read)


def _of_device(name: str, field: str, what: str, *, title: str) -> Metric:
    def read(summary: RunSummary) -> Iterator[Reading]:
        for one in summary.totals.device_frames:
            yield Reading(one.device, getattr(one, field))
        if not summary.totals.device_frames:
            yield Reading(None, None)

    key = f"totals.device_frames[].{field}"
    return Metric(name, title, Unit.COUNT, Scope.DEVICE, what, key, Kind.LEVEL, f"device.{name}", "", read)


def _device_drops(summary: RunSummary) -> int | None:
    return dropped_frames(summary.totals.dut) if summary.totals.is_dut_monitored else None


def _device_marks(summary: RunSummary) -> int | None:
    return summary.totals.dut.get(MARKS, 0) if summary.totals.is_dut_monitored else None


_JCT, _CCT = "job completion time of an iteration", "collective completion time: last done - last post"
_FCT = "flow completion time: post of a send to its last byte"
_KV_LATENCY = "key-value latency: first send of a request's key-value cache to its last byte"
_TTFT = "time to first token of the fabric: arrival of a request to the last byte of its key-value cache"
_TIMES = ("p50", "p99", "max")
_ALL = (
    _of_iteration("jct", Unit.NS, "jct_ns", _JCT, family="jct", statistic="p50"),
    _of_iteration("jct_min", Unit.NS, "jct_min_ns", _JCT, family="jct", statistic="min"),
    _of_iteration("jct_max", Unit.NS, "jct_max_ns", _JCT, family="jct", statistic="max"),
    _of_iteration(
        "jct_variation", Unit.RATIO, "jct_variation", "coefficient of variation of the JCT", family="jct.variation"
    ),
    _of_iteration(
        "jct_to_ideal",
        Unit.RATIO,
        "roofline_ratio",
        "median JCT / JCT with every collective at its ideal",
        title="JCT / ideal",
        family="jct.to_ideal",
    ),
    _of_iteration(
        "exposed",
        Unit.NS,
        "exposed_ns",
        "communication that no compute hides, of the slowest rank in the median iteration",
        family="communication.exposed",
    ),
    _of_iteration(
        "overlapped",
        Unit.NS,
        "overlap_ns",
        "communication during compute, of the slowest rank in the median iteration",
        family="communication.overlapped",
    ),
    _of_iteration(
        "exposed_fraction",
        Unit.RATIO,
        "exposed_fraction",
        "share of the JCT in communication not overlapped",
        family="communication.exposed_fraction",
    ),
    _of_class("cct_p50", Unit.NS, "cct_p50_ns", _CCT, family="cct", statistic="p50"),
    _of_class("cct_p99", Unit.NS, "cct_p99_ns", _CCT, family="cct", statistic="p99"),
    _of_class("cct_max", Unit.NS, "cct_max_ns", _CCT, family="cct", statistic="max"),
    _of_class(
        "slowest_to_mean", Unit.RATIO, "slowest_to_mean", "time of the slowest rank / mean over the ranks, median"
    ),
    _of_class("algbw", Unit.BYTES_PER_S, "algbw_bytes_per_s", "algorithm bandwidth at the median cct"),
    _of_class("busbw", Unit.BYTES_PER_S, "busbw_bytes_per_s", "bus bandwidth at the median cct"),
    _of_class(
        "busbw_to_ideal",
        Unit.PERCENT,
        "ideal_percent",
        "bus bandwidth / what the rates of the ports allow",
        family="ideal",
    ),
    *(_of_transfers(f"fct_{one}", "flow.completion", _FCT) for one in _TIMES),
    *(_of_transfers(f"kv_latency_{one}", "request.kv_latency", _KV_LATENCY) for one in _TIMES),
    *(_of_transfers(f"ttft_{one}", "request.ttft", _TTFT) for one in _TIMES),
    _of_flows("packets", "packets", "packets sent, repeated ones included"),
    _of_flows("retransmissions", "retransmits", "packets sent again"),
    _of_flows("timeouts", "timeouts", "times that a sender received no acknowledgement in time"),
    _of_flows("naks", "naks", "PSN sequence errors reported by receivers", title="NAKs"),
    _of_flows("rnr_naks", "rnr_naks", "times that a receiver was not ready", title="RNR NAKs"),
    _of_flows("spurious_retransmissions", "duplicates", "packets sent again although they had arrived"),
    _of_flows("out_of_order", "out_of_order", "packets received before their turn"),
    _of_flows("largest_displacement", "largest_displacement", "most packets that one was received before its turn"),
    _of_flows("ecn_marks", "ecn_marks", "packets received with Congestion Experienced", title="ECN marks"),
    _of_flows("cnps", "cnps_received", "congestion notification packets received", title="CNPs"),
    _of_flows("cnps_sent", "cnps_sent", "congestion notification packets sent", title="CNPs sent"),
    _of_flows("header_errors", "dropped_header", "packets refused because of an impossible header"),
    _of_flows("icrc_errors", "dropped_icrc", "packets refused because of a wrong ICRC", title="ICRC errors"),
    _of_flows("payload_errors", "dropped_payload", "packets refused because of other bytes than were sent"),
    _total(
        "device_drops",
        "frames that the device counted as dropped",
        "totals.dut",
        _device_drops,
        family="device.drops",
        title="dropped by the device",
    ),
    _of_device("frames_in", "frames_in", "frames that the device received", title="frames in"),
    _of_device("frames_lost", "lost", "frames that came into the device and did not leave it", title="frames lost"),
    _of_device(
        "frames_lost_unexplained",
        "unexplained",
        "lost frames that no drop counter of the device shows",
        title="frames lost, not counted",
    ),
    _total(
        "device_marks",
        "frames that the device marked (ECN)",
        "totals.dut.ecn_marked",
        _device_marks,
        family="device.marks",
        title="marked by the device (ECN)",
    ),
    _total(
        "unexplained_retransmissions",
        "packets sent again that were neither spurious nor dropped by the device or the receiving host",
        "totals.unexplained_retransmissions",
        lambda summary: summary.totals.unexplained_retransmissions,
        family="flow.unexplained_retransmissions",
        title="unexplained retransmissions",
    ),
    _total(
        "incomplete",
        "measurements that a member did not report",
        "totals.incomplete",
        lambda summary: summary.totals.incomplete,
        family="incomplete",
        title="incomplete measurements",
    ),
)

METRICS: Mapping[str, Metric] = {one.name: one for one in _ALL}
"""Every metric by name, in the order of documents."""
