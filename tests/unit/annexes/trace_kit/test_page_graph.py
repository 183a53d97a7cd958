from dataclasses import replace

from emulator.annexes.trace_kit.page_graph import critical_path, graph
from emulator.views.columns.figures import NONE
from emulator.views.html.page.document import Bar, Chart, Drawing, Page, Table, Text, render
from tests.support.report import block_of, drawn, records
from tests.support.traces import METADATA, coll, node, recv, send
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


def test_the_path_is_told_in_stretches() -> None:
    section = critical_path(
        viewed(
            [node(1, duration=5), node(2, duration=6, deps=[1]), coll(3, "all_reduce", name="grads", deps=[2])],
            [node(1, duration=4), coll(3, "all_reduce", deps=[1]), node(4, duration=2, cpu=True, deps=[3])],
        )
    )
    rows = records(block_of(section, "path-parts", Table))
    assert [tuple(row.values()) for row in rows] == [
        ("0 ns", "11 µs", "compute, device", "2 nodes", "0"),
        ("11 µs", "10 µs", "all_reduce", "grads", "0-1"),
        ("21 µs", "2 µs", "compute, CPU", "1 node", "1"),
    ]
    bars = drawn(block_of(section, "path-line", Chart), "bars")
    assert [(bar["rank"], bar["kind"], bar["end_ns"] - bar["begin_ns"]) for bar in bars] == [
        ("0", "compute, device", 11_000),
        ("0", "all_reduce", 10_000),
        ("1", "compute, CPU", 2_000),
    ]
    shares = block_of(section, "path-shares", Bar)
    assert shares.title == "Critical path: 23 µs"
    assert [(part.name, part.value) for part in shares.parts] == [
        ("compute", "13 µs, 56.5 %"),
        ("communication", "10 µs, 43.5 %"),
    ]


def test_a_message_stands_for_both_its_nodes() -> None:
    section = critical_path(viewed([send(1, 1)], [recv(1, 0), node(2, duration=1, deps=[1])]))
    rows = records(block_of(section, "path-parts", Table))
    assert [(row["what"], row["ranks"]) for row in rows] == [("send + recv", "0-1"), ("compute, device", "1")]


def test_nothing_takes_time() -> None:
    assert block_of(critical_path(viewed([node(1)])), "no-path", Text).text == "Nothing in this trace takes time."
