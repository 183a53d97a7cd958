"""The worst flows in the report, and in which iterations they had events."""

from __future__ import annotations

from pathlib import Path

from emulator.control.observations import FlowCounters
from emulator.results.run_folder.reader import read_run
from emulator.results.run_folder.writer import RunWriter
from emulator.views.html.facts import RunFacts, read_facts
from emulator.views.html.page.document import Table
from emulator.views.html.sections.worst_flows import worst
from tests.support.report import block_of, records
from tests.support.runs import collective, columns, manifest


def facts(folder: Path, events: dict[int, list[FlowCounters]]) -> RunFacts:
    """A run of two ranks in which the flow from 0 to 1 had trouble."""
    total = FlowCounters(0, 1, bytes=9, messages=1, packets=90, retransmits=5, timeouts=0, duplicates=1, qpn=17)
    with RunWriter(folder, manifest()) as writer:
        writer.add_samples(columns(collective([0, 0], [100, 100])))
        writer.add_flows([total])
        for iteration, flows in events.items():
            writer.add_flow_events(iteration, flows)
    return read_facts(read_run(folder))


def test_events_are_listed_by_iteration_the_most_first(tmp_path: Path) -> None:
    quiet = FlowCounters(0, 1, retransmits=1, duplicates=1, qpn=17)
    (section,) = worst(facts(tmp_path / "run", {-1: [quiet], 3: [FlowCounters(0, 1, retransmits=4, qpn=17)]}))
    shared = {"from rank": "0", "to rank": "1", "QP": "17"}
    assert records(block_of(section, "flow-events", Table)) == [
        {"iteration": "3", **shared, "retransmits": "4", "duplicates": "0"},
        {"iteration": "-1", **shared, "retransmits": "1", "duplicates": "1"},
    ]
    (flow,) = records(block_of(section, "worst-flows", Table))
    assert flow["iterations"] == "-1, 3"


def test_a_run_that_did_not_record_iterations_shows_no_such_column(tmp_path: Path) -> None:
    (section,) = worst(facts(tmp_path / "run", {}))
    assert [one.identifier for one in section.blocks] == ["worst-flows"]
    (flow,) = records(block_of(section, "worst-flows", Table))
    assert "iterations" not in flow
