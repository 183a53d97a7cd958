"""What will cross the network, and what did, in words: Gbit/s and % of line rate, as network engineers read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from emulator.planner.forecast import Forecast
from emulator.results.statistics.class_summary import ClassSummary
from emulator.results.statistics.metrics import METRICS
from emulator.results.statistics.traffic.network_traffic import NetworkTraffic, PathCounts, PortLoad
from emulator.results.statistics.worst.worst_flows import LossFocus
from emulator.units import format_duration, format_size
from emulator.views.columns.figures import count_of, number_cell, payload_cell, percent_cell

_ALWAYS_SHOWN = ("packets", "retransmissions", "timeouts")


def describe_network(network: NetworkTraffic) -> str:
    """`676 kB of the payload of an iteration (67 %); h0:eth0 sent 0.0385 Gbit/s of payload, 38.5 % of line rate`."""
    share = percent_cell(network.share, digits=0)
    part = f"{payload_cell(network.payload_bytes)} of the payload of an iteration ({share})"
    return part if network.busiest is None else f"{part}; {_describe_port(network.busiest)}"


def describe_flows(counters: Mapping[str, int]) -> str:
    """`packets 1,024, retransmissions 0, timeouts 0`, then every other counter that is not 0; "" without counters."""
    counted = ((one, counters.get(one.field)) for one in METRICS.values() if one.family.startswith("flow."))
    shown = (f"{one.title} {count:,}" for one, count in counted if count or (count == 0 and one.name in _ALWAYS_SHOWN))
    return ", ".join(shown)


def describe_paths(paths: Sequence[PathCounts]) -> str:
    """`4: 1,281 to 1,282 packets each, lost 9 (path 1: 8)`: counters that are not 0, and of which path most."""
    packets = [one.packets for one in paths]
    least, most_packets = min(packets), max(packets)
    dealt = f"{least:,}" if least == most_packets else f"{least:,} to {most_packets:,}"
    words = [f"{len(paths)}: {dealt} packets" + " each" * (len(paths) > 1)]
    for title in ("retransmits", "lost", "trimmed", "marked", "retirements"):
        counts = {one.path: getattr(one, title) for one in paths if getattr(one, title)}
        if counts:
            most = max(counts, key=lambda path: counts[path])
            words.append(f"{title} {sum(counts.values()):,} (path {most}: {counts[most]:,})")
    return ", ".join(words)


def describe_loss_focus(focus: LossFocus) -> str:
    """`297 of 299 lost packets from h0:eth0 to h1:eth0`; `9 of 9 frames that the device dropped, at sw0:p1 (h1:e0)`."""
    if focus.port:
        way = f" {focus.where}" if focus.where else ""
        beyond = f" ({focus.destination})" if focus.destination != focus.port else ""
        return f"{focus.lost:,} of {focus.total:,} frames that the device dropped{way}, at {focus.port}{beyond}"
    words = [f"{focus.lost:,} of {focus.total:,} lost packets"]
    words += [f"from {focus.source}"] if focus.source else []
    words += [f"to {focus.destination}"] if focus.destination else []
    return " ".join(words)


def gbit_cell(bits_per_s: float) -> str:
    """A rate in Gbit/s, 10^9 bit/s."""
    return f"{number_cell(bits_per_s / 1e9)} Gbit/s"


def _describe_port(port: PortLoad) -> str:
    share = "" if port.percent is None else f", {number_cell(port.percent)} % of line rate"
    return f"{port.port} {port.direction} {gbit_cell(port.bits_per_s)} of payload{share}"


_ABOVE_PERCENT, _LOW_PERCENT = 100.5, 10.0
_SHORT_NS = 100_000
"""An ideal time below this is short beside the latency of software at both ends."""


def explain_ideal(classes: Iterable[ClassSummary]) -> Iterator[str]:
    """Sentences about classes above 100 % of their ideal, small ones far below, and late ranks; none without any."""
    classes = list(classes)
    known = [(one, one.ideal_percent, one.cct_p50_ns) for one in classes if one.ideal_percent and one.cct_p50_ns]
    above = sum(percent >= _ABOVE_PERCENT for _, percent, _ in known)
    if above:
        yield (
            f"{count_of(above, 'class is', 'classes are')} above 100 % of ideal: a port sends what its bucket holds"
            " at once before it sends at its rate, which is much of a small message; if large ones are above as well,"
            " the port is faster than the topology says."
        )
    late = sum(one.late for one in classes)
    if late:
        yield (
            f"{count_of(late, 'measurement')} without bandwidth and ideal %: a rank was late, and it is not known how"
            " much had still to move then."
        )
    small = [one for one, percent, cct in known if percent < _LOW_PERCENT and percent / 100 * cct < _SHORT_NS]
    if small:
        largest = format_size(max(one.size_bytes for one in small))
        yield (
            f"{count_of(len(small), 'class', 'classes')} of up to {largest} cannot come near 100 % of ideal: ideal is"
            " bytes / rate of the ports, and small messages are mostly latency."
        )


def describe_forecast(forecast: Forecast, *, is_open_ended: bool = False) -> str:
    """`plays 6 iterations (1 warm-up) of 12.5 MiB from 8 ranks (…): 75 MiB in total; at least 18.6 ms at …`.

    Args:
        is_open_ended: it repeats its iterations until other jobs have ended.
    """
    if is_open_ended:
        forecast = replace(forecast, iterations=1)
    each = sum(forecast.sent_bytes) + forecast.read_bytes
    most = f"at most {format_size(max(forecast.sent_bytes))} each"
    storage = f" and {format_size(forecast.read_bytes)} from storage" if forecast.read_bytes else ""
    iterations = f"{count_of(forecast.iterations, 'iteration')} ({forecast.warmup} warm-up)"
    if is_open_ended:
        iterations = "iterations until the other jobs have ended,"
    line = (
        f"plays {iterations} of {format_size(each)} payload"
        f" from {count_of(len(forecast.sent_bytes), 'rank')} ({most}){storage}"
        f" in {count_of(forecast.communications, 'communication')}"
    )
    if is_open_ended:
        line += " each"
    else:
        line += f": {format_size(each * forecast.iterations)} in total"
    least = format_duration(forecast.least_ns * forecast.iterations)
    if forecast.has_rates:
        return f"{line}; at least {least} at the rates of the ports"
    if forecast.least_ns:
        return f"{line}; at least {least} of compute, the ports have no rate"
    return f"{line}; no estimate of the time, the ports have no rate"
