"""Rates over time of ports and flows, and how flows share a port, from the timeline of a run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from emulator.planner.network.load_balance import balance_of
from emulator.results.run_folder.manifest import Manifest
from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.schema import RunTable
from emulator.results.statistics.port_rates import PortRates
from emulator.results.statistics.samples.measured_rows import to_ints
from emulator.results.statistics.worst.worst_flows import endpoint_names, ports_of_ranks
from emulator.trace.meaning.model import IntArray
from emulator.units import BITS_PER_BYTE, NS_PER_S

FloatArray = npt.NDArray[np.float64]

WINDOW_BINS = 10
"""Bins of a window: an agent reads what came in batches, so the rate of one flow in one bin says little."""
LEAST_WINDOWS = 5
"""Windows at the end in which flows must keep their shares: fewer could be chance."""
FAIR = 0.1
"""Largest difference from the fair share, as a part of it."""


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

    def joined(self, bins: int) -> RateSeries:
        """The same in longer bins, of which the last may be partly empty."""
        if bins == 1:
            return self
        padded = np.append(self.rate_bps, np.zeros(-len(self.rate_bps) % bins))
        return RateSeries(
            self.name, self.flows, self.payload, self.retransmits, self.ecn_marks,
            padded.reshape(-1, bins).mean(axis=1), self.begin_ns, self.bin_ns * bins, self.jain,
        )  # fmt: skip


class Rates:
    """The timeline of a run, or of all jobs of a session together.

    Args:
        table: `timeline.parquet`, with at least one row.
        manifest: of the run.
        others: the same of further runs on the same clock.
    """

    def __init__(self, table: pa.Table, manifest: Manifest, *others: tuple[pa.Table, Manifest]) -> None:
        ends: list[str] = []
        parts: list[dict[str, IntArray]] = []
        self._ports: dict[int, str] = {}
        for rows, facts in ((table, manifest), *others):
            part = {name: to_ints(rows[name]) for name in rows.column_names}
            parts.append(part | {name: part[name] + len(ends) for name in ("src", "dst")})
            self._ports |= {len(ends) + rank: port for rank, port in ports_of_ranks(facts).items()}
            ends += endpoint_names(facts)
        columns = {name: np.concatenate([one[name] for one in parts]) for name in parts[0]}
        self.bin_ns = math.lcm(
            *np.unique(columns["bin_ns"]).tolist()
        )  # of several runs: 8 and 10 ms have no common edges
        columns["start_ns"] -= columns["start_ns"] % self.bin_ns
        self.begin_ns = int(columns["start_ns"].min())
        self._bin = (columns["start_ns"] - self.begin_ns) // self.bin_ns
        self.bins = int(self._bin.max()) + 1
        self._columns, self._ends = columns, ends
        flows = np.stack([columns[name] for name in ("src", "dst", "qpn")], axis=1)
        self._flows, self._flow = np.unique(flows, axis=0, return_inverse=True)

    def ports(self) -> Sequence[RateSeries]:
        """What each port received, those with most payload first."""
        return self._series(*self._rows_of_ports())

    def flows(self) -> Sequence[RateSeries]:
        """Each flow, those with most events first, then those with most payload."""
        names = [f"{self._ends[src]} to {self._ends[dst]}, queue pair {qpn}" for src, dst, qpn in self._flows.tolist()]
        found = self._series(names, self._flow)
        return sorted(found, key=lambda one: -(one.retransmits + one.ecn_marks))

    def total(self, name: str) -> RateSeries:
        """What all received together."""
        return self._one(name, np.arange(len(self._bin)))

    def marks(self, step_ns: int) -> Iterator[tuple[str, FloatArray]]:
        """(port, congestion marks that came there per second) in steps of `step_ns`, a multiple of a bin."""
        names, of_row = self._rows_of_ports()
        step = self._bin // (step_ns // self.bin_ns)
        for at, name in enumerate(names):
            rows = of_row == at
            counted = np.bincount(step[rows], weights=self._columns["ecn_marks"][rows], minlength=int(step.max()) + 1)
            yield name, counted * NS_PER_S / step_ns

    def sharing(self) -> tuple[PortRates, ...]:
        """How the flows of each port shared its rate, ports with most payload first."""
        names, of_row = self._rows_of_ports()
        rows = {name: np.flatnonzero(of_row == at) for at, name in enumerate(names)}
        return tuple(self._shared(one, rows[one.name]) for one in self.ports())

    @property
    def named_ports(self) -> set[str]:
        """Ports, `host:interface`, that received payload."""
        carried = self._columns["dst"][self._columns["bytes"] > 0]
        return {self._ports[dst] for dst in np.unique(carried).tolist() if dst in self._ports}

    def _rows_of_ports(self) -> tuple[Sequence[str], IntArray]:
        names = [self._ports.get(dst, f"rank {self._ends[dst]}") for dst in self._flows[:, 1].tolist()]
        titles = sorted(set(names))
        of_flow = np.array([titles.index(name) for name in names], np.int64)
        return titles, of_flow[self._flow]

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

    def _shared(self, port: RateSeries, rows: IntArray) -> PortRates:
        windows = list(self._windows(rows[self._columns["bytes"][rows] > 0]))
        window_ns, fairness, convergence_ns, unfair_ns = WINDOW_BINS * self.bin_ns, None, None, None
        if port.flows < 2:
            why = "the port received one flow"
        elif len(windows) < LEAST_WINDOWS:
            why = f"its flows did not move together for {LEAST_WINDOWS} windows of {WINDOW_BINS} bins"
        else:
            fairness = float(np.median([balance_of(shares).jain for _, shares in windows]))
            kept = next((at for at, (_, shares) in enumerate(reversed(windows)) if not _is_fair(shares)), len(windows))
            if kept >= LEAST_WINDOWS:
                convergence_ns, why = windows[len(windows) - kept][0] * window_ns, ""
            else:
                unfair_ns = (windows[-1][0] + 1 - kept) * window_ns
                why = f"its flows did not keep within {100 * FAIR:.0f} % of their fair shares"
        return PortRates(
            port.name, port.flows, float(port.rate_bps.mean()), float(port.rate_bps.max()), port.rate_cv, fairness,
            convergence_ns, window_ns, why, unfair_ns,
        )  # fmt: skip

    def _windows(self, rows: IntArray) -> Iterator[tuple[int, FloatArray]]:
        """(number, payload of each flow) of the windows in which all flows of a port had begun and none had ended.

        A window in which less than half as much came as in most is a pause, or part of one, and left out.
        """
        if not len(rows):
            return
        flows, of_flow = np.unique(self._flow[rows], return_inverse=True)
        at, size = self._bin[rows], self._columns["bytes"][rows]
        first, last = np.full(len(flows), self.bins), np.full(len(flows), -1)
        np.minimum.at(first, of_flow, at)
        np.maximum.at(last, of_flow, at)
        begin, end = int(first.max()), int(last.min()) + 1
        count = max(0, end - begin) // WINDOW_BINS
        inside = (at >= begin) & (at < begin + count * WINDOW_BINS)
        shares = np.zeros((count, len(flows)))
        np.add.at(shares, ((at[inside] - begin) // WINDOW_BINS, of_flow[inside]), size[inside])
        total = shares.sum(axis=1)
        least = np.median(total[total > 0]) / 2 if total.any() else 0
        yield from ((number, shares[number]) for number in np.flatnonzero((total > 0) & (total >= least)).tolist())


def _is_fair(shares: FloatArray) -> bool:
    return bool(np.abs(shares / shares.mean() - 1).max() <= FAIR)


def port_rates(run: Run) -> tuple[PortRates, ...]:
    """How the flows of each port of a run shared its rate; empty if it has no timeline.

    Raises:
        ResultError: the timeline is damaged.
    """
    table = run.table(RunTable.TIMELINE)
    return Rates(table, run.manifest).sharing() if table.num_rows else ()
