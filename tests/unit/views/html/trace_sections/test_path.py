from emulator.views.html.page.document import Bar, Chart, Table, Text
from emulator.views.html.trace_sections.path import critical_path
from tests.support.report import block_of, drawn, records
from tests.support.traces import coll, node, recv, send
from tests.support.viewed import viewed


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
