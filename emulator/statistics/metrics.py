"""The metrics of a run: one registry of names, units and meanings for rules, JSON, exports, comparisons and reports.

A metric is read from the summary of a run. What was not measured has no value; it is never 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import starmap
from typing import NamedTuple, TypeAlias

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
_Value: TypeAlias = Callable[[RunSummary], int | None]
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


_NS, _RATE, _RATIO, _PERCENT = Unit.NS, Unit.BYTES_PER_S, Unit.RATIO, Unit.PERCENT
_JCT, _CCT = "job completion time of an iteration", "collective completion time: last done - last post"
_BUSY = "of the slowest rank in the median iteration"
_ITERATIONS = (  # name, unit, attribute of IterationSummary, family, statistic, what
    ("jct", _NS, "jct_ns", "jct", "p50", _JCT),
    ("jct_min", _NS, "jct_min_ns", "jct", "min", _JCT),
    ("jct_max", _NS, "jct_max_ns", "jct", "max", _JCT),
    ("jct_variation", _RATIO, "jct_variation", "jct.variation", "", "coefficient of variation of the JCT"),
    (
        "jct_to_ideal",
        _RATIO,
        "roofline_ratio",
        "jct.to_ideal",
        "",
        "median JCT / JCT with ideal collectives",
    ),
    ("exposed", _NS, "exposed_ns", "communication.exposed", "", f"communication that no compute hides, {_BUSY}"),
    ("overlapped", _NS, "overlap_ns", "communication.overlapped", "", f"communication during compute, {_BUSY}"),
    ("exposed_fraction", _RATIO, "exposed_fraction", "communication.exposed_fraction", "", "exposed / JCT, as a share"),
)
_CLASSES = (  # the same of ClassSummary
    ("cct_p50", _NS, "cct_p50_ns", "cct", "p50", _CCT),
    ("cct_p99", _NS, "cct_p99_ns", "cct", "p99", _CCT),
    ("cct_max", _NS, "cct_max_ns", "cct", "max", _CCT),
    ("slowest_to_mean", _RATIO, "slowest_to_mean", "slowest_to_mean", "", "slowest rank / mean over the ranks, median"),
    ("algbw", _RATE, "algbw_bytes_per_s", "algbw", "", "algorithm bandwidth at the median cct"),
    ("busbw", _RATE, "busbw_bytes_per_s", "busbw", "", "bus bandwidth at the median cct"),
    ("busbw_to_ideal", _PERCENT, "ideal_percent", "ideal", "", "bus bandwidth / what the rates of the ports allow"),
)
_TRANSFERS = {  # attribute of TransferSummary: family, what
    "fct": ("flow.completion", "flow completion time: post of a send to its last byte"),
    "kv_latency": ("request.kv_latency", "first send of a request's key-value cache to its last byte"),
    "ttft": ("request.ttft", "time to first token of the fabric: arrival of a request to the last byte of its cache"),
}
_KINDS = dict.fromkeys(MAXIMA, Kind.LEVEL)
_FLOWS = (  # name, counter, title, what
    ("packets", "packets", "", "packets sent, repeated ones included"),
    ("retransmissions", "retransmits", "", "packets sent again"),
    ("timeouts", "timeouts", "", "times that a sender received no acknowledgement in time"),
    ("naks", "naks", "NAKs", "PSN sequence errors reported by receivers"),
    ("rnr_naks", "rnr_naks", "RNR NAKs", "times that a receiver was not ready"),
    ("spurious_retransmissions", "duplicates", "", "packets sent again although they had arrived"),
    ("out_of_order", "out_of_order", "", "packets received before their turn"),
    ("largest_displacement", "largest_displacement", "", "most packets that one was received before its turn"),
    ("ecn_marks", "ecn_marks", "ECN marks", "packets received with Congestion Experienced"),
    ("cnps", "cnps_received", "CNPs", "congestion notification packets received"),
    ("cnps_sent", "cnps_sent", "CNPs sent", "congestion notification packets sent"),
    ("header_errors", "dropped_header", "", "packets refused because of an impossible header"),
    ("icrc_errors", "dropped_icrc", "ICRC errors", "packets refused because of a wrong ICRC"),
    ("payload_errors", "dropped_payload", "", "packets refused because of other bytes than were sent"),
)
_DEVICES = (  # name, attribute of DeviceFrames, what
    ("frames_in", "frames_in", "frames that the device received"),
    ("frames_lost", "lost", "frames that came into the device and did not leave it"),
    ("frames_lost_unexplained", "unexplained", "lost frames that no drop counter of the device shows"),
)


def _of_iteration(name: str, unit: Unit, field: str, family: str, statistic: str, what: str) -> Metric:
    def read(summary: RunSummary) -> Iterator[Reading]:
        yield Reading(None, getattr(summary.iteration, field, None))

    return Metric(name, name, unit, Scope.RUN, what, f"iteration.{field}", Kind.TIMING, family, statistic, read)


def _of_class(name: str, unit: Unit, field: str, family: str, statistic: str, what: str) -> Metric:
    def read(summary: RunSummary) -> Iterator[Reading]:
        for one in summary.classes:
            if one.size_bytes or field.startswith("cct"):
                yield Reading(one.key, getattr(one, field), bool(one.is_tester_limited))

    return Metric(name, name, unit, Scope.CLASS, what, f"classes[].{field}", Kind.TIMING, family, statistic, read)


def _of_transfers(times: str, statistic: str) -> Metric:
    def read(summary: RunSummary) -> Iterator[Reading]:
        yield Reading(None, getattr(getattr(summary.transfers, times), f"{statistic}_ns"))

    (family, what), name, key = _TRANSFERS[times], f"{times}_{statistic}", f"transfers.{times}.{statistic}_ns"
    return Metric(name, name, Unit.NS, Scope.RUN, what, key, Kind.TIMING, family, statistic, read)


def _of_flows(name: str, counter: str, title: str, what: str) -> Metric:
    def read(summary: RunSummary) -> Iterator[Reading]:
        yield Reading(None, summary.totals.counters.get(counter))

    kind, key, family = _KINDS.get(counter, Kind.COUNTER), f"totals.counters.{counter}", f"flow.{counter}"
    return Metric(name, title or _plain(name), Unit.COUNT, Scope.RUN, what, key, kind, family, "", read)


def _of_device(name: str, field: str, what: str) -> Metric:
    def read(summary: RunSummary) -> Iterator[Reading]:
        for one in summary.totals.device_frames:
            yield Reading(one.device, getattr(one, field))
        if not summary.totals.device_frames:
            yield Reading(None, None)

    key, family = f"totals.device_frames[].{field}", f"device.{name}"
    return Metric(name, name, Unit.COUNT, Scope.DEVICE, what, key, Kind.LEVEL, family, "", read)


def _total(
    name: str, title: str, key: str, family: str, what: str, value: Callable[[RunSummary], int | None]
) -> Metric:
    def read(summary: RunSummary) -> Iterator[Reading]:
        yield Reading(None, value(summary))

    return Metric(name, title or _plain(name), Unit.COUNT, Scope.RUN, what, key, Kind.COUNTER, family, "", read)


def _plain(name: str) -> str:
    return name.replace("_", " ")


def _device_drops(summary: RunSummary) -> int | None:
    return dropped_frames(summary.totals.dut) if summary.totals.is_dut_monitored else None


def _device_marks(summary: RunSummary) -> int | None:
    return summary.totals.dut.get(MARKS, 0) if summary.totals.is_dut_monitored else None


_DROPS = _total(
    "device_drops",
    "dropped by the device",
    "totals.dut",
    "device.drops",
    "frames that the device counted as dropped",
    _device_drops,
)
_MARKS = _total(
    "device_marks",
    "marked by the device (ECN)",
    "totals.dut.ecn_marked",
    "device.marks",
    "frames that the device marked (ECN)",
    _device_marks,
)
_UNEXPLAINED = _total(
    "unexplained_retransmissions",
    "",
    "totals.unexplained_retransmissions",
    "flow.unexplained_retransmissions",
    "packets sent again that were neither spurious nor dropped by the device or the receiving host",
    lambda summary: summary.totals.unexplained_retransmissions,
)
_INCOMPLETE = _total(
    "incomplete",
    "",
    "totals.incomplete",
    "incomplete",
    "measurements that a member did not report",
    lambda summary: summary.totals.incomplete,
)
_TIMED = (_of_transfers(times, statistic) for times in _TRANSFERS for statistic in ("p50", "p99", "max"))
_READ = (*starmap(_of_iteration, _ITERATIONS), *starmap(_of_class, _CLASSES), *_TIMED, *starmap(_of_flows, _FLOWS))
_ALL = (*_READ, _DROPS, *starmap(_of_device, _DEVICES), _MARKS, _UNEXPLAINED, _INCOMPLETE)
METRICS: Mapping[str, Metric] = {one.name: one for one in _ALL}
"""Every metric by name, in the order of documents."""
