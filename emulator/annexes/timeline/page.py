"""The section of a run's report about rates over time of what flows carried."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from emulator.planner.network.load_balance import balance_of
from emulator.results.run_folder.manifest import Manifest
from emulator.results.statistics.events import DeviceEvent
from emulator.results.statistics.samples.measured_rows import to_ints
from emulator.results.statistics.worst.worst_flows import endpoint_names, ports_of_ranks
from emulator.roce.options import TIMELINE_BINS
from emulator.trace.meaning.model import IntArray
from emulator.units import BITS_PER_BYTE, NS_PER_S, format_duration
from emulator.views.columns.columns import Header
from emulator.views.columns.figures import NONE, count_cell
from emulator.views.html.page.document import Block, Chart, PageSection, Table
from emulator.views.html.page.pictures import Picture, Rows
from emulator.views.html.sections.events import bands

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RateSeries:
    """Something that received payload.

    Attributes:
        name: of a port, `host:interface`, or of a flow.
        flows: whose payload it is.
        payload, retransmits, ecn_marks: over the whole run: bytes, packets, packets.
        rate_bps: payload in each bin from the first to the last with any, bit/s.
        begin_ns: when the first of them begins.
        bin_ns: length of each.
        jain: fairness of its flows over the whole run, Jain's index: 1 is fair, 1 / flows is not; None: of one flow.
    """

    name: str
    flows: int
    payload: int
    retransmits: int
    ecn_marks: int
    rate_bps: FloatArray
    begin_ns: int
    bin_ns: int
    jain: float | None = None

    @property
    def rate_cv(self) -> float:
        """Standard deviation of the rate over its bins / their mean; pauses count."""
        return float(self.rate_bps.std() / self.rate_bps.mean()) if self.payload else 0.0


class Rates:
    """The timeline of a run.

    Args:
        table: `timeline.parquet`, with at least one row.
        manifest: of the run.
        most_bins: longer bins are made of the recorded ones if there are more.
    """

    def __init__(self, table: pa.Table, manifest: Manifest, *, most_bins: int) -> None:
        columns = {name: to_ints(table[name]) for name in table.column_names}
        self.recorded_ns = int(columns["bin_ns"].max())
        self.begin_ns = int(columns["start_ns"].min())
        bins = (int(columns["start_ns"].max()) - self.begin_ns) // self.recorded_ns + 1
        self.bin_ns = self.recorded_ns * -(-bins // most_bins)
        self._bin = (columns["start_ns"] - self.begin_ns) // self.bin_ns
        self._columns, self._ends = columns, endpoint_names(manifest)
        flows = np.stack([columns[name] for name in ("src", "dst", "qpn")], axis=1)
        self._flows, self._flow = np.unique(flows, axis=0, return_inverse=True)
        self._ports = ports_of_ranks(manifest)

    def ports(self) -> Sequence[RateSeries]:
        """What each port received, those with most payload first."""
        names = [self._ports.get(dst, f"rank {self._ends[dst]}") for dst in self._flows[:, 1].tolist()]
        titles = sorted(set(names))
        of_flow = np.array([titles.index(name) for name in names], np.int64)
        return self._series(titles, of_flow[self._flow])

    def flows(self) -> Sequence[RateSeries]:
        """Each flow, those with most events first, then those with most payload."""
        names = [f"{self._ends[src]} to {self._ends[dst]}, queue pair {qpn}" for src, dst, qpn in self._flows.tolist()]
        found = self._series(names, self._flow)
        return sorted(found, key=lambda one: -(one.retransmits + one.ecn_marks))

    def _series(self, names: Sequence[str], of_row: IntArray) -> Sequence[RateSeries]:
        order = np.argsort(of_row, kind="stable")
        edges = np.searchsorted(of_row[order], np.arange(len(names) + 1))
        found = (
            self._one(name, order[first:end]) for name, first, end in zip(names, edges[:-1], edges[1:], strict=True)
        )
        return sorted((one for one in found if one.payload), key=lambda one: -one.payload)

    def _one(self, name: str, rows: IntArray) -> RateSeries:
        size, at = self._columns["bytes"][rows], self._bin[rows]
        carried = np.flatnonzero(size)
        first = int(at[carried].min()) if len(carried) else 0
        total = np.zeros(int(at[carried].max(initial=first)) - first + 1, np.int64)
        np.add.at(total, at[carried] - first, size[carried])
        flows, of_flow = np.unique(self._flow[rows[carried]], return_inverse=True)
        shares = np.bincount(of_flow, weights=size[carried], minlength=len(flows))
        return RateSeries(
            name,
            len(flows),
            int(size.sum()),
            int(self._columns["retransmits"][rows].sum()),
            int(self._columns["ecn_marks"][rows].sum()),
            total.astype(np.float64) * (BITS_PER_BYTE * NS_PER_S / self.bin_ns),
            self.begin_ns + first * self.bin_ns,
            self.bin_ns,
            balance_of(shares.astype(np.float64)).jain if len(flows) > 1 else None,
        )


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
        found = Rates(timeline, manifest, most_bins=POINTS)
        ports, flows = found.ports(), found.flows()
        title = "Rates over time"
        blocks: list[Block] = [_over_time(found, ports, flows, _length(found, manifest), events), _table(ports, flows)]
        yield PageSection("rates", title, blocks, _ABOUT)


def _length(found: Rates, manifest: Manifest) -> str:
    """How long bins are, and why."""
    asked = manifest.parameters.get(_ASKED)
    text = f"Bins of {format_duration(found.recorded_ns)}"
    if asked is not None and TIMELINE_BINS.get(str(asked.value)) not in (None, found.recorded_ns):
        text += f" instead of {asked.value}, because there was much to record"
    joined = found.bin_ns // found.recorded_ns
    return f"{text}; {joined} are drawn as one." if joined > 1 else f"{text}."


def _over_time(
    found: Rates,
    ports: Sequence[RateSeries],
    flows: Sequence[RateSeries],
    length: str,
    events: Sequence[DeviceEvent],
) -> Chart:
    points = Rows()
    end_ns = max((one.begin_ns + len(one.rate_bps) * one.bin_ns for one in ports), default=found.begin_ns)
    for kind, series in (("port", ports), ("flow", flows)):
        for one in series[:LINES]:
            for at_ns, rate in steps(one):
                points.add(kind=kind, name=one.name, time_ns=at_ns - found.begin_ns, rate_bps=round(rate))
    return Chart(
        "rates-over-time",
        "Rates over time",
        f"{length} Up to {LINES} lines. Time since the first payload.",
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


def _table(ports: Sequence[RateSeries], flows: Sequence[RateSeries]) -> Table:
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
