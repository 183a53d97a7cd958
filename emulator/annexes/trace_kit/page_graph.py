"""Everything that the page about a trace shows, gathered once, and its graph: a window of a rank's as a drawing, and
the longest path through it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from emulator.annexes.trace_kit.difference import Member, members
from emulator.annexes.trace_kit.time_line import TimeLine
from emulator.errors import TraceError, format_ranks
from emulator.planner.traffic.operation import PairBytes
from emulator.trace.analysis.critical_path import PathStep
from emulator.trace.analysis.summary import Summary
from emulator.trace.meaning.model import IntArray, RankProgram, RankTrace, Resource, Workload
from emulator.units import format_duration, format_size
from emulator.views.columns.columns import Column, Header, texts
from emulator.views.columns.figures import count_of, percent_cell
from emulator.views.html.page.document import Bar, BarPart, Block, Chart, Drawing, PageSection, Table, Text, table_of
from emulator.views.html.page.pictures import Picture, Rows


@dataclass(frozen=True, slots=True)
class WindowFacts:
    """A window of a rank's graph; `names` and `ids` are those of the rank's nodes, by position."""

    rank: int
    window: GraphWindow
    names: Sequence[str]
    ids: IntArray
    depth: int


@dataclass(frozen=True, slots=True)
class TracePageFacts:
    """A trace set and what follows from it.

    Attributes:
        name: of the trace, as the user named it.
        line: when nodes run; None: there are too many nodes for that.
        pairs: bytes between ranks; None: there are too many transfers for that.
        communication_about: where the durations of communications on the path, and on a computed time line, come from.
        window: part of a graph; None: the trace has no communication, or no node was chosen.
    """

    name: str
    workload: Workload
    summary: Summary
    line: TimeLine | None
    pairs: PairBytes | None
    path: Sequence[PathStep]
    path_ns: int
    communication_about: str
    window: WindowFacts | None


WIDTH, HEIGHT, GAP, ROW = 168, 46, 18, 92
SWEEPS = 4
"""Passes that move each node towards the middle of its neighbours."""
_STYLES = {Resource.CPU: "cpu", Resource.DEVICE: "device", Resource.NETWORK: "network", Resource.NONE: "free"}
_LONGEST, _HEAD = 21, 9
"""Characters of a name in its box; of a longer one those at its beginning, the rest at its end."""


@dataclass(frozen=True, slots=True)
class GraphNodeBox:
    """A node: its centre, style, two lines of text and a tooltip."""

    x: float
    y: float
    style: str
    name: str
    below: str
    about: str
    is_centre: bool


@dataclass(frozen=True, slots=True)
class Arrow:
    """A dependency, from the lower edge of a box to the upper edge of another."""

    x1: float
    y1: float
    x2: float
    y2: float


@dataclass(frozen=True, slots=True)
class GraphDrawing:
    """A drawing and its size, in units of the SVG."""

    width: float
    height: float
    boxes: Sequence[GraphNodeBox]
    arrows: Sequence[Arrow]
    box_width: int = WIDTH
    box_height: int = HEIGHT


def graph(facts: TracePageFacts) -> PageSection:
    """The section with a window of the graph."""
    shown = facts.window
    if shown is None:
        text = "No node has a window here: the trace has no communication. Option --graph RANK:NODE selects one."
        return PageSection("graph", "Graph", [Text("no-graph", text, "note")])
    program = facts.workload.programs[shown.rank]
    plan = _plan(shown, program)
    nodes = len(shown.window.layer)
    left = (
        f" {count_of(shown.window.left_out, 'more node')} within that depth did not fit."
        if shown.window.left_out
        else ""
    )
    centre = int(shown.ids[shown.window.centre])
    drawing = Drawing(
        "graph-window",
        f"Rank {shown.rank}, around node {centre}",
        f"{nodes:,} of {len(program):,} nodes of the rank: those at most {shown.depth} dependencies away.{left} "
        "The nodes a node waits for are above it. Options --graph RANK:NODE and --depth N show a different part.",
        f"Graph of {count_of(nodes, 'node')} around node {centre} of rank {shown.rank}.",
        "graph.svg",
        plan,
        _table(shown, program),
    )
    return PageSection("graph", "Graph", [drawing])


def _plan(shown: WindowFacts, program: RankProgram) -> GraphDrawing:
    rows = _rows(shown)
    widest = max(map(len, rows))
    width = max(2, widest) * (WIDTH + GAP)
    place: dict[int, tuple[float, float]] = {}
    for number, row in enumerate(rows):
        left = (width - len(row) * (WIDTH + GAP)) / 2
        for at, position in enumerate(row):
            place[position] = (round(left + (at + 0.5) * (WIDTH + GAP), 1), number * ROW + HEIGHT / 2 + 4)
    boxes = [_box(shown, program, position, place[position]) for position in sorted(place)]
    arrows = [
        Arrow(place[needed][0], place[needed][1] + HEIGHT / 2, place[position][0], place[position][1] - HEIGHT / 2 - 5)
        for needed, position in shown.window.edges
    ]
    return GraphDrawing(width, (len(rows) - 1) * ROW + HEIGHT + 8, boxes, arrows)


def _rows(shown: WindowFacts) -> list[list[int]]:
    """Positions by layer, each row in an order that keeps arrows short."""
    by_layer: dict[int, list[int]] = defaultdict(list)
    for position, layer in shown.window.layer.items():
        by_layer[layer].append(position)
    rows = [by_layer[layer] for layer in sorted(by_layer)]
    beside: dict[int, list[int]] = defaultdict(list)
    for needed, position in shown.window.edges:
        beside[needed].append(position)
        beside[position].append(needed)
    for _ in range(SWEEPS):
        at = {position: (number + 0.5) / len(row) for row in rows for number, position in enumerate(row)}
        for row in rows:
            row.sort(key=lambda position: _middle(position, beside, at))
    return rows


def _middle(position: int, beside: Mapping[int, Sequence[int]], at: Mapping[int, float]) -> float:
    near = [at[other] for other in beside.get(position, ())]
    return sum(near) / len(near) if near else at[position]


def _box(shown: WindowFacts, program: RankProgram, position: int, place: tuple[float, float]) -> GraphNodeBox:
    name, resource = shown.names[position], Resource(int(program.resource[position]))
    short = name if len(name) <= _LONGEST else f"{name[:_HEAD]}…{name[_HEAD + 1 - _LONGEST :]}"
    facts = _facts(program, position)
    about = f"node {int(shown.ids[position])}: {name}, {facts}"
    return GraphNodeBox(*place, _STYLES[resource], short or "–", facts, about, position == shown.window.centre)  # noqa: RUF001


def _facts(program: RankProgram, position: int) -> str:
    node = program.communications.get(position)
    if node is not None:
        return f"{node.kind.label} {format_size(node.size_bytes)}"
    resource = Resource(int(program.resource[position]))
    if resource is Resource.NONE:
        return "takes no time"
    what = "CPU" if resource is Resource.CPU else "device"
    return f"{what}, {format_duration(int(program.duration_ns[position]))}"


def _table(shown: WindowFacts, program: RankProgram) -> Table:
    needs: dict[int, list[str]] = defaultdict(list)
    for needed, position in shown.window.edges:
        needs[position].append(str(int(shown.ids[needed])))
    rows = [
        [str(int(shown.ids[position])), shown.names[position], _facts(program, position), ", ".join(needs[position])]
        for position in sorted(shown.window.layer)
    ]
    columns = [Header("node"), *texts("name", "what", "waits for")]
    return Table("graph-table", "Nodes of the window", columns, rows)


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
    blocks: list[Block] = [_shares(facts, stretches), _line(facts, stretches), _path_table(stretches)]
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


def _path_table(stretches: Sequence[Stretch]) -> Block:
    longest = sorted(stretches, key=lambda one: -one.duration_ns)[:ROWS]
    note = f"The {ROWS} longest of {len(stretches):,} parts." if len(stretches) > ROWS else ""
    return table_of("path-parts", "Longest parts of the path", _COLUMNS, longest, note, is_folded=True)


MOST_NODES = 48
"""More would not be readable; those nearest to the centre are kept."""


@dataclass(frozen=True, slots=True)
class GraphWindow:
    """Nodes near a centre.

    Attributes:
        centre: position of the node in canonical order.
        layer: position → its layer: dependencies have smaller ones.
        edges: (dependency, dependent), positions, both in the window.
        left_out: nodes within the depth for which there was no room.
    """

    centre: int
    layer: Mapping[int, int]
    edges: Sequence[tuple[int, int]]
    left_out: int


def position_of(program: RankProgram, trace: RankTrace, node_id: int) -> int:
    """The position of a node by its id.

    Raises:
        TraceError: the rank has no such node.
    """
    found = np.flatnonzero(trace.node_id[program.order] == np.uint64(node_id))
    if not len(found):
        raise TraceError(f"has no node {node_id}", path=trace.path, rank=trace.rank)
    return int(found[0])


def graph_window(program: RankProgram, centre: int, *, depth: int, most: int = MOST_NODES) -> GraphWindow:
    """At most so many nodes at most `depth` dependencies before or after a position, the nearest ones first."""
    before = [needed.tolist() for needed in np.split(program.dep_position, program.dep_offset[1:-1])]
    after: list[list[int]] = [[] for _ in before]
    for position, needed in enumerate(before):
        for other in needed:
            after[other].append(position)
    kept, left_out = {centre}, 0
    up, down = [centre], [centre]
    for _ in range(depth):
        up, lost_up = _next_ring(up, before, kept, most)
        down, lost_down = _next_ring(down, after, kept, most)
        left_out += lost_up + lost_down
    edges = [(other, position) for position in sorted(kept) for other in before[position] if other in kept]
    return GraphWindow(centre, _layers(sorted(kept), edges), edges, left_out)


def _next_ring(
    ring: Sequence[int], beside: Sequence[Sequence[int]], kept: set[int], most: int
) -> tuple[list[int], int]:
    """What lies beside a ring and was not kept yet; how many of it there was no room for."""
    found = dict.fromkeys(other for position in ring for other in beside[position] if other not in kept)
    added = list(found)[: most - len(kept)]
    kept.update(added)
    return added, len(found) - len(added)


def _layers(positions: Sequence[int], edges: Sequence[tuple[int, int]]) -> dict[int, int]:
    """Each node one layer below the lowest of its dependencies; those without stand just above what needs them."""
    layer = dict.fromkeys(positions, 0)
    for needed, position in edges:  # ascending: dependencies have smaller positions
        layer[position] = max(layer[position], layer[needed] + 1)
    has_needs = {position for _, position in edges}
    for position in reversed(positions):
        followers = [layer[after] for needed, after in edges if needed == position]
        if position not in has_needs and followers:
            layer[position] = min(followers) - 1
    return layer
