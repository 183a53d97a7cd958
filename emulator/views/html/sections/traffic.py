"""Traffic between ranks, and with storage hosts: bytes, goodput, completion times and flow counters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from emulator.statistics.descriptive import Values, median, percentile
from emulator.statistics.flow_counters import media
from emulator.statistics.table_columns import to_ints
from emulator.statistics.worst_flows import endpoint_names
from emulator.trace.model import BoolArray, IntArray
from emulator.units import NS_PER_S, format_size
from emulator.views.columns import Header
from emulator.views.figures import NONE, duration_cell, rate_cell
from emulator.views.html.facts import RunFacts, Spans
from emulator.views.html.page.document import Block, Chart, Section, Table, Text
from emulator.views.html.page.pair_grid import PairGrid
from emulator.views.html.page.pictures import Picture, Rows
from emulator.views.html.page.reduction import distribution_curve

ROWS = 24
_COUNTED = (
    ("packets", "packets"),
    ("retransmits", "retransmits"),
    ("timeouts", "timeouts"),
    ("naks", "NAKs"),
    ("ecn_marks", "ECN marks"),
    ("cnps_received", "CNPs"),
    ("out_of_order", "out of order"),
)
_EVENTS = ("retransmits", "timeouts", "naks", "ecn_marks", "cnps_received", "out_of_order")


@dataclass(frozen=True, slots=True)
class Pairs:
    """Directed pairs with traffic, over the whole run, warm-up included.

    Attributes:
        src, dst: ranks and storage endpoints, shape (pairs,).
        bytes: payload.
        goodput: float64, payload / time in which the sender was communicating, bytes per second; NaN if unknown,
            as for storage hosts.
    """

    src: IntArray
    dst: IntArray
    bytes: IntArray
    goodput: npt.NDArray[np.float64]


def pairs_of(facts: RunFacts) -> Pairs:
    """The sum of all flows per pair."""
    src, dst, size = (to_ints(facts.flows[name]) for name in ("src", "dst", "bytes"))
    ends = len(endpoint_names(facts.manifest))
    keys, where = np.unique(src * ends + dst, return_inverse=True)
    total = np.bincount(where, weights=size, minlength=len(keys)).astype(np.int64)
    busy = np.bincount(facts.usage["rank"], weights=facts.usage["communication_ns"], minlength=ends)
    time_ns = busy[keys // ends]
    goodput = np.where(time_ns > 0, total * NS_PER_S / np.maximum(time_ns, 1), np.nan)
    return Pairs(keys // ends, keys % ends, total, goodput)


def traffic(facts: RunFacts) -> Section:
    """The section about traffic between ranks."""
    blocks: list[Block] = []
    if facts.flows.num_rows:
        pairs = pairs_of(facts)
        blocks += [_heat_of_bytes(facts, pairs), _heat_of_goodput(facts, pairs)]
    else:
        why = "are available when the run ends" if facts.is_running else "were not recorded: the run was aborted"
        blocks.append(Text("no-flows", f"Flow counters {why}.", "note"))
    counted = (facts.spans.iteration >= 0) & ~np.isin(facts.spans.iteration, sorted(facts.excluded))
    if np.any(counted):
        blocks.append(_completion(facts.spans, counted))
    if facts.flows.num_rows:
        blocks.append(_flows(facts))
    return Section("traffic", "Traffic between ranks", blocks)


def _heat_of_bytes(facts: RunFacts, pairs: Pairs) -> Chart:
    names = endpoint_names(facts.manifest)
    grid = PairGrid(names)
    cells = {at: total for at, (total, _) in grid.sums(pairs.src, pairs.dst, pairs.bytes).items()}
    largest = format_size(int(max(cells.values(), default=0)))
    return Chart(
        "heat-bytes",
        "Bytes from rank to rank",
        "Payload of the whole run, warm-up included, retransmissions not counted. "
        f"Colours range from 0 to {largest}; n = {len(pairs.src):,} pairs.{grid.about('sum')}",
        f"Heat map of payload bytes: a row per sender, a column per receiver; the largest value is {largest}.",
        Picture("heat_bytes", grid.data(cells)),
        _largest(pairs, pairs.bytes, names, "heat-bytes-table", "Bytes from rank to rank"),
    )


def _heat_of_goodput(facts: RunFacts, pairs: Pairs) -> Chart:
    names = endpoint_names(facts.manifest)
    grid = PairGrid(names)
    cells = {at: total / count for at, (total, count) in grid.sums(pairs.src, pairs.dst, pairs.goodput).items()}
    largest = rate_cell(max(cells.values(), default=0.0))
    return Chart(
        "heat-goodput",
        "Goodput from rank to rank",
        "Payload / time in which the sender was communicating, over the whole run. "
        f"Colours range from 0 to {largest} GB/s; n = {len(pairs.src):,} pairs.{grid.about('mean of the pairs')}",
        f"Heat map of goodput: a row per sender, a column per receiver; the largest value is {largest} GB/s.",
        Picture("heat_goodput", grid.data(cells)),
        _largest(pairs, np.nan_to_num(pairs.goodput), names, "heat-goodput-table", "Goodput from rank to rank"),
    )


def _largest(pairs: Pairs, values: Values, names: Sequence[str], identifier: str, title: str) -> Table:
    order = np.argsort(-values, kind="stable")[:ROWS]
    rows = [
        [names[pairs.src[at]], names[pairs.dst[at]], f"{pairs.bytes[at]:,}", rate_cell(_known(pairs.goodput[at]))]
        for at in order.tolist()
    ]
    columns = [Header("from rank"), Header("to rank"), Header("payload, bytes"), Header("goodput, GB/s")]
    about = "" if len(values) <= ROWS else f"The {ROWS} largest of {len(values):,}."
    return Table(identifier, title, columns, rows, about)


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


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


def _flows(facts: RunFacts) -> Table:
    """The flows with most events; without any event, those with most payload."""
    flows = facts.flows
    known = [(name, title) for name, title in _COUNTED if flows.num_rows > flows[name].null_count]
    events = np.zeros(flows.num_rows, np.int64)
    for name in _EVENTS:
        events += to_ints(flows[name], null=0)
    size = to_ints(flows["bytes"])
    order = np.lexsort((-size, -events))[:ROWS].tolist()
    columns = {name: to_ints(flows[name]) for name in ("src", "dst", "bytes", "messages", "rtt_ns")}
    columns |= {name: to_ints(flows[name]) for name, _ in known}
    names, rows, over = endpoint_names(facts.manifest), [], media(flows)
    for at in order:
        head = [
            names[columns["src"][at]],
            names[columns["dst"][at]],
            over[at],
            f"{size[at]:,}",
            f"{columns['messages'][at]:,}",
        ]
        counted = [_count(int(columns[name][at])) for name, _ in known]
        rtt = columns["rtt_ns"][at]
        rows.append([*head, *counted, duration_cell(float(rtt)) if rtt >= 0 else NONE])
    titles = ["from rank", "to rank", "over", "payload, bytes", "messages", *(title for _, title in known), "RTT"]
    first = "those with most events" if events.any() else "those with most payload"
    about = f"{len(order)} of {flows.num_rows:,} flows, {first}; whole run, warm-up included. All are in flows.parquet."
    return Table(
        "flows", "Flows", [Header(title, is_number=title != "over") for title in titles], rows, about, is_folded=True
    )


def _count(value: int) -> str:
    return NONE if value < 0 else f"{value:,}"
