"""The metrics of a run: one registry of names, units and meanings for rules, JSON, exports, comparisons and reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import starmap

from emulator.results.statistics.metric import IterationKey, Metric, MetricKind, Reading, Scope, TesterEffect, Unit
from emulator.results.statistics.samples.classes import IN_A_HOST
from emulator.results.statistics.summary import RunSummary
from emulator.results.statistics.traffic.dut_counters import MARKS, UNREAD, describe_surplus, dropped_frames
from emulator.results.statistics.traffic.flow_counters import MAXIMA
from emulator.results.statistics.traffic.flow_figures import GOODPUT, RTT
from emulator.trace.meaning.imported import DROPPED, GUESSED

_NS, _RATE, _RATIO, _PERCENT = Unit.NS, Unit.BYTES_PER_S, Unit.RATIO, Unit.PERCENT
_JCT, _CCT = "job completion time of an iteration", "collective completion time: last arrival - last post"
_HIGHER, _LOWER, _EITHER, _NOTHING = TesterEffect.HIGHER, TesterEffect.LOWER, TesterEffect.EITHER, TesterEffect.NOTHING
_BUSY = "of the slowest rank in the median iteration"
_ITERATIONS = (  # name, unit, effect, attribute of IterationSummary, family, statistic, what
    ("jct", _NS, _HIGHER, "jct_ns", "jct", "p50", _JCT),
    ("jct_min", _NS, _HIGHER, "jct_min_ns", "jct", "min", _JCT),
    ("jct_max", _NS, _HIGHER, "jct_max_ns", "jct", "max", _JCT),
    ("jct_variation", _RATIO, _EITHER, "jct_variation", "jct.variation", "", "coefficient of variation of the JCT"),
    ("jct_to_ideal", _RATIO, _HIGHER, "roofline_ratio", "jct.to_ideal", "", "median JCT / JCT with ideal collectives"),
    (
        "exposed",
        _NS,
        _HIGHER,
        "exposed_ns",
        "communication.exposed",
        "",
        f"communication not hidden by compute, {_BUSY}",
    ),
    (
        "overlapped",
        _NS,
        _EITHER,
        "overlap_ns",
        "communication.overlapped",
        "",
        f"communication during compute, {_BUSY}",
    ),
    (
        "exposed_fraction",
        _RATIO,
        _EITHER,
        "exposed_fraction",
        "communication.exposed_fraction",
        "",
        "exposed / JCT, as a share",
    ),
)
_CLASSES = (  # the same of ClassSummary
    ("cct_p50", _NS, _HIGHER, "cct_p50_ns", "cct", "p50", _CCT),
    ("cct_p99", _NS, _HIGHER, "cct_p99_ns", "cct", "p99", _CCT),
    ("cct_max", _NS, _HIGHER, "cct_max_ns", "cct", "max", _CCT),
    (
        "slowest_to_mean",
        _RATIO,
        _EITHER,
        "slowest_to_mean",
        "slowest_to_mean",
        "",
        "slowest rank / mean over the ranks, median",
    ),
    ("algbw", _RATE, _LOWER, "algbw_bytes_per_s", "algbw", "", "algorithm bandwidth at the median cct"),
    ("busbw", _RATE, _LOWER, "busbw_bytes_per_s", "busbw", "", "bus bandwidth at the median cct"),
    (
        "busbw_mean",
        _RATE,
        _LOWER,
        "busbw_mean_bytes_per_s",
        "busbw_mean",
        "",
        "bus bandwidth at the mean cct, as in bench",
    ),
    (
        "busbw_to_ideal",
        _PERCENT,
        _LOWER,
        "ideal_percent",
        "ideal",
        "",
        "bus bandwidth / the bandwidth that port rates allow",
    ),
)
LATE = "a rank was late"
_OF_ALL_BYTES = {"algbw_bytes_per_s", "busbw_bytes_per_s", "busbw_mean_bytes_per_s", "ideal_percent", "slowest_to_mean"}
_TRANSFERS = {  # attribute of TransferSummary: family, what
    "fct": ("flow.completion", "flow completion time: post of a send to its last byte"),
    "kv_latency": ("request.kv_latency", "first send of a request's key-value cache to its last byte"),
    "ttft": ("request.ttft", "time to first token of the fabric: arrival of a request to the last byte of its cache"),
}
_KINDS = dict.fromkeys(MAXIMA, MetricKind.LEVEL)
_FLOWS = (  # name, counter, effect, title, what
    ("packets", "packets", _NOTHING, "", "packets sent, including retransmissions"),
    ("retransmissions", "retransmits", _HIGHER, "", "packets sent again"),
    ("timeouts", "timeouts", _HIGHER, "", "times a sender received no acknowledgement in time"),
    ("naks", "naks", _HIGHER, "NAKs", "PSN sequence errors reported by receivers"),
    ("rnr_naks", "rnr_naks", _HIGHER, "RNR NAKs", "times a receiver was not ready"),
    ("spurious_retransmissions", "duplicates", _HIGHER, "", "packets retransmitted although they had arrived"),
    (
        "network_duplicates",
        "copies",
        _NOTHING,
        "duplicated by the network",
        "packets received twice that were sent once",
    ),
    ("out_of_order", "out_of_order", _HIGHER, "", "packets received early"),
    (
        "largest_displacement",
        "largest_displacement",
        _EITHER,
        "",
        "largest number of packets by which one was received early",
    ),
    ("ecn_marks", "ecn_marks", _NOTHING, "ECN marks", "packets received with Congestion Experienced"),
    ("cnps", "cnps_received", _NOTHING, "CNPs", "congestion notification packets received"),
    ("cnps_sent", "cnps_sent", _NOTHING, "CNPs sent", "congestion notification packets sent"),
    ("header_errors", "dropped_header", _NOTHING, "", "packets refused because of an impossible header"),
    ("icrc_errors", "dropped_icrc", _NOTHING, "ICRC errors", "packets refused because of a wrong ICRC"),
    ("payload_errors", "dropped_payload", _NOTHING, "", "packets refused because the payload was not what was sent"),
)
_OF_ITERATION_AND_FLOW = (
    "retransmissions",
    "spurious_retransmissions",
    "network_duplicates",
    "timeouts",
    "naks",
    "out_of_order",
    "ecn_marks",
)
"""Those of _FLOWS that every iteration, and every flow, has too."""
_EACH_FLOW = (  # name, unit, column or figure of FlowFigures, kind, effect, what
    (
        "flow_goodput",
        _RATE,
        GOODPUT,
        MetricKind.TIMING,
        _LOWER,
        "payload of a flow / time in which its sender was communicating",
    ),
    ("flow_rtt", _NS, RTT, MetricKind.TIMING, _HIGHER, "smoothed time from a packet of a flow to its acknowledgement"),
)
_EVENTS = (  # name, attribute of EventFigures, unit, kind, family, what
    (
        "outage",
        "outage_ns",
        _NS,
        MetricKind.TIMING,
        "event.outage",
        "longest time in which no payload of a flow arrived that was waited for, of an event that takes a link down",
    ),
    (
        "recovery_time",
        "recovery_ns",
        _NS,
        MetricKind.TIMING,
        "event.recovery",
        "from the end of such an event to the first payload of the last flow that it stopped",
    ),
    (
        "failure_jct_to_p99",
        "jct_to_p99",
        _RATIO,
        MetricKind.TIMING,
        "event.jct_to_p99",
        "JCT of the longest iteration that an event met / p99 of those that none met",
    ),
    (
        "event_retransmissions",
        "retransmissions",
        Unit.COUNT,
        MetricKind.COUNTER,
        "event.retransmissions",
        "packets sent again in the iterations that an event met",
    ),
)
_PORTS = (  # name, attribute of PortRates, unit, family, what
    (
        "convergence_time",
        "convergence_ns",
        _NS,
        "port.convergence",
        "from the beginning of a port's last flow until every flow of it keeps within 10 % of its fair share",
    ),
    ("rate_cv", "rate_cv", _RATIO, "port.rate_cv", "standard deviation / mean of the rate of a port over time"),
    (
        "rate_fairness",
        "fairness",
        _RATIO,
        "port.fairness",
        "Jain's index of the rates of a port's flows over time, median",
    ),
)
_DEVICES = (  # name, attribute of DeviceFrames, what
    ("frames_in", "frames_in", "frames that the device received"),
    ("frames_lost", "lost", "frames that entered the device but did not leave it"),
    ("frames_lost_unexplained", "unexplained", "lost frames that no drop counter of the device shows"),
)


def _of_iteration(
    name: str, unit: Unit, effect: TesterEffect, field: str, family: str, statistic: str, what: str
) -> Metric:
    def read(summary: RunSummary) -> Iterator[Reading]:
        found = summary.iteration
        without_waits = found.jct_ns if found is not None and statistic == "max" else None
        perfect = summary.perfect_iteration.get(field)
        budget = None if found is None else found.uncertainty.get(field)
        yield Reading(None, getattr(found, field, None), perfect=perfect, without_waits=without_waits, budget=budget)

    key = f"iteration.{field}"
    return Metric(name, name, unit, Scope.RUN, what, key, MetricKind.TIMING, effect, family, statistic, read)


def _of_class(
    name: str, unit: Unit, effect: TesterEffect, field: str, family: str, statistic: str, what: str
) -> Metric:
    def read(summary: RunSummary) -> Iterator[Reading]:
        for one in summary.classes:
            has_port = one.where != IN_A_HOST and (summary.crosses_ports or one.ideal_percent is not None)
            if field == "ideal_percent" and not has_port:
                continue  # it crosses no port, so no port's rate says what would be ideal
            if one.size_bytes or field.startswith("cct"):
                without_waits = one.without_waits(field)
                perfect = one.perfect.get(field)
                why = LATE if field in _OF_ALL_BYTES and one.late else ""
                is_limited, waited = bool(one.is_tester_limited), one.core_wait_fraction
                network = one.network
                at_best = None if network is None else network.at_best
                yield Reading(
                    one.key,
                    getattr(one, field),
                    is_limited,
                    perfect,
                    without_waits,
                    why,
                    waited,
                    one.shares_ports,
                    getattr(network, field, None),
                    getattr(at_best, field, None),
                    None if network is None else getattr(network.perfect, field, None),
                    network is None or network.is_whole,
                    one.uncertainty.get(field),
                    None if network is None else network.uncertainty.get(field),
                    None if at_best is None else at_best.uncertainty.get(field),
                )

    key = f"classes[].{field}"
    return Metric(name, name, unit, Scope.CLASS, what, key, MetricKind.TIMING, effect, family, statistic, read)


def _of_transfers(times: str, statistic: str) -> Metric:
    def read(summary: RunSummary) -> Iterator[Reading]:
        found = getattr(summary.transfers, times)
        without_waits = None if statistic == "p50" else found.p50_ns
        yield Reading(None, getattr(found, f"{statistic}_ns"), without_waits=without_waits)

    (family, what), name, key = _TRANSFERS[times], f"{times}_{statistic}", f"transfers.{times}.{statistic}_ns"
    return Metric(name, name, Unit.NS, Scope.RUN, what, key, MetricKind.TIMING, _HIGHER, family, statistic, read)


def _of_flows(name: str, counter: str, effect: TesterEffect, title: str, what: str) -> Metric:
    def read(summary: RunSummary) -> Iterator[Reading]:
        yield Reading(None, summary.totals.counters.get(counter))

    kind, key, family = _KINDS.get(counter, MetricKind.COUNTER), f"totals.counters.{counter}", f"flow.{counter}"
    return Metric(name, title or _plain(name), Unit.COUNT, Scope.RUN, what, key, kind, effect, family, "", read)


def _of_each_iteration(name: str, counter: str, effect: TesterEffect, title: str, what: str) -> Metric:
    def read(summary: RunSummary) -> Iterator[Reading]:
        for one in summary.iterations:
            yield Reading(IterationKey(one.number), one.events[counter])

    title, key = f"{title or _plain(name)} of an iteration", f"iterations[].events.{counter}"
    return Metric(
        f"iteration_{name}",
        title,
        Unit.COUNT,
        Scope.ITERATION,
        f"{what}, in one iteration",
        key,
        MetricKind.COUNTER,
        effect,
        f"iteration.{counter}",
        "",
        read,
    )


def _of_each_flow(name: str, unit: Unit, field: str, kind: MetricKind, effect: TesterEffect, what: str) -> Metric:
    def read(summary: RunSummary) -> Iterator[Reading]:
        if summary.flows is not None:
            yield from starmap(Reading, summary.flows.readings(field))

    key = f"flows.parquet {field}"
    return Metric(name, _plain(name), unit, Scope.FLOW, what, key, kind, effect, f"each_flow.{field}", "", read)


def _jct_of_each_iteration(summary: RunSummary) -> Iterator[Reading]:
    perfect = summary.perfect_iteration.get("jct_ns")
    for one in summary.iterations:
        yield Reading(IterationKey(one.number), one.jct_ns, perfect=perfect)


def _of_device(name: str, field: str, what: str) -> Metric:
    def read(summary: RunSummary) -> Iterator[Reading]:
        for one in summary.totals.device_frames:
            value = getattr(one, field)
            yield Reading(one.device, value, why=describe_surplus(one.surplus) if value is None else "")
        if not summary.totals.device_frames:
            yield Reading(None, None, why="no device counted frames")

    key, family = f"totals.device_frames[].{field}", f"device.{name}"
    return Metric(name, name, Unit.COUNT, Scope.DEVICE, what, key, MetricKind.COUNTER, _NOTHING, family, "", read)


def _of_event(name: str, field: str, unit: Unit, kind: MetricKind, family: str, what: str) -> Metric:
    def read(summary: RunSummary) -> Iterator[Reading]:
        for one in summary.events:
            if one.event.happened and (one.event.stops_traffic or field not in ("outage_ns", "recovery_ns")):
                yield Reading(str(one.event), getattr(one, field), why=one.why)

    return Metric(name, _plain(name), unit, Scope.EVENT, what, f"events[].{field}", kind, _HIGHER, family, "", read)


def _of_port(name: str, field: str, unit: Unit, family: str, what: str) -> Metric:
    def read(summary: RunSummary) -> Iterator[Reading]:
        for one in summary.ports:
            value = getattr(one, field)
            if field == "rate_cv" or one.flows > 1:
                is_least = field == "convergence_ns" and value is None and one.unfair_ns is not None
                yield Reading(one.port, one.unfair_ns if is_least else value, why=one.why, is_least=is_least)

    kind, key = MetricKind.TIMING, f"ports[].{field}"
    return Metric(name, _plain(name), unit, Scope.PORT, what, key, kind, _EITHER, family, "", read)


def _total(
    name: str,
    title: str,
    key: str,
    family: str,
    what: str,
    value: Callable[[RunSummary], int | None],
    effect: TesterEffect = TesterEffect.NOTHING,
) -> Metric:
    def read(summary: RunSummary) -> Iterator[Reading]:
        why = next((one for one in summary.warnings if key.startswith("totals.dut") and one.startswith(UNREAD)), "")
        yield Reading(None, value(summary), why=why, is_least=bool(why))

    return Metric(
        name, title or _plain(name), Unit.COUNT, Scope.RUN, what, key, MetricKind.COUNTER, effect, family, "", read
    )


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
    "lost packets beyond what the device lost or a receiving host dropped",
    lambda summary: summary.totals.unexplained_retransmissions,
    TesterEffect.EITHER,
)
_LOST = _total(
    "lost",
    "",
    "totals.lost",
    "lost",
    "frames that the device lost, or else packets that did not arrive",
    lambda summary: summary.totals.lost,
    TesterEffect.HIGHER,
)
_INCOMPLETE = _total(
    "incomplete",
    "",
    "totals.incomplete",
    "incomplete",
    "measurements that a member did not report",
    lambda summary: summary.totals.incomplete,
)
_LATE_STARTS = _total(
    "late_starts",
    "",
    "tester.late_starts",
    "late_starts",
    "iterations that an agent, the one where it is most, was told of after they should have begun",
    lambda summary: summary.tester.late_starts,
)


def _of_import(fate: str, what: str) -> Metric:
    def read(summary: RunSummary) -> int | None:
        return None if summary.imported is None else summary.imported.number(fate)

    return _total(f"import_{fate}", "", f"imported.{fate}", f"import.{fate}", what, read)


_IMPORTED = (
    _of_import(GUESSED, "facts about traffic that the recording lacks and the import guessed"),
    _of_import(DROPPED, "records that the import left out of the trace"),
)
_TIMED = (_of_transfers(times, statistic) for times in _TRANSFERS for statistic in ("p50", "p99", "max"))
_READ = (*starmap(_of_iteration, _ITERATIONS), *starmap(_of_class, _CLASSES), *_TIMED, *starmap(_of_flows, _FLOWS))
_ITERATION_JCT = Metric(
    "iteration_jct",
    "JCT of an iteration",
    Unit.NS,
    Scope.ITERATION,
    _JCT,
    "iterations[].jct_ns",
    MetricKind.TIMING,
    _HIGHER,
    "jct",
    "",
    _jct_of_each_iteration,
)
_REPEATED = [one for one in _FLOWS if one[0] in _OF_ITERATION_AND_FLOW]
_EACH = (
    _ITERATION_JCT,
    *starmap(_of_each_iteration, _REPEATED),
    *starmap(_of_each_flow, _EACH_FLOW),
    *(
        _of_each_flow(f"flow_{name}", Unit.COUNT, counter, MetricKind.COUNTER, effect, f"{what}, of one flow")
        for name, counter, effect, _, what in _REPEATED
    ),
)
_ALL = (
    *(*_READ, *_EACH, _DROPS, *starmap(_of_device, _DEVICES), _MARKS, _LOST, _UNEXPLAINED),
    *(*starmap(_of_event, _EVENTS), *starmap(_of_port, _PORTS), _INCOMPLETE, _LATE_STARTS, *_IMPORTED),
)
METRICS: Mapping[str, Metric] = {one.name: one for one in _ALL}
"""Every metric by name, in the order of documents."""
