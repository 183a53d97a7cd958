"""When ranks compute and communicate: time lines, and how much of communication is covered by compute."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from emulator.annexes.trace_kit.page_facts import TracePageFacts
from emulator.trace.analysis.time_line import TimeLine
from emulator.trace.meaning.model import RankProgram, Resource
from emulator.units import format_duration
from emulator.views.columns.columns import Column
from emulator.views.columns.figures import percent_cell
from emulator.views.html.page.document import Bar, BarPart, Block, Chart, PageSection, Text, table_of
from emulator.views.html.page.pictures import Picture, Rows
from emulator.views.html.page.reduction import Interval, joined_intervals, spread_evenly, states

LANES = 48
"""Most ranks with a lane of their own."""
INTERVALS = 9_000
"""Approximate limit of bars in a chart."""
ROWS = 24
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


def lines(facts: TracePageFacts) -> PageSection:
    """The section about time."""
    if facts.line is None:
        text = f"A set of {facts.summary.nodes:,} nodes is too large for a time line."
        return PageSection("time", "Time line", [Text("no-line", text, "note")])
    ranks = spread_evenly([program.rank for program in facts.workload.recorded], LANES)
    usage = usage_of(facts.workload.recorded, facts.line)
    blocks: list[Block] = [_states_chart(facts, facts.line, ranks), _kinds_chart(facts, facts.line, ranks)]
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


def _states_chart(facts: TracePageFacts, line: TimeLine, ranks: Sequence[int]) -> Chart:
    bars = Rows()
    gap = _gap(facts, line, ranks)
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


def _kinds_chart(facts: TracePageFacts, line: TimeLine, ranks: Sequence[int]) -> Chart:
    bars = Rows()
    gap = _gap(facts, line, ranks)
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


def _gap(facts: TracePageFacts, line: TimeLine, ranks: Sequence[int]) -> float:
    """Gaps up to this are closed; 0: all are drawn."""
    nodes = sum(len(facts.workload.programs[rank]) for rank in ranks)
    return line.length_ns * len(ranks) / INTERVALS if nodes > INTERVALS else 0.0


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
