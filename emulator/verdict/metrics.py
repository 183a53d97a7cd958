"""The metrics of a run: one registry of names, units and meanings for rules, JSON, exports and reports.

A metric is read from the summary of a run. What was not measured has no value; it is never 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeAlias

from emulator.statistics.class_summary import ClassSummary
from emulator.statistics.classes import ClassKey
from emulator.statistics.dut_counters import DROPS, MARKS
from emulator.statistics.iterations import IterationSummary
from emulator.statistics.summary import RunSummary


class Unit(Enum):
    """Unit of a metric; the value is its symbol as in UCUM, which OpenTelemetry uses."""

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


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric.

    Attributes:
        name: in rules, and in documents that list metrics by name.
        unit: of its values.
        scope: what a value describes.
        meaning: one line for people.
        key: where `--json` has it: `iteration.jct_ns`, `classes[].busbw_bytes_per_s`.
        is_timing: a slow tester changes it. Counters are not timings.
        read: its values in a run.
    """

    name: str
    unit: Unit
    scope: Scope
    meaning: str
    key: str
    is_timing: bool
    read: Reader


def _of_iteration(name: str, unit: Unit, field: str, meaning: str) -> Metric:
    def value_of(one: IterationSummary | None) -> float | None:
        return None if one is None else getattr(one, field)

    def read(summary: RunSummary) -> Iterator[Reading]:
        yield Reading(None, value_of(summary.iteration))

    return Metric(name, unit, Scope.RUN, meaning, f"iteration.{field}", True, read)


def _of_class(name: str, unit: Unit, field: str, meaning: str) -> Metric:
    def read(summary: RunSummary) -> Iterator[Reading]:
        for one in summary.classes:
            if one.size_bytes or field.startswith(("cct", "skew")):
                yield Reading(one.key, getattr(one, field), _is_limited(one))

    return Metric(name, unit, Scope.CLASS, meaning, f"classes[].{field}", True, read)


def _of_transfers(name: str, field: str, meaning: str) -> Metric:
    times, percentile = field.split(".")

    def read(summary: RunSummary) -> Iterator[Reading]:
        yield Reading(None, getattr(getattr(summary.transfers, times), percentile))

    return Metric(name, Unit.NS, Scope.RUN, meaning, f"transfers.{field}", True, read)


def _is_limited(one: ClassSummary) -> bool:
    return bool(one.is_tester_limited)


def _of_flows(name: str, counter: str, meaning: str) -> Metric:
    def read(summary: RunSummary) -> Iterator[Reading]:
        yield Reading(None, summary.totals.counters.get(counter))

    return Metric(name, Unit.COUNT, Scope.RUN, meaning, f"totals.counters.{counter}", False, read)


def _total(name: str, unit: Unit, meaning: str, key: str, value: Callable[[RunSummary], float | None]) -> Metric:
    def read(summary: RunSummary) -> Iterator[Reading]:
        yield Reading(None, value(summary))

    return Metric(name, unit, Scope.RUN, meaning, key, False, read)


def _of_device(name: str, field: str, meaning: str) -> Metric:
    def read(summary: RunSummary) -> Iterator[Reading]:
        for one in summary.totals.device_frames:
            yield Reading(one.device, getattr(one, field))
        if not summary.totals.device_frames:
            yield Reading(None, None)

    return Metric(name, Unit.COUNT, Scope.DEVICE, meaning, f"totals.device_frames[].{field}", False, read)


def _device_drops(summary: RunSummary) -> float | None:
    totals = summary.totals
    return sum(totals.dut.get(name, 0) for name in DROPS) if totals.is_dut_monitored else None


def _device_marks(summary: RunSummary) -> float | None:
    return summary.totals.dut.get(MARKS, 0) if summary.totals.is_dut_monitored else None


_ALL = (
    _of_iteration("jct", Unit.NS, "jct_ns", "job completion time of an iteration, median"),
    _of_iteration("jct_max", Unit.NS, "jct_max_ns", "job completion time of the slowest iteration"),
    _of_iteration("jct_variation", Unit.RATIO, "jct_variation", "coefficient of variation of the JCT"),
    _of_iteration("jct_to_ideal", Unit.RATIO, "roofline_ratio", "median JCT / JCT with every collective at its ideal"),
    _of_iteration(
        "exposed_fraction", Unit.RATIO, "exposed_fraction", "share of the JCT in communication not overlapped"
    ),
    _of_class("cct_p50", Unit.NS, "cct_p50_ns", "collective completion time, median"),
    _of_class("cct_p99", Unit.NS, "cct_p99_ns", "collective completion time, 99th percentile"),
    _of_class("cct_max", Unit.NS, "cct_max_ns", "largest collective completion time"),
    _of_class(
        "slowest_to_mean", Unit.RATIO, "slowest_to_mean", "time of the slowest rank / mean over the ranks, median"
    ),
    _of_class("algbw", Unit.BYTES_PER_S, "algbw_bytes_per_s", "algorithm bandwidth at the median cct"),
    _of_class("busbw", Unit.BYTES_PER_S, "busbw_bytes_per_s", "bus bandwidth at the median cct"),
    _of_class("busbw_to_ideal", Unit.PERCENT, "ideal_percent", "bus bandwidth / what the rates of the ports allow"),
    _of_transfers("fct_p50", "fct.p50_ns", "flow completion time: post of a send to its last byte, median"),
    _of_transfers("fct_p99", "fct.p99_ns", "flow completion time, 99th percentile"),
    _of_transfers("fct_max", "fct.max_ns", "largest flow completion time"),
    _of_transfers(
        "kv_latency_p50", "kv_latency.p50_ns", "first send of a request's key-value cache to its last byte, median"
    ),
    _of_transfers("kv_latency_p99", "kv_latency.p99_ns", "key-value latency, 99th percentile"),
    _of_transfers("kv_latency_max", "kv_latency.max_ns", "largest key-value latency"),
    _of_transfers("ttft_p50", "ttft.p50_ns", "arrival of a request to the last byte of its key-value cache, median"),
    _of_transfers("ttft_p99", "ttft.p99_ns", "time to first token of the fabric, 99th percentile"),
    _of_transfers("ttft_max", "ttft.max_ns", "largest time to first token of the fabric"),
    _of_flows("packets", "packets", "packets sent, repeated ones included"),
    _of_flows("retransmissions", "retransmits", "packets sent again"),
    _of_flows("timeouts", "timeouts", "times that a sender received no acknowledgement in time"),
    _of_flows("naks", "naks", "PSN sequence errors reported by receivers"),
    _of_flows("spurious_retransmissions", "duplicates", "packets sent again although they had arrived"),
    _of_flows("out_of_order", "out_of_order", "packets received before their turn"),
    _of_flows("ecn_marks", "ecn_marks", "packets received with Congestion Experienced"),
    _of_flows("cnps", "cnps_received", "congestion notification packets received"),
    _of_flows("icrc_errors", "dropped_icrc", "packets refused because of a wrong ICRC"),
    _total("device_drops", Unit.COUNT, "frames that the device counted as dropped", "totals.dut", _device_drops),
    _of_device("frames_in", "frames_in", "frames that the device received"),
    _of_device("frames_lost", "lost", "frames that came into the device and did not leave it"),
    _of_device("frames_lost_unexplained", "unexplained", "lost frames that no drop counter of the device shows"),
    _total("device_marks", Unit.COUNT, "frames that the device marked (ECN)", "totals.dut.ecn_marked", _device_marks),
    _total(
        "unexplained_retransmissions",
        Unit.COUNT,
        "packets sent again that were neither spurious nor dropped by the device or the receiving host",
        "totals.unexplained_retransmissions",
        lambda summary: summary.totals.unexplained_retransmissions,
    ),
    _total(
        "incomplete",
        Unit.COUNT,
        "measurements that a member did not report",
        "totals.incomplete",
        lambda summary: summary.totals.incomplete,
    ),
)

METRICS: Mapping[str, Metric] = {one.name: one for one in _ALL}
"""Every metric by name, in the order of documents."""
