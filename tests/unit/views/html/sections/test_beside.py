"""The section of flows alongside the job: there if there were any."""

from __future__ import annotations

from pathlib import Path

from emulator.results.run_folder.reader import read_run
from emulator.views.html.facts import read_facts
from emulator.views.html.sections.beside import beside
from tests.support.flow_results import write_flow_results
from tests.support.runs import collective, write_run


def test_a_run_with_flows_has_a_section(tmp_path: Path) -> None:
    run = write_flow_results(tmp_path / "run")
    (section,) = beside(read_facts(run))
    assert section.title == "Flows alongside the job"
    plain = write_run(tmp_path / "plain", collective([0, 0], [9, 9]))
    assert list(beside(read_facts(read_run(plain.folder)))) == []
