"""What the report of a run says, held to what the run's table and JSON say."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from emulator.control.observations import ComputeSpans, FlowCounters
from emulator.results.run_folder.reader import read_run
from emulator.results.run_folder.writer import RunWriter
from emulator.results.statistics.summary import summarise
from emulator.views.as_json.summary import summary_to_json
from emulator.views.columns.class_columns import CLASS_COLUMNS
from emulator.views.columns.columns import filled
from emulator.views.columns.figures import NONE, duration_cell, rate_cell
from emulator.views.html.facts import PageFacts, read_facts
from emulator.views.html.page.document import Block, Chart, Facts, Figures, Page, Table, render
from emulator.views.html.run_page import facts_to_json, run_page
from emulator.views.html.sections.overview import sentence
from tests.data.make_run_v1 import FOLDER
from tests.support.runs import collective, columns, manifest, pair, ranks, write_run

EVIL = "<img src=x onerror=alert(1)>"


def golden() -> PageFacts:
    return read_facts(read_run(FOLDER))


def block(page: Page, identifier: str) -> Block:
    return next(one for section in page.sections for one in section.blocks if one.identifier == identifier)


def figures(page: Page) -> dict[str, str]:
    found = (block(page, name) for name in ("key-figures", "loss-figures"))
    return {figure.name: figure.value for one in found if isinstance(one, Figures) for figure in one.figures}


def test_the_classes_are_those_of_the_table_cell_by_cell() -> None:
    table = block(run_page(golden()), "classes")
    assert isinstance(table, Table)
    summary = summarise(read_run(FOLDER))
    shown = filled(CLASS_COLUMNS, summary.classes)
    expected = [[*(one.cell(row) for one in shown), str(row.samples)] for row in summary.classes]
    assert [list(row) for row in table.rows] == expected


def test_the_key_figures_are_those_of_the_summary() -> None:
    summary = summarise(read_run(FOLDER))
    assert summary.iteration
    found = figures(run_page(golden()))
    assert found["Iteration (JCT)"] == duration_cell(summary.iteration.jct_ns)
    assert found["Payload rate"] == f"{rate_cell(summary.totals.payload_bytes_per_s)} GB/s"
    assert found["busbw"] == f"{rate_cell(summary.classes[0].busbw_bytes_per_s)} GB/s"
    assert found["Retransmissions"] == str(summary.totals.counters["retransmits"])


def test_the_json_has_the_facts_of_the_run_and_more() -> None:
    facts = golden()
    document = json.loads(json.dumps(facts_to_json(facts), allow_nan=False))
    assert document.items() >= json.loads(json.dumps(summary_to_json(summarise(read_run(FOLDER))))).items()
    assert [one["p50_ns"] for one in document["distributions"]] == [one.cct_p50_ns for one in facts.summary.classes]
    assert [one["iteration"] for one in document["jct"]] == [-1, 0, 1, 2]
    assert document["reported_after"] == "draft-calabria-bmwg-ai-fabric-training-bench-04"


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


def test_the_time_line_says_when_nothing_hid_communication(tmp_path: Path) -> None:
    busy = ranks((100, 200), (100, 200), compute=30, communication=60, overlap=10)
    with RunWriter(tmp_path / "run", manifest()) as writer:
        writer.add_samples(columns(collective([120, 120], [180, 180])))
        writer.add_iteration(0, busy)
        writer.add_compute(ComputeSpans(0, np.array([0, 0]), np.array([110, 170]), np.array([130, 190])))
    chart = block(run_page(read_facts(read_run(tmp_path / "run"))), "time-line")
    assert isinstance(chart, Chart)
    bars = chart.picture.data["bars"]
    found = list(zip(bars["rank"], bars["state"], bars["begin_ns"], bars["end_ns"], strict=True))
    assert found == [
        ("0", "compute", 10, 20),
        ("0", "both", 20, 30),
        ("0", "exposed communication", 30, 70),
        ("0", "both", 70, 80),
        ("0", "compute", 80, 90),
        ("1", "exposed communication", 20, 80),
    ]


def test_when_devices_computed_is_not_guessed() -> None:
    page = run_page(golden())
    chart = block(page, "communication-line")
    assert isinstance(chart, Chart)
    assert "This run did not record when devices compute." in chart.about
    assert "time-line" not in page.pictures


def test_warm_up_and_excluded_iterations_are_shown_and_not_counted() -> None:
    page = run_page(golden())
    chart = block(page, "jct")
    assert isinstance(chart, Chart)
    assert chart.picture.data["bars"]["what"] == ["warm-up", "measured", "excluded", "measured"]
    trials = block(page, "trials")
    assert isinstance(trials, Facts)
    assert ("iteration 1", "a rank was late") in trials.facts
    assert dict(trials.facts)["included"] == "2"


def test_a_scaled_run_says_so_at_the_top() -> None:
    assert run_page(golden()).warnings[0].startswith("Scaled: sizes × 0.5")  # noqa: RUF001


def test_names_from_a_trace_are_text(tmp_path: Path) -> None:
    samples = [*collective([0, 0], [10, 10], name=EVIL, group=EVIL, algorithm=EVIL), *pair(0, 9, instance=1, name=EVIL)]
    facts = manifest(command_line=("charkha", EVIL), warnings={EVIL: 2}, topology={"name": EVIL}, dut={"name": EVIL})
    fields = {name: getattr(facts, name) for name in ("command_line", "warnings", "topology", "dut")}
    run = write_run(tmp_path / "run", samples, iterations={0: ranks((0, 10), (0, 10))}, **fields)
    html = render(run_page(read_facts(run)), with_library=False)
    assert "<img" not in html
    assert html.count("onerror") > 4


def test_what_was_not_measured_is_a_dash(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", collective([0, 0], [10, 10]), iterations={0: ranks((0, 10), (0, 10))})
    found = figures(run_page(read_facts(run)))
    lost = ("Ideal", "Retransmissions", "Timeouts", "ECN marks", "CNPs", "Drops")
    assert {name: found[name] for name in lost} == dict.fromkeys(lost, NONE)


def test_a_run_without_iterations_has_a_report(tmp_path: Path) -> None:
    facts = read_facts(write_run(tmp_path / "run", []))
    assert "No measured iteration has been completed" in sentence(facts)
    html = render(run_page(facts), with_library=False)
    assert "No collective was completed" in html


def test_an_aborted_run_says_so_at_the_top(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", collective([0, 0], [10, 10]))
    broken = replace(run, manifest=replace(run.manifest, status="aborted", reason="power cut"))
    assert run_page(read_facts(broken)).warnings[0].startswith("Aborted: power cut")


def test_heat_maps_sum_the_queue_pairs_of_a_pair(tmp_path: Path) -> None:
    flows = [FlowCounters(0, 1, bytes=30, qpn=1), FlowCounters(0, 1, bytes=12, qpn=2), FlowCounters(1, 0, bytes=8)]
    busy = ranks((0, 100), (0, 100), communication=20)
    run = write_run(tmp_path / "run", collective([0, 0], [10, 10]), iterations={0: busy}, flows=flows)
    facts = read_facts(run)
    assert [(one["src"], one["dst"], one["bytes"]) for one in facts_to_json(facts)["pairs"]] == [(0, 1, 42), (1, 0, 8)]
    assert facts_to_json(facts)["pairs"][0]["goodput_bytes_per_s"] == 42 / 20e-9
    chart = block(run_page(facts), "heat-bytes")
    assert isinstance(chart, Chart)
    cells = chart.picture.data["cells"]
    assert [cells[name] for name in ("src", "dst", "value")] == [["0", "1"], ["1", "0"], [42, 8]]
    assert cells["text"] == ["42 B", "8 B"]


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
