"""Traffic between ranks, and with storage hosts: bytes, goodput, completion times and flow counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from emulator.results.statistics.events import marks
from emulator.results.statistics.method.descriptive import Values, median, percentile
from emulator.results.statistics.metrics import METRICS
from emulator.results.statistics.samples.measured_rows import to_ints
from emulator.results.statistics.traffic.dut_counters import (
    DROPS,
    CounterName,
    DeviceFrames,
    Readings,
    counter_series,
    describe_surplus,
    device_frames,
)
from emulator.results.statistics.traffic.flow_counters import media
from emulator.results.statistics.traffic.flow_figures import communication_times, goodput
from emulator.results.statistics.traffic.network_traffic import PathCounts, crosses_network, path_counts
from emulator.results.statistics.worst.worst_flows import endpoint_names
from emulator.trace.meaning.model import BoolArray
from emulator.units import NS_PER_S
from emulator.views.columns.columns import Header, texts
from emulator.views.columns.comparison_columns import BACKGROUND_COLUMNS, FLOW_RESULT_COLUMNS, describe_behind
from emulator.views.columns.figures import NONE, count_cell, duration_cell, rate_cell
from emulator.views.html.facts import PageFacts, Spans
from emulator.views.html.page.document import Block, Chart, PageSection, Table, Text, table_of
from emulator.views.html.page.pair_grid import PairGrid
from emulator.views.html.page.pictures import Picture, Rows
from emulator.views.html.page.reduction import distribution_curve, spread_evenly
from emulator.views.html.sections.events import bands

ROWS = 24
_EVENTS = [METRICS[name] for name in ("retransmissions", "timeouts", "naks", "ecn_marks", "cnps", "out_of_order")]


@dataclass(frozen=True, slots=True)
class PairsTable:
    """Directed pairs with traffic, over the whole run, warm-up included.

    Attributes:
        goodput: float64, payload / time in which the sender was communicating, bytes per second; NaN if unknown,
            as for storage hosts.
    """

    grid: PairGrid
    goodput: npt.NDArray[np.float64]


def pairs_of(facts: PageFacts) -> PairsTable:
    """The sum of all flows per pair."""
    src, dst, size = (to_ints(facts.flows[name]) for name in ("src", "dst", "bytes"))
    names = endpoint_names(facts.manifest)
    ends = len(names)
    keys, where = np.unique(src * ends + dst, return_inverse=True)
    total = np.bincount(where, weights=size, minlength=len(keys)).astype(np.int64)
    src, dst = keys // ends, keys % ends
    grid = PairGrid(names, src, dst, total, crosses_network(src, dst, facts.manifest))
    return PairsTable(grid, goodput(src, total, communication_times(facts.usage, ends=ends)))


def traffic(facts: PageFacts) -> PageSection:
    """The section about traffic between ranks."""
    blocks: list[Block] = []
    if facts.flows.num_rows:
        pairs = pairs_of(facts)
        blocks += [_heat_of_bytes(pairs), _heat_of_goodput(pairs)]
    else:
        why = "are available when the run ends" if facts.is_running else "were not recorded: the run was aborted"
        blocks.append(Text("no-flows", f"Flow counters {why}.", "note"))
    counted = (facts.spans.iteration >= 0) & ~np.isin(facts.spans.iteration, sorted(facts.excluded))
    if np.any(counted):
        blocks.append(_completion(facts.spans, counted))
    if facts.flows.num_rows:
        blocks.append(_flows(facts))
    if paths := path_counts(facts.manifest):
        blocks.append(_paths(paths))
    return PageSection("traffic", "Traffic between ranks", blocks)


def _heat_of_bytes(pairs: PairsTable) -> Chart:
    title = "Bytes from rank to rank"
    about = "Payload of the whole run, including warm-up, without retransmissions."
    table = _largest(pairs, pairs.grid.bytes, "heat-bytes-table", title)
    return pairs.grid.heat_map("heat-bytes", title, about, table)


def _heat_of_goodput(pairs: PairsTable) -> Chart:
    title = "Goodput from rank to rank"
    about = "Payload / time in which the sender was communicating, over the whole run."
    table = _largest(pairs, np.nan_to_num(pairs.goodput), "heat-goodput-table", title)
    return pairs.grid.heat_map("heat-goodput", title, about, table, means_of=pairs.goodput, text=_rate)


def _rate(value: float) -> str:
    return f"{rate_cell(value)} GB/s"


def _largest(pairs: PairsTable, values: Values, identifier: str, title: str) -> Table:
    grid, order = pairs.grid, np.argsort(-values, kind="stable")[:ROWS]
    where = [grid.where(at) for at in order.tolist()]
    cells = [
        [grid.ends[src] for src in grid.src[order].tolist()],
        [grid.ends[dst] for dst in grid.dst[order].tolist()],
        *([where] if any(where) else []),
        [f"{size:,}" for size in grid.bytes[order].tolist()],
        [rate_cell(None if np.isnan(goodput) else goodput) for goodput in pairs.goodput[order].tolist()],
    ]
    wheres = [Header("where", is_number=False)] if any(where) else []
    columns = [Header("from rank"), Header("to rank"), *wheres, Header("payload, bytes"), Header("goodput, GB/s")]
    about = "" if len(values) <= ROWS else f"The {ROWS} largest of {len(values):,}."
    return Table(identifier, title, columns, [*zip(*cells, strict=True)], about)


def _completion(spans: Spans, counted: BoolArray) -> Chart:
    """Time of a communication at each rank, from its own post to its own end."""
    curves, table = Rows(), []
    for code, kind in enumerate(spans.kinds):
        rows = counted & (spans.kind == code)
        taken = spans.done_ns[rows] - spans.post_ns[rows]
        if len(taken):
            curve = distribution_curve(taken)
            curves.extend(len(curve.value), **{"class": kind}, time_ns=curve.value, share=curve.share)
            quantiles = (median(taken), percentile(taken, 0.9), percentile(taken, 0.99), float(taken.max()))
            table.append([kind, f"{len(taken):,}", *map(duration_cell, quantiles)])
    columns = [Header("kind", is_number=False), *map(Header, ("n", "p50", "p90", "p99", "max"))]
    return Chart(
        "flow-completion",
        "Completion time at each rank",
        "Time from a rank's own post until it has received its last byte and its last send is acknowledged, including "
        f"the wait for other ranks; n = {int(np.count_nonzero(counted)):,}. Single messages are not timed. Values of "
        "0 ns lie off the logarithmic axis.",
        "Cumulative distribution of the durations of communications at each rank, one line per kind.",
        Picture("cct_cdf", {"curve": curves.columns}),
        Table("flow-completion-table", "Completion time at each rank", columns, table),
        is_wide=True,
    )


def _flows(facts: PageFacts) -> Table:
    """The flows with most events; without any event, those with most payload."""
    flows = facts.flows
    known = [one for one in (METRICS["packets"], *_EVENTS) if flows.num_rows > flows[one.field].null_count]
    events = np.sum([to_ints(flows[one.field], null=0) for one in _EVENTS], axis=0)
    size = to_ints(flows["bytes"])
    order = np.lexsort((-size, -events))[:ROWS].tolist()
    columns = {name: to_ints(flows[name]) for name in ("src", "dst", "bytes", "messages", "rtt_ns")}
    columns |= {one.field: to_ints(flows[one.field]) for one in known}
    names, rows, over = endpoint_names(facts.manifest), [], media(flows)
    for at in order:
        head = [names[columns["src"][at]], names[columns["dst"][at]], over[at]]
        head += [f"{size[at]:,}", f"{columns['messages'][at]:,}"]
        counted = [count_cell(None if columns[one.field][at] < 0 else int(columns[one.field][at])) for one in known]
        rtt = columns["rtt_ns"][at]
        rows.append([*head, *counted, duration_cell(float(rtt)) if rtt >= 0 else NONE])
    titles = ["from rank", "to rank", "over", "payload, bytes", "messages", *(one.title for one in known), "RTT"]
    first = "those with most events" if events.any() else "those with most payload"
    about = (
        f"{len(order)} of {flows.num_rows:,} flows, {first}; whole run, including warm-up. All are in flows.parquet."
    )
    return Table(
        "flows", "Flows", [Header(title, is_number=title != "over") for title in titles], rows, about, is_folded=True
    )


def _paths(paths: Sequence[PathCounts]) -> Table:
    """What happened on each path of sprayed flows."""
    names = [field.name for field in fields(PathCounts)]
    rows = [[f"{getattr(one, name):,}" for name in names] for one in paths]
    about = "Entropy values of sprayed flows, over all flows; whole run, including warm-up (docs/multipath.md)."
    return Table("paths", "Paths", [Header(name) for name in names], rows, about, is_folded=True)


_FLOWS = (
    "Traffic alongside the job, from the first iteration, including warm-up. The table shows what this end counted "
    "next to what the peer reports."
)
_BACKGROUND = (
    "Open-loop traffic alongside the job, from the first iteration, including warm-up. Rates are on the wire: payload, "
    "all headers, preambles and gaps. If a flow sent less than it offered, the sender was the limit if messages were "
    "late, else the network. None of its bytes count as the job's; counters of devices include them."
)


def beside(facts: PageFacts) -> Iterator[PageSection]:
    """A section for each kind that there was."""
    summary = facts.summary
    if summary.flow_results:
        title = "Flows alongside the job"
        table = table_of("flow-results", title, FLOW_RESULT_COLUMNS, summary.flow_results)
        yield PageSection("flows-beside", title, [table], _FLOWS)
    if summary.background:
        title, behind = "Background traffic", describe_behind(summary.background)
        table = table_of("background-flows", title, BACKGROUND_COLUMNS, summary.background, behind)
        yield PageSection("background", title, [table], _BACKGROUND)


LINES, POINTS = 8, 200
"""Most ports in one chart, those with the largest values, and points per port."""
COUNTER_ROWS = 200
_ABOUT = "As the devices report them. Cumulative counters are shown as increase per second."


def count_drops(counters: pa.Table) -> Mapping[str, int] | None:
    """Drop counter -> its increase over all devices; None if no device was observed."""
    if not counters.num_rows:
        return None
    drops: Counter[str] = Counter()
    for name, readings in counter_series(counters).items():
        if name.counter in DROPS:
            drops[name.counter] += readings.increase
    return drops


def device_counters(facts: PageFacts) -> PageSection:
    """The section about device counters."""
    title = "Device counters"
    if not facts.counters.num_rows:
        text = "No device counters were recorded in this run. A lab with a device under test provides them."
        return PageSection("counters", title, [Text("no-counters", text, "note")])
    series = counter_series(facts.counters)
    frames = device_frames(facts.counters, facts.manifest)
    blocks: list[Block] = [*([_frames(frames)] if frames else []), _over_time(series, facts), _totals(series)]
    return PageSection("counters", title, blocks, _ABOUT)


def _frames(frames: Sequence[DeviceFrames]) -> Table:
    rows = [[one.device, *map(count_cell, (one.frames_in, one.frames_out, one.lost)), _counted(one)] for one in frames]
    columns = [*texts("device"), *map(Header, ("frames in", "frames out", "lost")), *texts("where")]
    about = (
        "Lost is frames in - frames out, over all ports of the device. Not counted: not in any of its drop counters."
    )
    return Table("device-frames", "Frames through the device", columns, rows, about)


def _counted(one: DeviceFrames) -> str:
    parts = [f"{count:,} {DROPS[name]}" for name, count in one.dropped.items()]
    if one.unexplained:
        parts.append(f"{one.unexplained:,} not counted")
    if one.surplus:
        parts.append(describe_surplus(one.surplus))
    return ", ".join(parts) or NONE


def _over_time(series: Mapping[CounterName, Readings], facts: PageFacts) -> Chart:
    points = Rows()
    began, ended = (pick(int(one.time_ns[at]) for one in series.values()) for pick, at in ((min, 0), (max, -1)))
    events = bands(marks(facts.summary.events, facts.summary.migrations), began, ended)
    counters = _interesting(series)
    for counter in counters:
        ports = [name for name in series if name.counter == counter]
        ports.sort(key=lambda name: -int(series[name].value.max() if name.is_level else series[name].increase))
        for name in ports[:LINES]:
            _add_line(points, name, series[name], began)
    readings = max(len(one.time_ns) for one in series.values())
    return Chart(
        "counters-over-time",
        "Counters over time",
        f"Increase per second between two readings (for a backlog: its bytes), up to {readings} readings per port, "
        f"for the {LINES} ports with the largest values. Time since the first reading.",
        "A counter over time, one line per port.",
        Picture(
            "counters",
            {"points": points.columns, "events": events},
            "counter",
            [(name, name.replace("_", " ")) for name in counters],
        ),
        choice_title="Counter",
        is_wide=True,
    )


def _interesting(series: Mapping[CounterName, Readings]) -> list[str]:
    """Counters that changed, drops and marks first."""
    happened = {name.counter for name, one in series.items() if one.value.max() > one.value.min()}
    everything = sorted(happened or {name.counter for name in series})
    return sorted(everything, key=lambda counter: (counter.endswith(("_packets", "_bytes")), counter))


def _add_line(points: Rows, name: CounterName, one: Readings, began: int) -> None:
    kept = spread_evenly(range(len(one.time_ns)), POINTS)
    time_ns, value = one.time_ns[kept], one.value[kept].astype(np.float64)
    if not name.is_level:
        elapsed = np.maximum(np.diff(time_ns), 1)
        time_ns, value = time_ns[1:], np.diff(value) * NS_PER_S / elapsed
    for at, level in zip((time_ns - began).tolist(), value.tolist(), strict=True):
        port = f"{name.device}:{name.interface}"
        points.add(counter=name.counter, port=port, time_ns=at, value=round(level, 3))


def _totals(series: Mapping[CounterName, Readings]) -> Table:
    counted = [(name, one) for name, one in sorted(series.items()) if not name.is_level and one.increase]
    levels = [(name, one) for name, one in sorted(series.items()) if name.is_level and one.value.max()]
    rows = [[name.device, name.interface, name.counter, f"{one.increase:,}", ""] for name, one in counted]
    rows += [[name.device, name.interface, name.counter, "", f"{one.value.max():,}"] for name, one in levels]
    silent = len(series) - len(counted) - len(levels)
    about = f"Increase from the first to the last reading; for a level, the largest value. {silent} did not change."
    if len(rows) > COUNTER_ROWS:
        about += f" {len(rows) - COUNTER_ROWS} more rows are in counters.parquet."
    columns = [*texts("device", "interface", "counter"), Header("increase"), Header("largest")]
    return Table("counter-totals", "Totals of the counters", columns, rows[:COUNTER_ROWS], about, is_folded=True)
