import json

from emulator.views.html.page.document import render
from emulator.views.html.trace_page import facts_to_json, trace_page
from tests.support.traces import coll, node
from tests.support.viewed import viewed

MINE = [node(1, duration=5), coll(2, "all_reduce", 1 << 20, deps=[1]), node(3, duration=20, deps=[1])]
FACTS = viewed(MINE, MINE)


def test_the_page_says_what_the_trace_is() -> None:
    page = trace_page(FACTS)
    assert page.sentence == "2 communication nodes (2 all_reduce) in 1 process group. A run of it finishes: proven."
    assert [section.title for section in page.sections] == ["", "Time line", "Traffic", "Critical path", "Graph"]
    html = render(page)
    assert html.startswith("<!doctype html>")
    assert "25 µs" in html


def test_key_figures() -> None:
    (block,) = trace_page(FACTS).sections[0].blocks
    figures = {one.name: one.value for one in block.figures}
    assert figures == {
        "Critical path": "25 µs",
        "Payload": "2 MiB",
        "Time line": "25 µs",
        "Overlap": "100.0 %",
        "Compute, device": "25 µs",
        "Compute, CPU": "0 ns",
        "Operations": "1",
    }


def test_the_same_facts_as_json() -> None:
    found = json.loads(json.dumps(facts_to_json(FACTS)))
    assert found["ranks"] == 2
    assert (found["times"], found["time_line_ns"], found["critical_path_ns"]) == ("computed", 25_000, 25_000)
    assert found["usage"][1] == {"rank": 1, "compute_ns": 15_000, "both_ns": 10_000, "exposed_ns": 0, "idle_ns": 0}
    assert {(pair["src"], pair["dst"]) for pair in found["pairs"]} == {(0, 1), (1, 0)}
