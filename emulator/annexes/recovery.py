"""What events of a run cost the job: outage, recovery, the iteration that they met, and what was sent again.

The outage comes from the timeline. A pause of a flow lasts from a bin with payload to the next one with some; only the
part counts in which the receiving rank had posted something that was not done. An event made a pause if that overlaps
the event, and is longer than every pause of the flow that no event met; what was before the event does not count.

An event that stops no traffic can change a rate. When it did is the boundary between bins that leaves the smallest
squared error if the rate of a port is one constant before it and another after it, in a window around the event. It
counts if it was not before the event, and if it is higher than the steps that the rate of the port makes anyway.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from emulator.results.run_folder.manifest import COMPLETE
from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.schema import BY_AGENT, RunTable
from emulator.results.statistics.events import DeviceEvent, EventFigures, Migrations, RateChange, device_events
from emulator.results.statistics.method.descriptive import median, percentile
from emulator.results.statistics.samples.iterations import iteration_durations
from emulator.results.statistics.samples.measured_rows import to_ints
from emulator.results.statistics.traffic.background import ProbeOutage, background_flows, flow_results
from emulator.results.statistics.worst.worst_flows import ports_of_ranks
from emulator.trace.meaning.model import IntArray
from emulator.units import BITS_PER_BYTE, NS_PER_S

NO_TIMELINE = "not measured: the run has no timeline (--timeline)"
_FOREVER_NS = 1 << 62
_FLOW = ("src", "dst", "qpn")
_Moved: TypeAlias = tuple[tuple[int, str], ...]
TOGETHER_NS = 500_000_000
"""Pauses between moves of one loss: queue pairs find it when they send."""
WINDOW_BINS, LEAST_BINS = 50, 10
"""Bins before and after an event in which its step is looked for: most, and least."""
LEAST_OF_USUAL, MOST_USUAL = 1.5, 500
"""Height of a step / that of the highest one far from all events: pauses of a job are steps too; windows searched."""
LEAST_OF_LARGEST = 0.25
"""Squared error that a step takes away, of the largest of all ports: what an event slows can slow other flows later."""


def event_figures(run: Run) -> tuple[EventFigures, ...]:
    """Every event of a run with its figures, by the time at which it began.

    Raises:
        ResultError: a table of the run is missing or damaged.
    """
    events = device_events(run.table(RunTable.EVENTS))
    iterations = _Iterations(run, events)
    pauses = _Pauses(run, iterations.disturbed) if any(one.stops_traffic for one in events) else None
    rates = _Rates(run, events) if any(not one.stops_traffic for one in events) else None
    probes = _Probes(run, iterations.disturbed)
    found = [_figures(one, iterations, pauses, rates, probes) for one in events]
    went = migrations(run)
    return tuple(replace(one, moved=_moved(one.event, iterations.begun_ns, events, went)) for one in found)


def migrations(run: Run) -> tuple[Migrations, ...]:
    """The migrations of traffic, by port and direction, in the order in which they began.

    Raises:
        ResultError: a table of the run is missing or damaged.
    """
    begun_ns = int(to_ints(run.table(RunTable.ITERATIONS, ["start_ns"])["start_ns"]).min(initial=_FOREVER_NS))
    found: dict[tuple[str, str], list[int]] = {}
    for row in run.table(RunTable.EVENTS).to_pylist():
        if row["seen_by"] == BY_AGENT and row["time_ns"] is not None:
            place = f"{row['device']}:{row['interface']}", row["what"]
            found.setdefault(place, []).append(row["time_ns"])
    grouped = [
        Migrations(*place, len(times), min(times) - begun_ns, max(times) - begun_ns, tuple(_together(sorted(times))))
        for place, times in found.items()
    ]
    return tuple(sorted(grouped, key=lambda one: (one.first_ns, one.where)))


def _together(times: Sequence[int]) -> Iterator[tuple[int, int]]:
    """(first, last) of times that follow each other within `TOGETHER_NS`."""
    first = times[0]
    for one, following in zip(times, [*times[1:], None], strict=True):
        if following is None or following - one > TOGETHER_NS:
            yield first, one
            first = following or 0


def _moved(event: DeviceEvent, begun_ns: int, events: Sequence[DeviceEvent], moved: Sequence[Migrations]) -> _Moved:
    """What moved from an event that stops traffic until the next one, after the first iteration began."""
    begin_ns = event.begin_ns
    if begin_ns is None or not event.stops_traffic:
        return ()
    begins = [one.begin_ns for one in events if one.stops_traffic and one.begin_ns is not None]
    next_ns = min((at for at in begins if at > begin_ns), default=_FOREVER_NS)
    first_ns = begin_ns - (event.begin_error_ns or 0)
    found = [(at, f"{one.where} {one.what}") for one in moved for at, _ in one.spans]
    return tuple(sorted((at - begun_ns, what) for at, what in found if first_ns <= at < next_ns))


def _figures(
    event: DeviceEvent, iterations: _Iterations, pauses: _Pauses | None, rates: _Rates | None, probes: _Probes
) -> EventFigures:
    if not event.happened:
        return EventFigures(event)
    at_ns = None if event.begin_ns is None else event.begin_ns - iterations.begun_ns
    found = probes.add_to(iterations.add_to(EventFigures(event, at_ns)))
    if event.stops_traffic:
        return found if pauses is None else pauses.add_to(found)
    return found if rates is None else rates.add_to(found)


def _span(event: DeviceEvent) -> tuple[int, int]:
    """From when to when it was in force, ns; errors are on the safe side."""
    begin_ns = 0 if event.begin_ns is None else event.begin_ns - (event.begin_error_ns or 0)
    return begin_ns, _FOREVER_NS if event.end_ns is None else event.end_ns


class _Iterations:
    """The iterations of a run, and those that events met."""

    def __init__(self, run: Run, events: Sequence[DeviceEvent]) -> None:
        table = run.table(RunTable.ITERATIONS)
        number, start, end = (to_ints(table[name]) for name in ("iteration", "start_ns", "end_ns"))
        self.begun_ns = int(start.min(initial=_FOREVER_NS))
        self._spans = {one: (int(start[rows].min()), int(end[rows].max())) for one, rows in _groups(number)}
        self._broken_from_ns = max((end for _, end in self._spans.values()), default=0)
        self._jct = iteration_durations(table, run.manifest)
        happened = [one for one in events if one.happened]
        met = {one for event in happened for one in self._met(event)}
        self.disturbed = sorted(self._disturbed(event) for event in happened)
        steady = np.array([jct for one, jct in self._jct.items() if one not in met], np.int64)
        self._p50_ns, self._p99_ns = median(steady), percentile(steady, 0.99)
        flow_events = run.table(RunTable.FLOW_EVENTS)
        self._again = to_ints(flow_events["iteration"]), to_ints(flow_events["retransmits"], null=0)
        self._is_counted = (
            flow_events.num_rows > 0 or not to_ints(run.table(RunTable.FLOWS)["retransmits"], null=0).any()
        )
        mtu = run.manifest.parameters.get("roce.path_mtu")
        self._path_mtu = mtu.value if mtu is not None and isinstance(mtu.value, int) else None

    def _met(self, event: DeviceEvent) -> list[int]:
        begin_ns, end_ns = _span(event)
        return [one for one, (first, last) in self._spans.items() if first < end_ns and last > begin_ns]

    def _disturbed(self, event: DeviceEvent) -> tuple[int, int]:
        """From the event to the end of the last iteration that it met."""
        begin_ns, end_ns = _span(event)
        return begin_ns, max([end_ns, *(self._spans[one][1] for one in self._met(event))])

    def add_to(self, found: EventFigures) -> EventFigures:
        """JCT, and packets sent again."""
        met = self._met(found.event)
        jct = [self._jct[one] for one in met if one in self._jct]
        _, end_ns = _span(found.event)
        numbers, again = self._again
        was_broken = end_ns > self._broken_from_ns  # it met one that never ended, which has no number here
        counted = np.isin(numbers, met) | (was_broken & ~np.isin(numbers, list(self._spans)))
        packets = int(again[counted].sum()) if self._is_counted else None
        return replace(
            found,
            iterations=tuple(one for one in met if one >= 0),
            jct_ns=max(jct, default=None),
            steady_p50_ns=self._p50_ns,
            steady_p99_ns=self._p99_ns,
            retransmissions=packets,
            retransmitted_bytes=None if packets is None or self._path_mtu is None else packets * self._path_mtu,
        )


@dataclass(frozen=True, slots=True)
class _Pause:
    """A pause of a flow: the middles of the bins around it."""

    flow: int
    receiver: int
    begin_ns: int
    end_ns: int
    is_over: bool

    def meets(self, begin_ns: int, end_ns: int, bin_ns: int) -> bool:
        return self.begin_ns < end_ns + bin_ns and self.end_ns > begin_ns - bin_ns


class _Pauses:
    """The pauses of all flows of a run.

    Args:
        run: it.
        disturbed: (begin, end) of the times in which events may make pauses, ns.
    """

    def __init__(self, run: Run, disturbed: Sequence[tuple[int, int]]) -> None:
        table = run.table(RunTable.TIMELINE)
        columns = {name: to_ints(table[name]) for name in (*_FLOW, "start_ns", "bytes", "bin_ns")}
        self._bin_ns = int(columns["bin_ns"].max(initial=0))
        self._clock_error_ns = run.manifest.clock.error_ns
        self._end_ns = max(int(to_ints(run.table(RunTable.COUNTERS)["time_ns"]).max(initial=0)), *_last(columns))
        cut_ns = None if run.manifest.status == COMPLETE else self._end_ns
        self._waiting = _waiting(run, cut_ns)
        self._pauses = list(_pauses(columns, cut_ns))
        if cut_ns is not None:  # a rank that completed nothing waited all the time
            first_ns = int(columns["start_ns"].min(initial=cut_ns))
            for one in self._pauses:
                self._waiting.setdefault(one.receiver, _Waiting(np.array([first_ns]), np.array([cut_ns])))
        self._usual: dict[int, int] = {}
        for one in self._pauses:
            if not any(one.meets(begin, end, self._bin_ns) for begin, end in disturbed):
                self._usual[one.flow] = max(self._waited_ns(one, 0), self._usual.get(one.flow, 0))

    def add_to(self, found: EventFigures) -> EventFigures:
        """Outage and recovery."""
        if not self._bin_ns:
            return replace(found, why=NO_TIMELINE)
        begin_ns, end_ns = _span(found.event)
        error_ns = self._bin_ns + self._clock_error_ns
        waited = [
            (self._waited_ns(one, begin_ns - self._bin_ns // 2), one)
            for one in self._pauses
            if one.meets(begin_ns, end_ns, 0)
        ]
        waited = [(ns, one) for ns, one in waited if ns > self._usual.get(one.flow, 0) + 2 * self._bin_ns]
        made = [one for _, one in waited]
        again_ns = max((one.end_ns for one in made), default=0)
        is_over = all(one.is_over for one in made)
        recovery_ns = None
        if found.event.end_ns is not None and is_over:
            recovery_ns = max(0, again_ns - found.event.end_ns)
        lost = [one.begin_ns for one in made if not one.is_over]
        return replace(
            found,
            outage_ns=max((ns for ns, _ in waited), default=0),
            outage_error_ns=error_ns,
            is_over=is_over,
            flows=len({one.flow for one in made}),
            recovery_ns=recovery_ns,
            recovery_error_ns=None if recovery_ns is None else error_ns // 2 + (found.event.end_error_ns or 0),
            lost_from_ns=min(lost, default=None),
            lost_until_ns=self._end_ns if lost else None,
        )

    def _waited_ns(self, pause: _Pause, from_ns: int) -> int:
        """For how long of a pause its receiver waited; what was before a time does not count."""
        waiting = self._waiting.get(pause.receiver)
        return 0 if waiting is None else waiting.between(min(max(pause.begin_ns, from_ns), pause.end_ns), pause.end_ns)


class _Probes:
    """Background flows over UDP at equal intervals.

    Args:
        run: it.
        disturbed: (begin, end) of the times in which events may stop them, ns.
    """

    def __init__(self, run: Run, disturbed: Sequence[tuple[int, int]]) -> None:
        flows = background_flows(flow_results(run)) if disturbed else ()
        self._flows = [one for one in flows if one.transport == "udp" and one.interval_ns and one.received_messages]
        self._usual = {
            one.flow: max(
                (each.outage_ns for each in one.outages if not any(_meets(each, *span) for span in disturbed)),
                default=0,
            )
            for one in self._flows
        }

    def add_to(self, found: EventFigures) -> EventFigures:
        """The longest outage that the event made."""
        if not self._flows:
            return found
        span = _span(found.event)
        made = [
            each
            for one in self._flows
            for each in one.outages
            if _meets(each, *span) and each.outage_ns > self._usual[one.flow] + 2 * (one.interval_ns or 0)
        ]
        longest = max(made, key=lambda one: one.outage_ns, default=None)
        if longest is None:
            return replace(found, probe_outage_ns=0)
        return replace(
            found,
            probe_outage_ns=longest.outage_ns,
            probe_error_ns=longest.error_ns,
            is_probe_over=longest.lost is not None,
        )


def _meets(outage: ProbeOutage, begin_ns: int, end_ns: int) -> bool:
    return outage.start_ns < end_ns and outage.end_ns > begin_ns


def _groups(values: IntArray) -> Iterator[tuple[int, IntArray]]:
    """Each value, and the rows that have it."""
    order = np.argsort(values, kind="stable")
    found, first = np.unique(values[order], return_index=True)
    yield from zip(found.tolist(), np.split(order, first[1:]), strict=True) if len(values) else ()


def _last(columns: Mapping[str, IntArray]) -> list[int]:
    """The end of the last bin."""
    return [int((columns["start_ns"] + columns["bin_ns"]).max(initial=0))]


def _pauses(columns: Mapping[str, IntArray], cut_ns: int | None) -> Iterator[_Pause]:
    """Of all flows; of a run that was cut off, also the last one until then."""
    carried = columns["bytes"] > 0
    flows, of_row = np.unique(np.stack([columns[name][carried] for name in _FLOW], axis=1), axis=0, return_inverse=True)
    middle = columns["start_ns"][carried] + columns["bin_ns"][carried] // 2
    bin_ns = int(columns["bin_ns"].max(initial=0))
    for number, rows in _groups(of_row.ravel()):
        dst, at = int(flows[number, 1]), np.sort(middle[rows])
        begins = np.flatnonzero(np.diff(at) > bin_ns)
        spans = [(int(at[one]), int(at[one + 1]), True) for one in begins]
        if cut_ns is not None:
            spans.append((int(at[-1]), cut_ns, False))
        yield from (_Pause(number, dst, *span) for span in spans)


class _Rates:
    """What each port received over time.

    Args:
        run: it.
        events: all of it: no window reaches beyond another one's beginning or end.
    """

    def __init__(self, run: Run, events: Sequence[DeviceEvent]) -> None:
        table, ports = run.table(RunTable.TIMELINE), ports_of_ranks(run.manifest)
        columns = {name: to_ints(table[name]) for name in (*_FLOW, "start_ns", "bytes", "bin_ns")}
        self._bin_ns = int(columns["bin_ns"].max(initial=0))
        self._error_ns = self._bin_ns + run.manifest.clock.error_ns
        self._edges = [] if not self._bin_ns else [
            at // self._bin_ns for one in events for at in (one.begin_ns, one.end_ns) if at is not None
        ]  # fmt: skip
        self._of_port: dict[str, _PortSeries] = {}
        iterations = run.table(RunTable.ITERATIONS)
        turns = np.concatenate([to_ints(iterations[name]) for name in ("start_ns", "end_ns")]) // max(1, self._bin_ns)
        rows = np.flatnonzero(columns["bytes"])
        names = np.array([ports.get(one, f"rank {one}") for one in columns["dst"][rows].tolist()], dtype=object)
        for name in sorted(set(names.tolist())):
            own = rows[names == name]
            flows = np.stack([columns[one][own] for one in _FLOW], axis=1)
            bins = columns["start_ns"][own] // self._bin_ns
            self._of_port[name] = _PortSeries(flows, bins, columns["bytes"][own], self._edges, turns)

    def add_to(self, found: EventFigures) -> EventFigures:
        """How a rate changed when the event began, and when it ended."""
        event = found.event
        return replace(
            found,
            rate_at_begin=self._change(event.begin_ns, event.begin_error_ns or 0),
            rate_at_end=self._change(event.end_ns, event.end_error_ns or 0),
        )

    def _change(self, event_ns: int | None, event_error_ns: int) -> RateChange | None:
        if event_ns is None or not self._bin_ns:
            return None
        at, error_ns = event_ns // self._bin_ns, self._error_ns + event_error_ns
        steps = [(name, *one) for name, port in self._of_port.items() if (one := port.unusual_step(at)) is not None]
        if not steps:
            return None
        most = max(step.explained for _, _, step in steps)
        large = [one for one in steps if one[2].explained >= LEAST_OF_LARGEST * most]
        name, first, step = min(large, key=lambda one: (one[1] + one[2].cut, -one[2].explained))
        at_ns, bps = (first + step.cut) * self._bin_ns, BITS_PER_BYTE * NS_PER_S / self._bin_ns
        if at_ns < event_ns - error_ns:
            return None
        return RateChange(name, at_ns, at_ns - event_ns, error_ns, step.before * bps, step.after * bps)


class _PortSeries:
    """What a port received, by bin.

    Args:
        flows, bins, size: of each of its rows: the flow, the number of the bin, bytes.
        edges: bins in which events began or ended.
        turns: bins in which iterations began or ended.
    """

    def __init__(self, flows: IntArray, bins: IntArray, size: IntArray, edges: Sequence[int], turns: IntArray) -> None:
        self._first, self._events, self._turns = int(bins.min()), edges, turns
        self._bytes = np.bincount(bins - self._first, weights=size).astype(np.float64)
        count, of_row = np.unique(flows, axis=0, return_inverse=True)
        begin, end = np.full(len(count), _FOREVER_NS), np.zeros(len(count), np.int64)
        np.minimum.at(begin, of_row.ravel(), bins)
        np.maximum.at(end, of_row.ravel(), bins)
        self._flows = [*np.unique(begin).tolist(), *np.unique(end).tolist()]

    def unusual_step(self, at: int) -> tuple[int, Step] | None:
        """(first bin of the window, the step in it) around a bin; no event and no flow begins or ends in a window.

        Returns:
            None: there is none, or steps far from all events are about as high; if less than a window is far from
                all events, an iteration may not begin or end in the window either.
        """
        others = [one for one in (*self._events, *self._flows) if one != at]
        first = max([at - WINDOW_BINS, *(one + 1 for one in others if one < at)])
        end = min([at + WINDOW_BINS, *(one for one in others if one > at)])
        if at in self._flows or at - first < LEAST_BINS or end - at < LEAST_BINS:
            return None
        step = find_step(self._bytes[first - self._first : end - self._first])
        if step is None or step.height < LEAST_OF_USUAL * self._usual:
            return None
        is_like_a_pause = self._far_bins < 2 * WINDOW_BINS and bool(
            ((self._turns > first) & (self._turns < end - 1)).any()
        )
        return None if is_like_a_pause else (first, step)

    @cached_property
    def _usual(self) -> float:
        """Height of the highest step far from all events."""
        return max((one.height for one in self._far_steps()), default=0.0)

    @cached_property
    def _far(self) -> list[tuple[int, int]]:
        """(first bin, end) of the times that no window around an event reaches."""
        last = self._first + len(self._bytes) - 1
        edges = sorted([self._first - WINDOW_BINS, *self._events, last + WINDOW_BINS])
        far = [(one + WINDOW_BINS + 1, other - WINDOW_BINS) for one, other in itertools.pairwise(edges)]
        return [(one, other) for one, other in far if other - one >= 2 * LEAST_BINS]

    @property
    def _far_bins(self) -> int:
        return sum(end - begin for begin, end in self._far)

    def _far_steps(self) -> Iterator[Step]:
        stride = max(LEAST_BINS // 2, self._far_bins // MOST_USUAL)
        for one, other in self._far:
            for begin in range(one, other - 2 * LEAST_BINS + 1, stride):
                end = min(begin + 2 * WINDOW_BINS, other)
                step = find_step(self._bytes[begin - self._first : end - self._first])
                if step is not None:
                    yield step


class _Waiting:
    """When a rank had posted something that was not done.

    Args:
        begin_ns, end_ns: of each of its communications.
    """

    def __init__(self, begin_ns: IntArray, end_ns: IntArray) -> None:
        order = np.argsort(begin_ns, kind="stable")
        begin, end = begin_ns[order], np.maximum.accumulate(end_ns[order])
        first = np.flatnonzero(np.concatenate([[True], begin[1:] > end[:-1]]))
        last = np.concatenate([first[1:] - 1, [len(begin) - 1]])
        self._edges = np.stack([begin[first], end[last]], axis=1).ravel()
        spent = end[last] - begin[first]
        self._total = np.stack([np.cumsum(spent) - spent, np.cumsum(spent)], axis=1).ravel()

    def between(self, begin_ns: int, end_ns: int) -> int:
        """For how long of this time."""
        at = np.interp(np.array([begin_ns, end_ns]) - self._edges[0], self._edges - self._edges[0], self._total)
        return round(float(at[1] - at[0]))


def _waiting(run: Run, cut_ns: int | None) -> dict[int, _Waiting]:
    """Rank → when it waited; in a run that was cut off, from its last completion on until then."""
    table = run.table(RunTable.SAMPLES, ["rank", "post_ns", "done_ns"])
    rank, post, done = (to_ints(table[name]) for name in ("rank", "post_ns", "done_ns"))
    found = {}
    for one, rows in _groups(rank):
        begin, end = post[rows], done[rows]
        if cut_ns is not None:
            begin, end = np.append(begin, end.max()), np.append(end, max(cut_ns, int(end.max())))
        found[one] = _Waiting(begin, np.maximum(begin, end))
    return found


LEAST_SIDE = 5
"""Values on either side of a step: fewer could be a burst."""
LEAST_EXPLAINED = 0.5
"""Least part of the squared error that the step takes away. The best cut of 20 values of noise seldom takes 0.4."""


class Step(NamedTuple):
    """Values before `cut` have the mean `before`, those from it on `after`.

    Attributes:
        explained: squared error around the mean of all values that the two means take away.
    """

    cut: int
    before: float
    after: float
    explained: float

    @property
    def height(self) -> float:
        """How far apart both are."""
        return abs(self.after - self.before)


def find_step(values: npt.NDArray[np.floating[Any]]) -> Step | None:
    """The cut that leaves the smallest squared error of two constants.

    Returns:
        None: there are too few values, the two constants leave more than half of the squared error or more than a
            straight line does, which is a slow change, or a side has a further step of at least half the height, which
            is a pause or a stair.
    """
    if len(values) < 4 * LEAST_SIDE:
        return None
    step = _best_cut(values)
    if step is None or _of_line(values) >= step.explained:
        return None
    further = (_best_cut(side) for side in (values[: step.cut], values[step.cut :]))
    return None if any(one is not None and 2 * one.height >= step.height for one in further) else step


def _best_cut(values: npt.NDArray[np.floating[Any]]) -> Step | None:
    """The cut, if it takes away enough of the squared error."""
    count = len(values)
    if count < 2 * LEAST_SIDE:
        return None
    centred = values - values.mean()
    total = float(centred @ centred)
    cuts = np.arange(LEAST_SIDE, count - LEAST_SIDE + 1)
    explained = np.cumsum(centred)[cuts - 1] ** 2 * count / (cuts * (count - cuts))
    best = int(np.argmax(explained))
    if total <= 0 or explained[best] < LEAST_EXPLAINED * total:
        return None
    cut = int(cuts[best])
    return Step(cut, float(values[:cut].mean()), float(values[cut:].mean()), float(explained[best]))


def _of_line(values: npt.NDArray[np.floating[Any]]) -> float:
    """Squared error around the mean that the best straight line takes away."""
    at = np.arange(len(values)) - (len(values) - 1) / 2
    return float((at @ values) ** 2 / (at @ at))
