"""A window of a rank's graph as a drawing: dependencies above what waits for them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from emulator.trace.meaning.model import RankProgram, Resource
from emulator.units import format_duration, format_size
from emulator.views.columns.columns import Header, texts
from emulator.views.columns.figures import count_of
from emulator.views.html.page.document import Drawing, PageSection, Table, Text
from emulator.views.html.trace_facts import TracePageFacts, WindowFacts

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
