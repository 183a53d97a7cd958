"""The worst flows and steps in the report."""

from pathlib import Path

import pytest

from emulator.control.observations import FlowCounters
from emulator.results.run_folder.reader import read_run
from emulator.results.run_folder.schema import RunTable
from emulator.results.run_folder.writer import RunWriter
from emulator.views.html.facts import PageFacts, read_facts
from emulator.views.html.page.document import Chart, PageSection, Table
from emulator.views.html.sections import worst as section_of
from emulator.views.html.sections.worst import recorded_steps, worst
from tests.support.report import block_of, drawn, records
from tests.support.runs import collective, columns, manifest
from tests.support.steps import Step, run, step


def flow_facts(folder: Path, events: dict[int, list[FlowCounters]]) -> PageFacts:
    """A run of two ranks in which the flow from 0 to 1 had trouble."""
    total = FlowCounters(0, 1, bytes=9, messages=1, packets=90, retransmits=5, timeouts=0, duplicates=1, qpn=17)
    with RunWriter(folder, manifest()) as writer:
        writer.add(RunTable.SAMPLES, columns(collective([0, 0], [100, 100])))
        writer.add_flows([total])
        for iteration, flows in events.items():
            writer.add_flow_events(iteration, flows)
    return read_facts(read_run(folder))


def test_events_are_listed_by_iteration_the_most_first(tmp_path: Path) -> None:
    quiet = FlowCounters(0, 1, retransmits=1, duplicates=1, qpn=17)
    (section,) = worst(flow_facts(tmp_path / "run", {-1: [quiet], 3: [FlowCounters(0, 1, retransmits=4, qpn=17)]}))
    shared = {"from rank": "0", "to rank": "1", "QP": "17"}
    assert records(block_of(section, "flow-events", Table)) == [
        {"iteration": "3", **shared, "retransmits": "4", "duplicates": "0"},
        {"iteration": "-1", **shared, "retransmits": "1", "duplicates": "1"},
    ]
    (flow,) = records(block_of(section, "worst-flows", Table))
    assert flow["iterations"] == "-1, 3"


def test_a_run_that_did_not_record_iterations_shows_no_such_column(tmp_path: Path) -> None:
    (section,) = worst(flow_facts(tmp_path / "run", {}))
    assert [one.identifier for one in section.blocks] == ["worst-flows"]
    (flow,) = records(block_of(section, "worst-flows", Table))
    assert "iterations" not in flow


USUAL: list[Step] = [step(rank, (rank + 1) % 4, 100, 150) for rank in range(3)]
IDEAL = {"ideal_post_ns": 0, "ideal_arrival_ns": 40}


def facts(folder: Path, steps: list[Step]) -> PageFacts:
    return read_facts(run(folder, steps))


def section(folder: Path, steps: list[Step]) -> PageSection:
    (found,) = recorded_steps(facts(folder, steps))
    return found


def lines(found: PageSection) -> list[tuple[str, str, str, int, int]]:
    names = ("part", "lane", "to_lane", "begin_ns", "end_ns")
    return [tuple(row[name] for name in names) for row in drawn(block_of(found, "space-time", Chart), "lines")]  # type: ignore[misc]


def test_a_run_without_steps_has_no_such_section(tmp_path: Path) -> None:
    with RunWriter(tmp_path / "run", manifest()) as writer:
        writer.add(RunTable.SAMPLES, columns(collective([0, 0], [9, 9])))
    assert list(recorded_steps(read_facts(writer.run()))) == []


def test_every_transfer_is_a_line_and_the_late_one_stands_out(tmp_path: Path) -> None:
    found = section(tmp_path / "run", [*USUAL, step(3, 0, 100, 900)])
    assert lines(found) == [
        ("payload", "rank 0", "rank 1", 0, 50),
        ("payload", "rank 1", "rank 2", 0, 50),
        ("payload", "rank 2", "rank 3", 0, 50),
        ("late", "rank 3", "rank 0", 0, 800),
    ]
    chart = block_of(found, "space-time", Chart)
    assert "There is no ideal for comparison" in chart.about
    assert chart.picture.choices == [("3/7", "all_reduce, 4 ranks, 1000 B, ring, between hosts, iteration 3: 900 ns")]
    (row,) = records(block_of(found, "worst-steps", Table))
    assert (row["from"], row["to"], row["iteration"], row["above median"]) == (
        "3 (h3:eth0)",
        "0 (h0:eth0)",
        "3",
        "750 ns",
    )


def test_the_ideal_stands_below(tmp_path: Path) -> None:
    found = section(tmp_path / "run", [one | IDEAL for one in USUAL])
    assert ("ideal payload", "ideal 0", "ideal 1", 0, 40) in lines(found)
    lanes = [row["lane"] for row in drawn(block_of(found, "space-time", Chart), "lanes")]
    assert lanes == [*(f"rank {n}" for n in range(4)), "", *(f"ideal {n}" for n in range(4))]


def test_waiting_for_a_receiver_and_for_an_acknowledgement_are_told_apart(tmp_path: Path) -> None:
    waits = step(3, 0, 100, 150, post_ns=120, acknowledged_ns=990)
    found = lines(section(tmp_path / "run", [*USUAL, waits]))
    assert found[3:] == [
        ("wait for the receiver", "rank 3", "rank 3", 0, 20),
        ("payload", "rank 3", "rank 0", 20, 50),
        ("wait for the ACK", "rank 0", "rank 3", 50, 890),
    ]


def test_what_never_arrived_is_no_line(tmp_path: Path) -> None:
    assert len(lines(section(tmp_path / "run", [*USUAL, step(3, 0, 100, None)]))) == 3


def test_a_large_collective_is_thinned_and_keeps_what_is_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(section_of, "LINES", 10)
    many = [step(0, 1, 100 + k, 150 + k, step=k) for k in range(40)]
    found = section(tmp_path / "run", [*many, step(2, 3, 105, 900, step=5)])
    assert len(lines(found)) in (10, 11)
    assert ("late", "rank 2", "rank 3", 5, 800) in lines(found)
    assert "At most 10 transfers" in block_of(found, "space-time", Chart).about
