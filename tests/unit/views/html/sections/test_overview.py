"""The top of a report."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from emulator.control.observations import FlowCounters
from emulator.control.parameter import Parameter
from emulator.results.run_folder.manifest import ABORTED, RUNNING, Scaling
from emulator.units import format_duration
from emulator.views.columns.figures import NONE
from emulator.views.html.facts import PageFacts
from emulator.views.html.page.document import Bar, Figures, KeyFigure, Text
from emulator.views.html.sections.overview import answer, checks, labels, overview, sentence, warnings
from tests.support.report import block_of, facts_of, identifiers
from tests.support.runs import collective, ranks
from tests.unit.views.terminal.test_verdict_table import rule, verdict

SPENT = {
    0: ranks((0, 200_000), (0, 210_000), compute=120_000, communication=150_000, overlap=90_000),
    1: ranks((0, 230_000), (0, 220_000), compute=120_000, communication=150_000, overlap=90_000),
}


def played(folder: Path, **fields: Any) -> PageFacts:
    samples = [
        row
        for number in range(2)
        for row in collective([0, 0], [100_000, 90_000], iteration=number, size_bytes=1 << 20, ideal_ns=40_000)
    ]
    return facts_of(folder, samples, SPENT, **fields)


def figures(facts: PageFacts, identifier: str) -> dict[str, KeyFigure]:
    return {one.name: one for one in block_of(overview(facts), identifier, Figures).figures}


def test_the_sentence_has_the_result_of_the_run(tmp_path: Path) -> None:
    facts = played(tmp_path / "run", parameters={"transport": Parameter("roce")}, roofline_ns=105_000)
    assert sentence(facts) == (
        "2 ranks played the trace with RoCEv2 over UDP. An iteration takes 210 µs at the median (210 µs to 230 µs over"
        " 2). 29 % of it is exposed communication, not overlapped by compute. With every collective at its ideal it"
        " would take 105 µs. Most communication time is spent in all_reduce, 2 ranks, 1 MiB: 100 µs at the median,"
        " 1 per iteration."
    )


def test_before_the_first_iteration_the_sentence_says_so(tmp_path: Path) -> None:
    facts = facts_of(tmp_path / "run", [], {})
    assert sentence(facts).endswith("No measured iteration has been completed by all ranks.")
    running = replace(facts, manifest=replace(facts.manifest, status=RUNNING))
    assert sentence(running).endswith("by all ranks yet.")


def test_labels_are_short_facts(tmp_path: Path) -> None:
    facts = played(
        tmp_path / "run",
        parameters={"transport": Parameter("zmq")},
        topology={"name": "leaf-spine"},
        dut={"name": "sw0", "firmware": "4.2"},
    )
    assert list(labels(facts)) == [
        "complete",
        "2 ranks",
        "2 iterations after 1 warm-up",
        "ZeroMQ over TCP",
        "topology leaf-spine",
        "DUT sw0 4.2",
        "2026-01-02 03:04:05",
    ]


def test_a_run_that_is_still_going_on_shows_how_far_it_is(tmp_path: Path) -> None:
    facts = played(tmp_path / "run", parameters={"iterations": Parameter(40)})
    counters = {**facts.summary.totals.counters, "retransmits": 7}
    summary = replace(facts.summary, totals=replace(facts.summary.totals, counters=counters))
    going_on = replace(facts, manifest=replace(facts.manifest, status=RUNNING), summary=summary)
    shown = list(labels(going_on))
    done, one = summary.trials.included, summary.iteration
    assert one is not None
    assert f"{done} of 40 iterations" in shown
    assert f"about {format_duration(one.jct_ns * (40 - done))} left" in shown
    assert any(label.startswith("retransmissions ") and label.endswith(" 7") for label in shown), shown
    assert not any(" of 40 " in label for label in labels(facts)), "it is over"


@pytest.mark.parametrize(("name", "shown"), [("roce", "RoCEv2 over UDP"), ("mine", "mine")])
def test_a_transport_has_its_usual_name(tmp_path: Path, name: str, shown: str) -> None:
    assert shown in list(labels(played(tmp_path / "run", parameters={"transport": Parameter(name)})))


FEW = " (U not stated: 2 iterations, and 8 are the fewest)"


def test_key_figures_state_how_they_were_obtained(tmp_path: Path) -> None:
    found = figures(played(tmp_path / "run", roofline_ns=105_000), "key-figures")
    assert (found["Iteration (JCT)"].value, found["Iteration (JCT)"].about) == (
        "210 µs",
        f"median{FEW} of n = 2, 210 µs to 230 µs, CV 6.4 %; ideal 105 µs",
    )
    about = f"median{FEW} of all_reduce, 2 ranks, 1 MiB, n = 2"
    assert (found["busbw"].value, found["busbw"].about) == ("10.5 GB/s", about)
    assert found["Ideal"].value == "40.0 %"
    assert all(figure.is_leading for figure in found.values())


def test_busbw_and_ideal_are_of_a_class_that_has_both(tmp_path: Path) -> None:
    samples = [
        *collective([0, 0], [900_000, 900_000], size_bytes=2 << 20),
        *collective([0, 0], [100_000, 100_000], instance=1, size_bytes=1 << 20, ideal_ns=40_000),
    ]
    found = figures(facts_of(tmp_path / "run", samples, SPENT), "key-figures")
    assert found["Ideal"].value == "40.0 %"
    assert "1 MiB" in found["busbw"].about


def test_figures_that_were_not_measured_say_what_they_need(tmp_path: Path) -> None:
    found = figures(facts_of(tmp_path / "run", [], {}), "key-figures")
    assert {name: (one.value, one.about) for name, one in found.items() if name != "Payload rate"} == {
        "Iteration (JCT)": (NONE, "no complete iteration"),
        "busbw": (NONE, "no class has a bandwidth"),
        "Ideal": (NONE, "needs ports with a known rate"),
    }


def test_the_breakdown_adds_up_to_the_median_iteration(tmp_path: Path) -> None:
    bar = block_of(overview(played(tmp_path / "run")), "iteration-shares", Bar)
    assert bar.about == "Time of rank 1, the last to finish the median iteration (210 µs)."
    assert [(part.name, part.value) for part in bar.parts] == [
        ("compute only", "30 µs, 14 %"),
        ("compute and communication at once", "90 µs, 43 %"),
        ("exposed communication", "60 µs, 29 %"),
        ("neither (waiting, CPU work)", "30 µs, 14 %"),
    ]
    assert sum(part.share for part in bar.parts) == pytest.approx(1)


def test_flow_counters_are_those_of_the_whole_run(tmp_path: Path) -> None:
    flows = [FlowCounters(0, 1, retransmits=3, naks=1), FlowCounters(1, 0, retransmits=1200, naks=0)]
    found = figures(played(tmp_path / "run", flows=flows), "loss-figures")
    assert (found["Retransmissions"].value, found["NAKs"].value, found["CNPs"].value) == ("1,203", "1", NONE)
    assert found["Drops"].about == "no device counters were recorded"


def test_without_flow_counters_the_section_says_when_they_come(tmp_path: Path) -> None:
    facts = played(tmp_path / "run")
    text = block_of(overview(facts), "no-flow-counters", Text).text
    assert text == "Flow counters are not provided by this transport. A dash means: not measured."
    running = replace(facts, manifest=replace(facts.manifest, status=RUNNING))
    assert "available when the run ends" in block_of(overview(running), "no-flow-counters", Text).text
    assert "no-flow-counters" not in identifiers(overview(played(tmp_path / "b", flows=[FlowCounters(0, 1, naks=0)])))


def test_warnings_are_what_no_reader_may_overlook(tmp_path: Path) -> None:
    facts = played(tmp_path / "run", scaling=Scaling(bytes=0.5))
    assert list(warnings(facts)) == [
        "Scaled: sizes × 0.5. The results are those of the scaled run, not of the original trace."  # noqa: RUF001
    ]
    aborted = replace(facts, manifest=replace(facts.manifest, status=ABORTED, reason="agent a0 lost"))
    assert next(warnings(aborted)) == "Aborted: agent a0 lost. The report covers what was measured until then."
    assert list(warnings(played(tmp_path / "plain"))) == []


def test_early_payload_is_a_warning(tmp_path: Path) -> None:
    facts = facts_of(tmp_path / "run", collective([0, 0], [9, 9], early=True), SPENT)
    assert list(warnings(facts)) == ["2 samples received payload before they had posted: no bandwidth for them."]


def test_the_report_shows_the_answer_in_the_tone_of_the_outcome(tmp_path: Path) -> None:
    found = answer(verdict(tmp_path, rule("jct", 10)))
    assert (found.word, found.tone) == ("FAIL", "bad")
    assert found.text.startswith("jct is 500 ns (at most 10)")
    assert answer(verdict(tmp_path / "good", rule("jct", 900))).tone == "good"
    assert answer(verdict(tmp_path / "open")).tone == "open"


def test_the_report_has_a_section_only_if_there_were_rules(tmp_path: Path) -> None:
    (section,) = checks(verdict(tmp_path, rule("jct", 10)))
    assert section.title == "Verdict"
    assert list(checks(verdict(tmp_path / "none"))) == []
