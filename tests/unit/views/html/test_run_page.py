"""What the report of a run says, held to what the run's table and JSON say."""

import io
import json
import re
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from emulator.results.run_folder.reader import read_run
from emulator.results.statistics.events import Migrations
from emulator.results.statistics.summary import summarise
from emulator.results.statistics.sweep import sweep_table
from emulator.trace.meaning.model import CommKind
from emulator.views.as_json import summary_to_json
from emulator.views.html.facts import PageFacts, read_facts
from emulator.views.html.page.document import Block, Chart, Page, Table, render
from emulator.views.html.run_page import facts_to_json, run_page
from emulator.views.html.sections.overview import sentence
from emulator.views.terminal.summary_table import render as render_summary
from tests.data.make_run_v1 import FOLDER
from tests.support.runs import collective, manifest, pair, ranks, write_run

EVIL = "<img src=x onerror=alert(1)>"


def golden() -> PageFacts:
    return read_facts(read_run(FOLDER))


def block(page: Page, identifier: str) -> Block:
    return next(one for section in page.sections for one in section.blocks if one.identifier == identifier)


def test_the_json_has_the_facts_of_the_run_and_more() -> None:
    facts = golden()
    document = json.loads(json.dumps(facts_to_json(facts), allow_nan=False))
    assert document.items() >= json.loads(json.dumps(summary_to_json(summarise(read_run(FOLDER))))).items()
    assert [one["p50_ns"] for one in document["distributions"]] == [one.cct_p50_ns for one in facts.summary.classes]
    assert [one["iteration"] for one in document["jct"]] == [-1, 0, 1, 2]
    assert document["reported_after"] == "draft-calabria-bmwg-ai-fabric-training-bench-04"


def test_traffic_that_moved_to_another_port_has_a_section() -> None:
    facts = golden()
    moved = (Migrations("h0:eth0", "migration to eth1", 3, 10**9, 2 * 10**9),)
    page = run_page(replace(facts, summary=replace(facts.summary, migrations=moved)))
    table = block(page, "migrations")
    assert isinstance(table, Table)
    assert "migration to eth1" in render(page)
    assert "migrations" not in [section.identifier for section in run_page(facts).sections]


def test_the_rank_bars_add_up_to_the_iteration() -> None:
    chart = block(run_page(golden()), "rank-usage")
    assert isinstance(chart, Chart)
    usage = chart.picture.data["usage"]
    jct = {str(one["iteration"]): one["jct_ns"] for one in facts_to_json(golden())["jct"]}
    spent: dict[tuple[object, object], int] = {}
    for iteration, rank, time_ns in zip(usage["iteration"], usage["rank"], usage["time_ns"], strict=True):
        assert isinstance(time_ns, int)
        spent[iteration, rank] = spent.get((iteration, rank), 0) + time_ns
    assert spent
    assert all(total == jct[str(iteration)] for (iteration, _), total in spent.items())


def test_names_from_a_trace_are_text(tmp_path: Path) -> None:
    samples = [*collective([0, 0], [10, 10], name=EVIL, group=EVIL, algorithm=EVIL), *pair(0, 9, instance=1, name=EVIL)]
    facts = manifest(command_line=("charkha", EVIL), warnings={EVIL: 2}, topology={"name": EVIL}, dut={"name": EVIL})
    fields = {name: getattr(facts, name) for name in ("command_line", "warnings", "topology", "dut")}
    run = write_run(tmp_path / "run", samples, iterations={0: ranks((0, 10), (0, 10))}, **fields)
    html = render(run_page(read_facts(run)), with_library=False)
    assert "<img" not in html
    assert html.count("onerror") > 4


def test_a_run_without_iterations_has_a_report(tmp_path: Path) -> None:
    facts = read_facts(write_run(tmp_path / "run", []))
    assert "No measured iteration has been completed" in sentence(facts)
    html = render(run_page(facts), with_library=False)
    assert "No collective was completed" in html


def test_an_aborted_run_says_so_at_the_top(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", collective([0, 0], [10, 10]))
    broken = replace(run, manifest=replace(run.manifest, status="aborted", reason="power cut"))
    assert run_page(read_facts(broken)).warnings[0].startswith("Aborted: power cut")


def test_counters_of_the_device_that_broke_off_are_told_everywhere(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", collective([0, 0], [10, 10]))
    problem = "counters of the device were not read to the end of the run: s1: the stream ended"
    run = replace(run, manifest=replace(run.manifest, dut={"counters": {"problems": ["s1: the stream ended"]}}))
    facts = read_facts(run)
    assert run_page(facts).warnings == [f"C{problem[1:]}."]
    assert facts_to_json(facts)["warnings"] == {problem: 1}
    assert sweep_table(run, kind=CommKind.ALL_REDUCE, ranks=2, sizes=[64]).warnings == {problem: 1}
    text = io.StringIO()
    Console(file=text, width=200).print(render_summary(facts.summary))
    assert problem in text.getvalue()


def test_every_picture_has_data_of_equal_length_and_a_description() -> None:
    page = run_page(golden())
    assert len(page.pictures) >= 7
    for section in page.sections:
        for one in section.blocks:
            if isinstance(one, Chart):
                assert one.description
                for columns in one.picture.data.values():
                    assert len({len(values) for values in columns.values()}) == 1


def test_anchors_are_unique() -> None:
    identifiers = re.findall(r' id="([^"]+)"', render(run_page(golden()), with_library=False))
    assert len(identifiers) == len(set(identifiers))
