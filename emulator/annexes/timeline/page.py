"""The section of a run's report about rates over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from emulator.annexes.timeline.rates import Rates, Series, steps
from emulator.results.run_folder.manifest import Manifest
from emulator.roce.options import TIMELINE_BINS
from emulator.units import format_duration
from emulator.views.columns.columns import Header
from emulator.views.columns.figures import NONE, count_cell
from emulator.views.html.page.document import Block, Chart, PageSection, Table
from emulator.views.html.page.pictures import Picture, Rows

LINES, POINTS, ROWS = 8, 400, 24
"""Most series in a chart, points of each, and rows in a table."""
_CHOICES = (("port", "received by each port"), ("flow", "flows with most events, then with most payload"))
_ASKED = "roce.timeline"
_ABOUT = (
    "Payload that receivers took in order, warm-up included, by the time at which their agents read it. "
    "All flows and bins are in timeline.parquet (docs/timeline.md)."
)


def sections(timeline: pa.Table, manifest: Manifest) -> Iterator[PageSection]:
    """The section, if flows were recorded by time."""
    if timeline.num_rows:
        found = Rates(timeline, manifest, most_bins=POINTS)
        ports, flows = found.ports(), found.flows()
        title = "Rates over time"
        blocks: list[Block] = [_over_time(found, ports, flows, _length(found, manifest)), _table(ports, flows)]
        yield PageSection("rates", title, blocks, _ABOUT)


def _length(found: Rates, manifest: Manifest) -> str:
    """How long bins are, and why."""
    asked = manifest.parameters.get(_ASKED)
    text = f"Bins of {format_duration(found.recorded_ns)}"
    if asked is not None and TIMELINE_BINS.get(str(asked.value)) not in (None, found.recorded_ns):
        text += f" instead of {asked.value}, because there was much to record"
    joined = found.bin_ns // found.recorded_ns
    return f"{text}; {joined} are drawn as one." if joined > 1 else f"{text}."


def _over_time(found: Rates, ports: Sequence[Series], flows: Sequence[Series], length: str) -> Chart:
    points = Rows()
    for kind, series in (("port", ports), ("flow", flows)):
        for one in series[:LINES]:
            for at_ns, rate in steps(one):
                points.add(kind=kind, name=one.name, time_ns=at_ns - found.begin_ns, rate_bps=round(rate))
    return Chart(
        "rates-over-time",
        "Rates over time",
        f"{length} Up to {LINES} lines. Time since the first payload.",
        "Payload received per second over time, one line per port or flow.",
        Picture("rates", {"points": points.columns}, "kind", _CHOICES),
        choice_title="Lines",
        is_wide=True,
    )


def _table(ports: Sequence[Series], flows: Sequence[Series]) -> Table:
    shown = [*ports[:ROWS], *flows[:ROWS]]
    rows = [
        [
            one.name,
            f"{one.flows:,}",
            f"{one.payload:,}",
            f"{one.rate_bps.mean() / 1e9:.3g}",
            f"{one.rate_bps.max() / 1e9:.3g}",
            f"{one.rate_cv:.2f}",
            NONE if one.jain is None else f"{one.jain:.3f}",
            count_cell(one.retransmits),
            count_cell(one.ecn_marks),
        ]
        for one in shown
    ]
    titles = (
        "flows",
        "payload, bytes",
        "mean, Gbit/s",
        "largest, Gbit/s",
        "rate cv",
        "fairness",
        "sent again",
        "marked",
    )
    about = (
        "Ports, then flows. Mean, largest and cv (standard deviation / mean) are of the bins above, from the first "
        "with payload to the last; pauses count. Fairness: Jain's index of the payload of the flows. Marked: packets."
    )
    columns = [Header("port or flow", is_number=False), *map(Header, titles)]
    return Table("rates-table", "Rates of ports and flows", columns, rows, about, is_folded=True)
