"""Traffic between ranks in a report."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from emulator.control.observations import FlowCounters
from emulator.results.run_folder.manifest import RUNNING, TraceFacts
from emulator.results.run_folder.reader import read_run
from emulator.results.run_folder.schema import RunTable
from emulator.results.run_folder.writer import RunWriter
from emulator.views.columns.figures import NONE
from emulator.views.html.facts import PageFacts, read_facts
from emulator.views.html.page import pair_grid
from emulator.views.html.page.document import Chart, PageSection, Table, Text
from emulator.views.html.sections.traffic import beside, count_drops, device_counters, pairs_of, traffic
from tests.support.flow_results import write_flow_results
from tests.support.report import block_of, drawn, facts_of, identifiers, records
from tests.support.runs import collective, columns, manifest, ranks, write_run

FLOWS = (
    FlowCounters(0, 1, bytes=3000, messages=3, qpn=1, packets=5, retransmits=0, rtt_ns=40_000),
    FlowCounters(0, 1, bytes=1000, messages=1, qpn=2, packets=2, retransmits=4),
    FlowCounters(1, 0, bytes=500, messages=1, packets=1, retransmits=0),
)


def played(folder: Path, flows: tuple[FlowCounters, ...] = FLOWS, **fields: object) -> PageFacts:
    spent = {0: ranks((0, 100), (0, 100), communication=50)}
    return facts_of(folder, collective([0, 10], [100, 90]), spent, flows=flows, **fields)


def test_queue_pairs_of_a_pair_are_summed(tmp_path: Path) -> None:
    pairs = pairs_of(played(tmp_path / "run"))
    columns = (column.tolist() for column in (pairs.grid.src, pairs.grid.dst, pairs.grid.bytes))
    assert [*zip(*columns, strict=True)] == [(0, 1, 4000), (1, 0, 500)]
    assert pairs.goodput.tolist() == pytest.approx([4000 / 50e-9, 500 / 50e-9])


def test_without_communication_time_goodput_is_unknown(tmp_path: Path) -> None:
    facts = facts_of(tmp_path / "run", collective([0, 0], [9, 9]), {0: ranks((0, 10), (0, 10))}, flows=FLOWS)
    table = block_of(traffic(facts), "heat-goodput", Chart).table
    assert table is not None
    assert [row["goodput, GB/s"] for row in records(table)] == [NONE, NONE]


def placed(hosts: list[int], address: str = "198.18.{}.1") -> dict[str, object]:
    return {"host_index": hosts, "addresses": [address.format(rank) for rank in range(len(hosts))]}


def test_a_block_with_traffic_of_both_kinds_has_two_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_grid, "CELLS", 1)
    facts = played(tmp_path / "run", topology=placed([0, 1]), flows=(*FLOWS, FlowCounters(1, 1, bytes=7)))
    cells = drawn(block_of(traffic(facts), "heat-bytes", Chart), "cells")
    assert [(one["src"], one["where"], one["value"]) for one in cells] == [
        ("0-1", "between hosts", 4500),
        ("0-1", "in a host", 7),
    ]


def test_nothing_leaves_a_host_over_loopback_addresses(tmp_path: Path) -> None:
    chart = block_of(traffic(played(tmp_path / "run", topology=placed([0, 1], "127.0.0.{}"))), "heat-bytes", Chart)
    assert [part.value for part in chart.legend] == ["0 B, 0 %", "4.39 KiB, 100 %"]
    assert {one["where"] for one in drawn(chart, "cells")} == {"in a host"}


def test_a_cell_of_many_ranks_is_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_grid, "CELLS", 2)
    trace = TraceFacts(path="four", digest="00" * 32, ranks=4, nodes=4, communication_nodes=4)
    flows = (FlowCounters(0, 2, bytes=10), FlowCounters(1, 3, bytes=5), FlowCounters(3, 0, bytes=1))
    spent = {0: ranks(*[(0, 100)] * 4, communication=50)}
    facts = facts_of(tmp_path / "run", collective([0] * 4, [9] * 4), spent, flows=flows, trace=trace)
    chart = block_of(traffic(facts), "heat-bytes", Chart)
    cells = [(one["src"], one["dst"], one["value"]) for one in drawn(chart, "cells")]
    assert cells == [("0-1", "2-3", 15), ("2-3", "0-1", 1)]
    assert chart.about.endswith("A cell covers 2 by 2 ranks: sum.")
    goodput = block_of(traffic(facts), "heat-goodput", Chart)
    assert goodput.about.endswith("A cell covers 2 by 2 ranks: mean of the pairs.")
    assert drawn(goodput, "cells")[0]["value"] == pytest.approx((10 / 50e-9 + 5 / 50e-9) / 2)


def test_flows_with_events_come_first_and_unknown_counters_are_left_out(tmp_path: Path) -> None:
    table = block_of(traffic(played(tmp_path / "run")), "flows", Table)
    rows = records(table)
    assert [row["retransmissions"] for row in rows] == ["4", "0", "0"]
    assert [row["payload, bytes"] for row in rows] == ["1,000", "3,000", "500"]
    assert [row["RTT"] for row in rows] == [NONE, "40 µs", NONE]
    assert "CNPs" not in rows[0]
    assert table.about.startswith("3 of 3 flows, those with most events;")


def test_without_events_the_largest_flows_come_first(tmp_path: Path) -> None:
    calm = tuple(replace(one, retransmits=0) for one in FLOWS)
    table = block_of(traffic(played(tmp_path / "run", calm)), "flows", Table)
    assert [row["payload, bytes"] for row in records(table)] == ["3,000", "1,000", "500"]
    assert "those with most payload" in table.about


def test_without_flows_the_section_says_why(tmp_path: Path) -> None:
    facts = played(tmp_path / "run", ())
    aborted = "Flow counters were not recorded: the run was aborted."
    assert block_of(traffic(facts), "no-flows", Text).text == aborted
    running = replace(facts, manifest=replace(facts.manifest, status=RUNNING))
    assert block_of(traffic(running), "no-flows", Text).text == "Flow counters are available when the run ends."
    assert identifiers(traffic(facts)) == ["no-flows", "flow-completion"]


def test_completion_at_a_rank_runs_from_its_own_post_to_its_own_end(tmp_path: Path) -> None:
    chart = block_of(traffic(played(tmp_path / "run")), "flow-completion", Chart)
    assert [(one["time_ns"], one["share"]) for one in drawn(chart, "curve")] == [(80, 0.5), (100, 1.0)]
    assert chart.table is not None
    assert records(chart.table) == [
        {"kind": "all_reduce", "n": "2", "p50": "80 ns", "p90": NONE, "p99": NONE, "max": "100 ns"}
    ]


def test_warm_up_is_not_in_the_completion_times(tmp_path: Path) -> None:
    samples = [*collective([0, 0], [5, 5], iteration=-1)]
    facts = facts_of(tmp_path / "run", samples, {-1: ranks((0, 9), (0, 9))})
    assert "flow-completion" not in identifiers(traffic(facts))


def test_a_run_with_flows_has_a_section(tmp_path: Path) -> None:
    run = write_flow_results(tmp_path / "run")
    (section,) = beside(read_facts(run))
    assert section.title == "Flows alongside the job"
    plain = write_run(tmp_path / "plain", collective([0, 0], [9, 9]))
    assert list(beside(read_facts(read_run(plain.folder)))) == []


SECOND = 1_000_000_000


def facts(folder: Path, *readings: tuple[int, str, str, int]) -> PageFacts:
    """Of a run with readings (second, interface, counter, value) of a switch."""
    with RunWriter(folder, manifest()) as writer:
        writer.add(RunTable.SAMPLES, columns(collective([0, 0], [10, 10])))
        writer.add_iteration(0, ranks((0, 10), (0, 10)))
        names = ("time_ns", "interface", "counter", "value")
        rows: dict[str, list[Any]] = {name: [one[at] for one in readings] for at, name in enumerate(names)}
        if readings:
            rows["time_ns"] = [at * SECOND for at in rows["time_ns"]]
            writer.add(RunTable.COUNTERS, rows | {"device": ["leaf0"] * len(readings)})
    return read_facts(read_run(folder))


def test_without_readings_the_section_says_so(tmp_path: Path) -> None:
    (block,) = device_counters(facts(tmp_path / "run")).blocks
    assert isinstance(block, Text)
    assert "No device counters were recorded" in block.text
    assert count_drops(facts(tmp_path / "other").counters) is None


def test_drops_are_what_was_counted_between_the_first_and_the_last_reading(tmp_path: Path) -> None:
    found = facts(
        tmp_path / "run", (5, "p0", "qdisc_drops", 100), (7, "p0", "qdisc_drops", 103), (6, "p1", "rx_dropped", 9)
    )
    assert count_drops(found.counters) == {"qdisc_drops": 3, "rx_dropped": 0}


def test_cumulative_counters_are_drawn_as_increase_per_second_and_levels_as_they_are(tmp_path: Path) -> None:
    readings = [(9, "p0", "tx_bytes", 900), (5, "p0", "tx_bytes", 100), (7, "p0", "tx_bytes", 500)]
    levels = [(5, "p0", "qdisc_backlog_bytes", 3), (7, "p0", "qdisc_backlog_bytes", 1)]
    section = device_counters(facts(tmp_path / "run", *readings, *levels))
    points = _chart(section).picture.data["points"]
    drawn = list(zip(points["counter"], points["time_ns"], points["value"], strict=True))
    assert drawn == [
        ("qdisc_backlog_bytes", 0, 3),
        ("qdisc_backlog_bytes", 2 * SECOND, 1),
        ("tx_bytes", 2 * SECOND, 200),
        ("tx_bytes", 4 * SECOND, 200),
    ]
    table = next(one for one in section.blocks if isinstance(one, Table))
    assert [list(row) for row in table.rows] == [
        ["leaf0", "p0", "tx_bytes", "800", ""],
        ["leaf0", "p0", "qdisc_backlog_bytes", "", "3"],
    ]


def _chart(section: PageSection) -> Chart:
    return next(one for one in section.blocks if isinstance(one, Chart))
