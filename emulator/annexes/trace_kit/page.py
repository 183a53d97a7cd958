"""The page about a trace: what `charkha trace view` writes, and the same facts as JSON."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from emulator.annexes.trace_kit.page_graph import TracePageFacts, critical_path, graph
from emulator.annexes.trace_kit.time_line import TimeLine
from emulator.planner.traffic.operation import PairBytes
from emulator.trace.meaning.model import RankProgram, Resource, Workload
from emulator.units import format_duration, format_size
from emulator.views.as_json import trace_to_json
from emulator.views.columns.columns import Column, Header
from emulator.views.columns.figures import count_of, describe_warning, percent_cell
from emulator.views.html.page.document import (
    Bar,
    BarPart,
    Block,
    Chart,
    Figures,
    KeyFigure,
    Page,
    PageSection,
    Table,
    Text,
    table_of,
)
from emulator.views.html.page.pair_grid import PairGrid
from emulator.views.html.page.pictures import Picture, Rows
from emulator.views.html.page.reduction import Interval, joined_intervals, spread_evenly, states

LANES = 48
"""Most ranks with a lane of their own."""
INTERVALS = 9_000
"""Approximate limit of bars in a chart."""
_STATES = {1: "compute", 2: "exposed communication", 3: "both"}
_COMPUTE, _EXPOSED, _BOTH = 1, 2, 3


@dataclass(frozen=True, slots=True)
class RankUsage:
    """How a rank spends the time of the set: ns of each state; `idle_ns` is neither."""

    rank: int
    compute_ns: int
    both_ns: int
    exposed_ns: int
    idle_ns: int

    @property
    def communication_ns(self) -> int:
        """Time in which the rank communicates."""
        return self.both_ns + self.exposed_ns

    @property
    def covered(self) -> float | None:
        """Share of its communication during which it computes; None: it does not communicate."""
        return self.both_ns / self.communication_ns if self.communication_ns else None


_USAGE: tuple[Column[RankUsage], ...] = (
    Column("rank", key="rank"),
    Column("compute only", "CPU or device is busy, no communication", key="compute_ns", show=format_duration),
    Column("both", "compute and communication at once", key="both_ns", show=format_duration),
    Column(
        "exposed communication",
        "communication while neither CPU nor device is busy",
        key="exposed_ns",
        show=format_duration,
    ),
    Column("neither", "the rank waits, or is done", key="idle_ns", show=format_duration),
    Column("overlap", "both / all communication", key="covered", show=percent_cell),
)


def usage_of(programs: Sequence[RankProgram], line: TimeLine) -> list[RankUsage]:
    """How every rank spends the time of the set."""
    return [_usage(program, line) for program in programs]


def lines(facts: TracePageFacts, *, lanes: int = LANES, intervals: int = INTERVALS) -> PageSection:
    """The section about time: at most so many ranks, and about so many bars in a chart."""
    if facts.line is None:
        text = f"A set of {facts.summary.nodes:,} nodes is too large for a time line."
        return PageSection("time", "Time line", [Text("no-line", text, "note")])
    ranks = spread_evenly([program.rank for program in facts.workload.recorded], lanes)
    usage = usage_of(facts.workload.recorded, facts.line)
    nodes = sum(len(facts.workload.programs[rank]) for rank in ranks)
    gap = facts.line.length_ns * len(ranks) / intervals if nodes > intervals else 0.0  # gaps up to this are closed
    blocks: list[Block] = [_states_chart(facts, facts.line, ranks, gap), _kinds_chart(facts, facts.line, ranks, gap)]
    return PageSection("time", "Time line", [*blocks, *_overlap(usage)], about(facts.line, facts.communication_about))


def about(line: TimeLine, communication: str) -> str:
    """Where the times come from."""
    if line.is_recorded:
        return (
            "Times as recorded, by the clock of each rank. A recorded communication includes the wait for other "
            "ranks, and an operator includes those it calls."
        )
    return (
        "The trace has no start times, so they are computed as in a run: a node starts when its dependencies are "
        "done; CPU and device run one node at a time; collectives of a group run in order. Compute takes its "
        f"recorded time, {communication}."
    )


def _states_chart(facts: TracePageFacts, line: TimeLine, ranks: Sequence[int], gap: float) -> Chart:
    bars = Rows()
    for rank in ranks:
        program = facts.workload.programs[rank]
        busy = _intervals(line, rank, _is_compute(program), gap), _intervals(line, rank, _is_network(program), gap)
        for state, begin, end in states(*busy):
            bars.add(rank=str(rank), state=_STATES[state], begin_ns=begin, end_ns=end)
    return Chart(
        "time-line",
        "What ranks do",
        f"Compute, exposed communication, or both at once; blank: neither. {_shown(facts, ranks, gap)}",
        "One lane per rank: compute, exposed communication and both, over time.",
        Picture("time_line", {"bars": bars.columns}),
        is_wide=True,
    )


def _kinds_chart(facts: TracePageFacts, line: TimeLine, ranks: Sequence[int], gap: float) -> Chart:
    bars = Rows()
    for rank in ranks:
        program = facts.workload.programs[rank]
        kinds = {node.kind for node in program.communications.values()}
        for kind in sorted(kinds, reverse=True):  # receives first: they may wait below all others
            chosen = np.array([at for at, node in program.communications.items() if node.kind is kind], dtype=np.int64)
            for begin, end in _intervals(line, rank, chosen, gap):
                bars.add(rank=str(rank), kind=kind.label, begin_ns=begin, end_ns=end)
    if bars.columns:  # a bar without a length: the axis ends where that of the chart above ends
        last = {"begin_ns": line.length_ns, "end_ns": line.length_ns}
        bars.add(rank=bars.columns["rank"][0], kind=bars.columns["kind"][0], **last)
    return Chart(
        "communication-line",
        "Communication by kind",
        f"Each bar lasts from post to done; a receive may be posted long before its send. {_shown(facts, ranks, gap)}",
        "One lane per rank with a bar for every communication, coloured by kind.",
        Picture("communication_line", {"bars": bars.columns}),
        is_wide=True,
    )


def _shown(facts: TracePageFacts, ranks: Sequence[int], gap: float) -> str:
    if facts.workload.only is not None:
        return f"Rank {facts.workload.only}." + _undrawn(gap)
    total = len(facts.workload.programs)
    shown = f"All {total} ranks." if len(ranks) == total else f"{len(ranks)} of {total:,} ranks, spread evenly."
    return shown + _undrawn(gap)


def _undrawn(gap: float) -> str:
    return f" Gaps shorter than {format_duration(gap)} are not drawn." if gap else ""


def _overlap(usage: Sequence[RankUsage]) -> Iterator[Block]:
    compute, both, exposed, idle = (
        sum(getattr(one, f"{name}_ns") for one in usage) for name in ("compute", "both", "exposed", "idle")
    )
    total = compute + both + exposed + idle
    parts = [("compute only", compute, "compute"), ("both", both, "overlapped")]
    parts += [("exposed communication", exposed, "exposed"), ("neither", idle, "idle")]
    covered = f"{100 * both / (both + exposed):.0f} % of communication is covered." if both + exposed else ""
    yield Bar(
        "overlap",
        "Overlap of compute and communication",
        f"Mean over all {len(usage):,} ranks, as shares of the whole time. {covered}",
        [
            BarPart(name, percent_cell(value / max(total, 1)), value / max(total, 1), style)
            for name, value, style in parts
        ],
    )
    worst = sorted(usage, key=lambda one: (-one.exposed_ns, one.rank))[:ROWS]
    note = f"The {ROWS} of {len(usage):,} ranks with the most exposed communication." if len(usage) > ROWS else ""
    yield table_of("overlap-by-rank", "Overlap by rank", _USAGE, worst, note, is_folded=len(usage) > ROWS // 2)


def _usage(program: RankProgram, line: TimeLine) -> RankUsage:
    busy = [_intervals(line, program.rank, chosen, 0.0) for chosen in (_is_compute(program), _is_network(program))]
    spent = dict.fromkeys(_STATES, 0)
    for state, begin, end in states(*busy):
        spent[state] += end - begin
    idle = line.length_ns - sum(spent.values())
    return RankUsage(program.rank, spent[_COMPUTE], spent[_BOTH], spent[_EXPOSED], idle)


def _is_compute(program: RankProgram) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.flatnonzero((program.resource == Resource.CPU) | (program.resource == Resource.DEVICE))


def _is_network(program: RankProgram) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.flatnonzero(program.resource == Resource.NETWORK)


def _intervals(
    line: TimeLine, rank: int, positions: np.ndarray[tuple[int], np.dtype[np.int64]], gap: float
) -> list[Interval]:
    start, end = line.start_ns[rank][positions], line.end_ns[rank][positions]
    lasts = end > start
    return joined_intervals(start[lasts], end[lasts], gap=gap)


def trace_page(facts: TracePageFacts) -> Page:
    """The page of a trace set."""
    summary = facts.summary
    return Page(
        title=f"{facts.name} · trace · charkha",
        heading=facts.name,
        sentence=_sentence(facts),
        labels=[
            count_of(summary.ranks, "rank") if summary.only is None else f"rank {summary.only} of {summary.ranks:,}",
            count_of(summary.nodes, "node"),
            *summary.schemas,
        ],
        warnings=[describe_warning(name, count) for name, count in summary.warnings.items()],
        sections=[_overview(facts), lines(facts), traffic(facts), critical_path(facts), graph(facts)],
        footer="Written by charkha trace view from the trace. Nothing was measured: charkha run plays it.",
    )


def facts_to_json(facts: TracePageFacts) -> dict[str, Any]:
    """The facts of the page: the summary of `charkha trace check --json` with further keys."""
    usage = None if facts.line is None else [asdict(one) for one in usage_of(facts.workload.recorded, facts.line)]
    return trace_to_json(facts.summary) | {
        "times": None if facts.line is None else ("recorded" if facts.line.is_recorded else "computed"),
        "time_line_ns": None if facts.line is None else facts.line.length_ns,
        "usage": usage,
        "communication_times": facts.communication_about,
        "critical_path_ns": facts.path_ns,
        "critical_path_nodes": len(facts.path),
        "pairs": None if facts.pairs is None else list(_pairs(facts)),
    }


def _pairs(facts: TracePageFacts) -> Iterator[dict[str, int]]:
    assert facts.pairs is not None
    columns = (facts.pairs.src.tolist(), facts.pairs.dst.tolist(), facts.pairs.bytes.tolist())
    for src, dst, size in zip(*columns, strict=True):
        yield {"src": src, "dst": dst, "bytes": size}


def _sentence(facts: TracePageFacts) -> str:
    summary = facts.summary
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in summary.communication_nodes.items())
    nodes = sum(summary.communication_nodes.values())
    text = f"{count_of(nodes, 'communication node')} ({kinds})" if nodes else "No communication on the network"
    finish = summary.not_playable or "A run of it finishes: proven"
    return f"{text} in {count_of(len(summary.groups), 'process group')}. {finish}."


def _overview(facts: TracePageFacts) -> PageSection:
    summary = facts.summary
    payload = sum(one.payload_bytes_all_ranks for one in summary.operations)
    whose = "all ranks" if summary.only is None else f"the nodes of rank {summary.only}"
    figures = [
        KeyFigure("Critical path", format_duration(facts.path_ns), facts.communication_about, is_leading=True),
        KeyFigure("Payload", format_size(payload), f"comm_size over {whose}, one iteration"),
    ]
    if facts.line is not None:
        usage = usage_of(facts.workload.recorded, facts.line)
        both, talking = sum(one.both_ns for one in usage), sum(one.communication_ns for one in usage)
        how = "recorded" if facts.line.is_recorded else "computed"
        figures.append(KeyFigure("Time line", format_duration(facts.line.length_ns), f"{how}, first to last node"))
        covered = percent_cell(both / talking if talking else None)
        figures.append(KeyFigure("Overlap", covered, "of communication, during which the rank computes"))
    figures += [
        KeyFigure("Compute, device", format_duration(summary.device_ns.middle), "of a rank, median"),
        KeyFigure("Compute, CPU", format_duration(summary.cpu_ns.middle), "of a rank, median"),
        KeyFigure("Operations", f"{facts.workload.instances:,}", "collectives, and sends with their receives"),
    ]
    blocks: list[Block] = [Figures("figures", figures)]
    return PageSection("overview", "", blocks)


ROWS = 24


def traffic(facts: TracePageFacts) -> PageSection:
    """The section about traffic."""
    blocks: list[Block] = [_heat_map(facts, facts.pairs)] if facts.pairs is not None else [_no_map(facts)]
    if facts.workload.instances:
        blocks.append(_sizes(facts.workload))
    return PageSection("traffic", "Traffic", blocks)


def _no_map(facts: TracePageFacts) -> Text:
    text = f"{facts.summary.ranks:,} ranks exchange more than this page can add up: use `charkha plan`."
    return Text("no-matrix", text, "note")


def _heat_map(facts: TracePageFacts, pairs: PairBytes) -> Chart:
    grid = PairGrid([*map(str, range(facts.summary.ranks))], pairs.src, pairs.dst, pairs.bytes)
    about = "Payload of one iteration, by the algorithms that a run would choose."
    return grid.heat_map("matrix", "Bytes from rank to rank", about, _pairs_table(pairs))


def _pairs_table(pairs: PairBytes) -> Table:
    order = np.argsort(-pairs.bytes, kind="stable")[:ROWS].tolist()
    rows = [[str(pairs.src[at]), str(pairs.dst[at]), f"{pairs.bytes[at]:,}"] for at in order]
    columns = [Header("from rank"), Header("to rank"), Header("payload, bytes")]
    note = "" if len(pairs.src) <= ROWS else f"The {ROWS} largest of {len(pairs.src):,}."
    return Table("matrix-table", "Bytes from rank to rank", columns, rows, note)


def _sizes(workload: Workload) -> Chart:
    """Operations by kind and size, each counted once with its largest member; ranges are powers of two."""
    largest: dict[int, tuple[str, int]] = {}
    for program in workload.programs:
        for node in program.communications.values():
            kind = node.kind.label if node.kind.is_collective else "send + recv"
            known = largest.get(node.instance, (kind, 0))[1]
            largest[node.instance] = (kind, max(known, node.size_bytes))
    found: dict[tuple[int, str], list[int]] = defaultdict(list)
    for kind, size in largest.values():
        found[size.bit_length(), kind].append(size)
    bars, rows = Rows(), []
    for (bits, kind), sizes in sorted(found.items()):
        bars.add(range=_range(bits), kind=kind, count=len(sizes), payload_bytes=sum(sizes))
        rows.append([kind, _range(bits), f"{len(sizes):,}", format_size(sum(sizes))])
    columns = [Header("kind", is_number=False), Header("size"), Header("operations"), Header("sum of sizes")]
    return Chart(
        "sizes",
        "Sizes of operations",
        f"comm_size of one rank, each operation counted once; n = {workload.instances:,}. Ranges are powers of two.",
        "Stacked bars: number of operations by size, coloured by kind.",
        Picture("size_histogram", {"sizes": bars.columns}),
        Table("sizes-table", "Sizes of operations", columns, rows),
    )


def _range(bits: int) -> str:
    return "0" if not bits else f"≥ {format_size(1 << (bits - 1))}"
