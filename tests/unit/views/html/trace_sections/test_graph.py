from dataclasses import replace

from emulator.views.columns.figures import NONE
from emulator.views.html.page.document import Drawing, Page, Table, Text, render
from emulator.views.html.trace_sections.graph import graph
from tests.support.report import block_of, records
from tests.support.traces import METADATA, coll, node
from tests.support.viewed import viewed

NODES = [
    node(10, duration=3, name="gemm <b>"),
    coll(20, "all_reduce", 64, name="layers.0.attention.query.all_reduce", deps=[10]),
    node(30, METADATA, deps=[10]),
    node(40, duration=2, cpu=True, deps=[20, 30], name="done"),
]


def test_dependencies_stand_above_what_waits_for_them() -> None:
    plan = block_of(graph(viewed(NODES)), "graph-window", Drawing).drawing
    assert [(box.style, box.name, box.below, box.is_centre) for box in plan.boxes] == [
        ("device", "gemm <b>", "device, 3 µs", True),
        ("network", "layers.0.….all_reduce", "all_reduce 64 B", False),
        ("free", NONE, "takes no time", False),
        ("cpu", "done", "CPU, 2 µs", False),
    ]
    height = [box.y for box in plan.boxes]
    assert height[0] < height[1] == height[2] < height[3]
    assert len(plan.arrows) == 4
    assert all(arrow.y1 < arrow.y2 for arrow in plan.arrows)
    assert all(0 < box.x < plan.width and 0 < box.y < plan.height for box in plan.boxes)
    assert len({(box.x, box.y) for box in plan.boxes}) == 4


def test_the_table_has_the_ids_of_the_trace() -> None:
    table = block_of(graph(viewed(NODES)), "graph-window", Drawing).table
    assert isinstance(table, Table)
    assert [(row["node"], row["waits for"]) for row in records(table)] == [
        ("10", ""),
        ("20", "10"),
        ("30", "10"),
        ("40", "20, 30"),
    ]


def test_the_drawing_is_svg_with_escaped_names() -> None:
    html = render(Page("t", "h", "s", [], [], [graph(viewed(NODES))]), with_library=False)
    assert html.count('marker-end="url(#arrow)"') == 4
    assert "gemm &lt;b&gt;" in html
    assert "gemm <b>" not in html


def test_without_a_window() -> None:
    text = block_of(graph(replace(viewed(NODES), window=None)), "no-graph", Text).text
    assert text.endswith("Option --graph RANK:NODE selects one.")
