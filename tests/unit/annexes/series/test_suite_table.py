from __future__ import annotations

from pathlib import Path

import pytest

from emulator.annexes.series.suite_command import render_results
from emulator.annexes.series.suite_document import Suite, read_suite
from emulator.annexes.series.suite_record import CaseRecord, SuiteRecord
from emulator.annexes.series.suite_runner import play_suites
from emulator.annexes.series.suite_table import (
    RESULTS,
    Records,
    deciding_cell,
    results_to_json,
)
from emulator.cli.output import print_tables
from emulator.errors import InputError, ResultError
from emulator.experiment.play.outcome import stored_result
from emulator.experiment.spec.spec import Experiment
from emulator.results.verdict.judge import Outcome
from emulator.views.terminal.table import FittedTable
from tests.support.terminal import rows_of, shown
from tests.unit.annexes.series.test_suite_runner import HEAD, Player


def case(name: str, outcome: Outcome, metric: str, value: float | None, unit: str) -> CaseRecord:
    text = f"{metric} is {value}"
    return CaseRecord(name=name, outcome=outcome, text=text, metric=metric, value=value, unit=unit, runs=())


RECORD = SuiteRecord(
    suite="three",
    digest="0",
    started="2026-01-02T03:04:05+00:00",
    planned=3,
    cases=(
        case("first", Outcome.PASS, "busbw_to_ideal", 97.3, "%"),
        case("second", Outcome.FAIL, "frames_lost", 15, "{count}"),
    ),
)


def test_the_outcome_is_the_last_column_to_go() -> None:
    text = shown(
        FittedTable(RESULTS, [case("a_case_with_a_long_name", Outcome.FAIL, "frames_lost", 15, "{count}")]), width=24
    )
    assert rows_of(text)[0] == ["FAIL"]


def test_the_answer_is_the_first_line_and_every_case_has_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    print_tables(*render_results({"": RECORD}, Path("suites/x")))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("FAIL: second: frames_lost is 15; 1 of 3 cases is FAIL; three")
    assert [line.split()[:5] for line in lines if line.startswith(("first", "second"))] == [
        ["first", "PASS", "busbw_to_ideal", "97.3", "%"],
        ["second", "FAIL", "frames_lost", "15", "frames_lost"],
    ]
    assert lines[-1] == "Folder of the suite: suites/x"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (25e6, "ns", "25 ms"),
        (381_250_000, "bit/s", "381.2 Mbit/s"),
        (1 << 20, "By", "1 MiB"),
        (1.05, "1", "1.05"),
        (None, "ns", "–"),  # noqa: RUF001 (what tables show for an unknown value)
    ],
)
def test_a_figure_has_its_unit(value: float | None, unit: str, text: str) -> None:
    assert deciding_cell(case("a", Outcome.PASS, "m", value, unit)) == text


class Device(Player):
    """Slow with fw-b: a little in case a, too slow in case b."""

    def jct_of(self, experiment: Experiment) -> int:
        if experiment.device.profile == "fw-a":
            return 500_000
        return 550_000 if experiment.job.sweep and experiment.job.sweep.collective == "all_reduce" else 2_000_000


def suites(folder: Path) -> dict[str, Suite]:
    path = folder / "two.yaml"
    path.write_text(HEAD + "  - {name: a}\n  - {name: b, spec: {job: {sweep: {collective: all_gather}}}}\n")
    return {name: read_suite(path, over={"device": {"profile": name}}) for name in ("fw-a", "fw-b")}


def play(folder: Path, player: Player, *, resume: bool = False) -> Records:
    *_, last = play_suites(suites(folder), folder / "out", player, resume=resume)
    return last


def test_profiles_take_turns_and_the_page_shows_what_changed(tmp_path: Path) -> None:
    player = Device()
    found = play(tmp_path, player)
    assert [(name, one.device.profile) for name, one in player.played] == [
        ("a", "fw-a"),
        ("a", "fw-b"),
        ("b", "fw-a"),
        ("b", "fw-b"),
    ]
    assert SuiteRecord.read(tmp_path / "out" / "fw-b") == found["fw-b"]
    plain = results_to_json(found)
    assert plain["outcome"] == "FAIL"
    assert plain["changes"] == {"a": ["fw-b: jct +10.0%"], "b": ["fw-b: PASS → FAIL"]}
    text = shown(render_results(found, tmp_path)[0], width=140)
    assert "FAIL: the verdict of b changes with the profile" in text
    with pytest.raises(ResultError, match=r"give one of them: .*out/fw-a, .*out/fw-b"):
        stored_result(tmp_path / "out")


def test_a_suite_with_profiles_is_resumed(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        play(tmp_path, Device(_2=KeyboardInterrupt()))
    player = Device()
    assert sum(one.left for one in play(tmp_path, player, resume=True).values()) == 0
    assert [name for name, _ in player.played] == ["b", "b"]
    with pytest.raises(InputError, match="is not an empty folder"):
        play(tmp_path, Device())
