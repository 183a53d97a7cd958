"""The longest path through the trace: what a faster network, or a faster device, would shorten."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from emulator.errors import format_ranks
from emulator.trace.analysis.identity import Member, members
from emulator.trace.meaning.model import Resource, Workload
from emulator.units import format_duration
from emulator.views.columns.columns import Column
from emulator.views.columns.figures import count_of, percent_cell
from emulator.views.html.page.document import Bar, BarPart, Block, Chart, PageSection, Text, table_of
from emulator.views.html.page.pictures import Picture, Rows
from emulator.views.html.trace_facts import TracePageFacts

ROWS = 24
MOST_BARS = 2_000
_COMPUTE = {Resource.CPU: "compute, CPU", Resource.DEVICE: "compute, device"}


@dataclass(frozen=True, slots=True)
class Stretch:
    """A communication on the path, or consecutive compute nodes of one rank on it.

    Attributes:
        kind: of communication, or what computes.
        ranks: that take part, in words.
        lane: the rank in whose lane it is drawn.
    """

    start_ns: int
    end_ns: int
    kind: str
    name: str
    ranks: str
    lane: int
    nodes: int = 1

    @property
    def duration_ns(self) -> int:
        """Its length."""
        return self.end_ns - self.start_ns


_COLUMNS: tuple[Column[Stretch], ...] = (
    Column("starts at", "on the path", key="start_ns", show=format_duration),
    Column("takes", key="duration_ns", show=format_duration),
    Column("what", "kind of communication, or what computes", key="kind", is_number=False),
    Column("name", "of the communication; for compute, the number of nodes", key="name", is_number=False),
    Column("ranks", "that take part", key="ranks", is_number=False),
)


def critical_path(facts: TracePageFacts) -> PageSection:
    """The section about the longest path."""
    if not facts.path:
        return PageSection("path", "Critical path", [Text("no-path", "Nothing in this trace takes time.", "note")])
    stretches = list(_stretches(facts))
    blocks: list[Block] = [_shares(facts, stretches), _line(facts, stretches), _table(stretches)]
    about = (
        "The longest chain of nodes that wait for each other, over all ranks: no run can be faster, however many "
        f"nodes a rank runs at once. Compute takes its recorded time, {facts.communication_about}."
    )
    return PageSection("path", "Critical path", blocks, about)


def _stretches(facts: TracePageFacts) -> Iterator[Stretch]:
    of_instance = members(facts.workload)
    held: Stretch | None = None
    for step in facts.path:
        if step.instance >= 0:
            if held is not None:
                yield held
            held = None
            yield _communication(facts.workload, of_instance[step.instance], step.start_ns, step.end_ns)
            continue
        resource = Resource(int(facts.workload.programs[step.rank].resource[step.position]))
        kind = _COMPUTE[resource]
        if held is not None and (held.lane, held.kind, held.end_ns) == (step.rank, kind, step.start_ns):
            held = replace(held, end_ns=step.end_ns, nodes=held.nodes + 1, name=f"{held.nodes + 1:,} nodes")
            continue
        if held is not None:
            yield held
        held = Stretch(step.start_ns, step.end_ns, kind, "1 node", str(step.rank), step.rank)
    if held is not None:
        yield held


def _communication(workload: Workload, nodes: Sequence[Member], start_ns: int, end_ns: int) -> Stretch:
    rank, first = nodes[0].rank, nodes[0].node
    ranks = workload.groups[first.group].ranks if first.kind.is_collective else first.ends(rank)
    kind = first.kind.label if first.kind.is_collective else "send + recv"
    return Stretch(start_ns, end_ns, kind, first.name, format_ranks(ranks), rank)


def _shares(facts: TracePageFacts, stretches: Sequence[Stretch]) -> Bar:
    spent: dict[str, int] = defaultdict(int)
    for one in stretches:
        spent["compute" if one.kind in _COMPUTE.values() else "communication"] += one.duration_ns
    total = max(facts.path_ns, 1)
    styles = {"compute": "compute", "communication": "exposed"}
    return Bar(
        "path-shares",
        f"Critical path: {format_duration(facts.path_ns)}",
        f"{count_of(len(facts.path), 'node')} that take time.",
        [
            BarPart(
                name, f"{format_duration(spent[name])}, {percent_cell(spent[name] / total)}", spent[name] / total, style
            )
            for name, style in styles.items()
        ],
    )


def _line(facts: TracePageFacts, stretches: Sequence[Stretch]) -> Chart:
    drawn = sorted(stretches, key=lambda one: -one.duration_ns)[:MOST_BARS]
    bars = Rows()
    for one in sorted(drawn, key=lambda one: (one.lane, one.start_ns)):
        bars.add(rank=str(one.lane), kind=one.kind, begin_ns=one.start_ns, end_ns=one.end_ns)
    left = f" The {len(stretches) - len(drawn):,} shortest parts are not drawn." if len(stretches) > len(drawn) else ""
    return Chart(
        "path-line",
        "Where the path runs",
        f"Lanes of the ranks it passes; a communication is in the lane of its lowest rank.{left}",
        "One lane per rank on the path: what it does there, over time.",
        Picture("communication_line", {"bars": bars.columns}),
        is_wide=True,
    )


def _table(stretches: Sequence[Stretch]) -> Block:
    longest = sorted(stretches, key=lambda one: -one.duration_ns)[:ROWS]
    note = f"The {ROWS} longest of {len(stretches):,} parts." if len(stretches) > ROWS else ""
    return table_of("path-parts", "Longest parts of the path", _COLUMNS, longest, note, is_folded=True)
