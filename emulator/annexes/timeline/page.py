"""The section of a run's report about rates over time of what flows carried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from emulator.annexes.timeline.rates import FAIR, WINDOW_BINS, FloatArray, Rates, RateSeries
from emulator.results.run_folder.manifest import Manifest
from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.schema import RunTable
from emulator.results.statistics.events import EventMark
from emulator.results.statistics.port_rates import PortRates
from emulator.results.statistics.traffic.dut_counters import DROPS, CounterName, Readings, counter_series
from emulator.roce.options import TIMELINE_BINS
from emulator.trace.meaning.model import IntArray
from emulator.units import NS_PER_S, format_duration
from emulator.views.columns.columns import Header
from emulator.views.columns.figures import NONE, count_cell, duration_cell
from emulator.views.html.page.document import Block, Chart, PageSection, Table
from emulator.views.html.page.pictures import Picture, Rows
from emulator.views.html.sections.events import bands


def steps(one: RateSeries) -> Iterator[tuple[int, float]]:
    """(time, rate from then on) of a series, ends with 0; times in which nothing changes are left out."""
    yield from changes(np.append(one.rate_bps, 0.0), one.begin_ns, one.bin_ns)


def changes(values: FloatArray, begin_ns: int, step_ns: int) -> Iterator[tuple[int, float]]:
    """(time, value from then on) of values in steps of time; those in which nothing changes are left out."""
    before = -1.0
    for at, value in enumerate(values.tolist()):
        if value != before:
            yield begin_ns + at * step_ns, value
        before = value


LINES, POINTS, ROWS = 8, 400, 24
"""Most series in a chart, points of each, and rows in a table."""
_CHOICES = (("port", "received by each port"), ("flow", "flows with most events, then with most payload"))
_DEPTH, _DROPS, _MARKS = "depth", "drops", "marks"
_QUEUES = ((_DEPTH, "depth of queues, bytes"), (_DROPS, "drops, frames per second"), (_MARKS, "marks, per second"))
_ASKED = "roce.timeline"
_ABOUT = (
    "Payload that receivers took in order, warm-up included, by the time at which their agents read it. "
    "All flows and bins are in timeline.parquet (docs/timeline.md)."
)


def sections(
    timeline: pa.Table, manifest: Manifest, marks: Sequence[EventMark] = (), counters: pa.Table | None = None
) -> Iterator[PageSection]:
    """The section, if flows were recorded by time, with marks of what changed, and the queues of the device."""
    if timeline.num_rows:
        found = Rates(timeline, manifest)
        ports, flows = found.ports(), found.flows()
        title = "Rates over time"
        blocks: list[Block] = [
            _over_time(found, manifest, marks),
            *_queues(found, _of_switches(counters, manifest), marks),
            _table(ports, found.sharing(), flows),
        ]
        yield PageSection("rates", title, blocks, _ABOUT)


def _length(found: Rates, manifest: Manifest, joined: int) -> str:
    """How long bins are, and why."""
    asked = manifest.parameters.get(_ASKED)
    text = f"Bins of {format_duration(found.bin_ns)}"
    if asked is not None and TIMELINE_BINS.get(str(asked.value)) not in (None, found.bin_ns):
        text += f" instead of {asked.value}, because there was much to record"
    return f"{text}; {joined} are drawn as one." if joined > 1 else f"{text}."


def _over_time(found: Rates, manifest: Manifest, marks: Sequence[EventMark]) -> Chart:
    points, joined = Rows(), -(-found.bins // POINTS)
    end_ns = found.begin_ns + found.bins * found.bin_ns
    for kind, series in (("port", found.ports()), ("flow", found.flows())):
        for one in series[:LINES]:
            for at_ns, rate in steps(one.joined(joined)):
                points.add(kind=kind, name=one.name, time_ns=at_ns - found.begin_ns, rate_bps=round(rate))
    return Chart(
        "rates-over-time",
        "Rates over time",
        f"{_length(found, manifest, joined)} Up to {LINES} lines. Time since the first payload.",
        "Payload received per second over time, one line per port or flow.",
        Picture(
            "rates",
            {"points": points.columns, "events": bands(marks, found.begin_ns, end_ns)},
            "kind",
            _CHOICES,
        ),
        choice_title="Lines",
        is_wide=True,
    )


def job_rates(runs: Mapping[str, Run]) -> Iterator[Block]:
    """Jobs that were played at once, by name: a line for each that was recorded by time, and how they share ports.

    Raises:
        ResultError: a timeline is damaged.
    """
    tables = {name: run.table(RunTable.TIMELINE) for name, run in runs.items()}
    found = {name: Rates(table, runs[name].manifest) for name, table in tables.items() if table.num_rows}
    if not found:
        return
    begin_ns, points = min(one.begin_ns for one in found.values()), Rows()
    for name, one in found.items():
        for at_ns, rate in steps(one.total(name).joined(-(-one.bins // POINTS))):
            points.add(name=name, time_ns=at_ns - begin_ns, rate_bps=round(rate))
    yield Chart(
        "job-rates",
        "Rates of the jobs",
        "Payload per second that the ranks of a job received together. Time since the first payload of any of them.",
        "Payload received per second over time, one line per job.",
        Picture("rates", {"points": points.columns, "events": bands((), 0, 0)}),
        is_wide=True,
    )
    receive = Counter(port for one in found.values() for port in one.named_ports)
    first, *others = ((tables[name], runs[name].manifest) for name in found)
    together = [one for one in Rates(*first, *others).sharing() if receive[one.port] > 1]
    if together:
        yield _shared_ports(together, receive)


def _queues(found: Rates, series: Mapping[CounterName, Readings], marks: Sequence[EventMark]) -> Iterator[Chart]:
    """What waited, was dropped and was marked meanwhile, if there was any of it: in the time of the rates."""
    step_ns = -(-found.bins // POINTS) * found.bin_ns
    count = -(-found.bins * found.bin_ns // step_ns)
    edges = found.begin_ns + step_ns * np.arange(count + 1)
    lines = [(_kind(name), f"{name.device}:{name.interface}", one) for name, one in series.items() if _kind(name)]
    drawn = [
        (kind, port, _levels(one, edges) if kind == _DEPTH else _increases(one, edges)) for kind, port, one in lines
    ]
    drawn += [(_MARKS, name, values) for name, values in found.marks(step_ns)]
    points, kinds = Rows(), []
    for kind, title in _QUEUES:
        largest = sorted((one for one in drawn if one[0] == kind and one[2].any()), key=lambda one: -one[2].max())
        kinds += [(kind, title)] if largest else []
        for _, port, values in largest[:LINES]:
            ends = count * step_ns, float(values[-1])  # as far as the rates: both have one axis
            for at_ns, value in (*changes(values, 0, step_ns), ends):
                points.add(kind=kind, name=port, time_ns=at_ns, value=round(value, 3))
    if kinds:
        yield Chart(
            "queues-over-time",
            "Queues over time",
            f"Of the device: the deepest that a queue was read in {format_duration(step_ns)}, and what it dropped. "
            f"Marks: as they came to each port. Up to {LINES} lines. Time since the first payload, as above.",
            "Depth of queues, drops and marks over time, one line per port.",
            Picture(
                "queues",
                {"points": points.columns, "events": bands(marks, found.begin_ns, int(edges[-1]))},
                "kind",
                kinds,
            ),
            choice_title="Shows",
            is_wide=True,
        )


def _of_switches(counters: pa.Table | None, manifest: Manifest) -> Mapping[CounterName, Readings]:
    """Counters of all that is no host: the queue of a host holds what its agents send, and is seldom read."""
    hosts = {host.get("name") for host in manifest.topology.get("hosts") or ()}
    found = {} if counters is None else counter_series(counters)
    return {name: one for name, one in found.items() if name.device not in hosts}


def _kind(name: CounterName) -> str:
    """The picture that a counter belongs to; "": none."""
    return _DEPTH if name.is_level else _DROPS if name.counter in DROPS else ""


def _levels(one: Readings, edges: IntArray) -> FloatArray:
    """The largest value of a level from each edge to the next."""
    at_edge = np.searchsorted(one.time_ns, edges[:-1], side="right") - 1
    found = np.where(at_edge >= 0, one.value[np.maximum(at_edge, 0)], 0).astype(np.float64)
    inside = (one.time_ns >= edges[0]) & (one.time_ns < edges[-1])
    np.maximum.at(found, np.searchsorted(edges, one.time_ns[inside], side="right") - 1, one.value[inside])
    return found


def _increases(one: Readings, edges: IntArray) -> FloatArray:
    """Increase per second from each edge to the next, spread evenly between two readings."""
    return np.diff(np.interp(edges, one.time_ns, one.value)) * NS_PER_S / np.diff(edges)


def _converged(one: PortRates) -> str:
    return duration_cell(one.convergence_ns) if one.unfair_ns is None else f"not in {format_duration(one.unfair_ns)}"


def _shared_ports(ports: Sequence[PortRates], jobs: Mapping[str, int]) -> Table:
    """How the flows of all jobs share the ports to which several jobs send; `jobs`: how many, by port."""
    rows = [
        [
            one.port,
            f"{jobs[one.port]}",
            f"{one.flows:,}",
            f"{one.mean_bps / 1e9:.3g}",
            f"{one.rate_cv:.2f}",
            NONE if one.fairness is None else f"{one.fairness:.3f}",
            _converged(one),
        ]
        for one in ports[:ROWS]
    ]
    titles = ("jobs", "flows", "mean, Gbit/s", "rate cv", "fairness over time", "converged after")
    about = (
        "Flows of all jobs together. Converged: from the beginning of the last flow of any job until all keep within "
        f"{100 * FAIR:.0f} % of their fair shares. Fairness: Jain's index, median of windows of {WINDOW_BINS} bins, "
        "while all flows of the port move."
    )
    columns = [Header("port", is_number=False), *map(Header, titles)]
    return Table("shared-ports", "Ports that jobs share", columns, rows, about)


def _table(ports: Sequence[RateSeries], sharing: Sequence[PortRates], flows: Sequence[RateSeries]) -> Table:
    shown: list[tuple[RateSeries, PortRates | None]] = [*zip(ports[:ROWS], sharing, strict=False)]
    shown += [(one, None) for one in flows[:ROWS]]
    rows = [
        [
            one.name,
            f"{one.flows:,}",
            f"{one.payload:,}",
            f"{one.rate_bps.mean() / 1e9:.3g}",
            f"{one.rate_bps.max() / 1e9:.3g}",
            f"{one.rate_cv:.2f}",
            NONE if one.jain is None else f"{one.jain:.3f}",
            NONE if shared is None or shared.fairness is None else f"{shared.fairness:.3f}",
            NONE if shared is None else _converged(shared),
            count_cell(one.retransmits),
            count_cell(one.ecn_marks),
        ]
        for one, shared in shown
    ]
    titles = (
        "flows",
        "payload, bytes",
        "mean, Gbit/s",
        "largest, Gbit/s",
        "rate cv",
        "fairness",
        "fairness over time",
        "converged after",
        "sent again",
        "marked",
    )
    about = (
        "Ports, then flows. Mean, largest and cv (standard deviation / mean) are of recorded bins, from the first "
        "with payload to the last; pauses count. Fairness: Jain's index of the payload of the flows. Over time: the "
        f"median of windows of {WINDOW_BINS} bins, while all flows of the port move. Converged: from the beginning of "
        f"the last flow until all keep within {100 * FAIR:.0f} % of their fair shares. Marked: packets."
    )
    columns = [Header("port or flow", is_number=False), *map(Header, titles)]
    return Table("rates-table", "Rates of ports and flows", columns, rows, about, is_folded=True)
