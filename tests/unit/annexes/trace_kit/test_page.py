import json
from dataclasses import replace

from emulator.annexes.trace_kit.page import facts_to_json, traffic
from emulator.views.html.page.document import Chart, Text
from tests.support.report import block_of, drawn, identifiers, records
from tests.support.traces import coll, node, recv, send
from tests.support.viewed import viewed

MINE = [node(1, duration=5), coll(2, "all_reduce", 1 << 20, deps=[1]), node(3, duration=20, deps=[1])]
FACTS = viewed(MINE, MINE)


def test_the_same_facts_as_json() -> None:
    found = json.loads(json.dumps(facts_to_json(FACTS)))
    assert found["ranks"] == 2
    assert (found["times"], found["time_line_ns"], found["critical_path_ns"]) == ("computed", 25_000, 25_000)
    assert found["usage"][1] == {"rank": 1, "compute_ns": 15_000, "both_ns": 10_000, "exposed_ns": 0, "idle_ns": 0}
    assert {(pair["src"], pair["dst"]) for pair in found["pairs"]} == {(0, 1), (1, 0)}


FEW_RANKS = viewed(
    [send(1, 1, 1000), coll(2, "all_reduce", 1 << 20), coll(3, "all_reduce", (1 << 20) + 8), coll(4, "barrier", 0)],
    [recv(1, 0, 1000), coll(2, "all_reduce", 1 << 20), coll(3, "all_reduce", (1 << 20) + 8), coll(4, "barrier", 0)],
)


def test_bytes_from_rank_to_rank() -> None:
    chart = block_of(traffic(FEW_RANKS), "matrix", Chart)
    cells = {(cell["src"], cell["dst"]): cell["value"] for cell in drawn(chart, "cells")}
    assert cells["0", "1"] - cells["1", "0"] == 1000
    assert chart.table is not None
    assert records(chart.table)[0]["payload, bytes"] == f"{int(cells['0', '1']):,}"


def test_each_operation_is_counted_once_in_its_range() -> None:
    chart = block_of(traffic(FEW_RANKS), "sizes", Chart)
    found = [(bar["kind"], bar["range"], bar["count"], bar["payload_bytes"]) for bar in drawn(chart, "sizes")]
    assert found == [
        ("barrier", "0", 1, 0),
        ("send + recv", "≥ 512 B", 1, 1000),
        ("all_reduce", "≥ 1 MiB", 2, (2 << 20) + 8),
    ]
    assert "n = 4." in chart.about


def test_what_is_too_large_or_not_there_is_said() -> None:
    section = traffic(replace(FEW_RANKS, pairs=None))
    assert "use `charkha plan`" in block_of(section, "no-matrix", Text).text
    assert identifiers(traffic(viewed([node(1)]))) == ["matrix"]
