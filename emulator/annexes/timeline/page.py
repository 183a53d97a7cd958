"""The section of a run's report about rates over time of what flows carried."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from emulator.annexes.timeline.rates import FAIR, WINDOW_BINS, Rates, RateSeries
from emulator.results.run_folder.manifest import Manifest
from emulator.results.statistics.events import DeviceEvent
from emulator.results.statistics.port_rates import PortRates
from emulator.roce.options import TIMELINE_BINS
from emulator.units import format_duration
from emulator.views.columns.columns import Header
from emulator.views.columns.figures import NONE, count_cell, duration_cell
from emulator.views.html.page.document import Block, Chart, PageSection, Table
from emulator.views.html.page.pictures import Picture, Rows
from emulator.views.html.sections.events import bands


def steps(one: RateSeries) -> Iterator[tuple[int, float]]:
    """(time, rate from then on) of a series, ends with 0; times in which nothing changes are left out."""
    before = -1.0
    for at, rate in enumerate([*one.rate_bps.tolist(), 0.0]):
        if rate != before:
            yield one.begin_ns + at * one.bin_ns, rate
        before = rate


LINES, POINTS, ROWS = 8, 400, 24
"""Most series in a chart, points of each, and rows in a table."""
_CHOICES = (("port", "received by each port"), ("flow", "flows with most events, then with most payload"))
_ASKED = "roce.timeline"
_ABOUT = (
    "Payload that receivers took in order, warm-up included, by the time at which their agents read it. "
    "All flows and bins are in timeline.parquet (docs/timeline.md)."
)


def sections(timeline: pa.Table, manifest: Manifest, events: Sequence[DeviceEvent] = ()) -> Iterator[PageSection]:
    """The section, if flows were recorded by time, with the events of the device."""
    if timeline.num_rows:
        found = Rates(timeline, manifest)
        ports, flows = found.ports(), found.flows()
        title = "Rates over time"
        blocks: list[Block] = [_over_time(found, manifest, events), _table(ports, found.sharing(), flows)]
        yield PageSection("rates", title, blocks, _ABOUT)


def _length(found: Rates, manifest: Manifest, joined: int) -> str:
    """How long bins are, and why."""
    asked = manifest.parameters.get(_ASKED)
    text = f"Bins of {format_duration(found.bin_ns)}"
    if asked is not None and TIMELINE_BINS.get(str(asked.value)) not in (None, found.bin_ns):
        text += f" instead of {asked.value}, because there was much to record"
    return f"{text}; {joined} are drawn as one." if joined > 1 else f"{text}."


def _over_time(found: Rates, manifest: Manifest, events: Sequence[DeviceEvent]) -> Chart:
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
            {"points": points.columns, "events": bands(events, found.begin_ns, end_ns)},
            "kind",
            _CHOICES,
        ),
        choice_title="Lines",
        is_wide=True,
    )


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
            NONE if shared is None else duration_cell(shared.convergence_ns),
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
