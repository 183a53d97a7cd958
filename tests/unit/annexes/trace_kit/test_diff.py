import json
from pathlib import Path

import pytest

from emulator.annexes.trace_kit.diff import render, sentence
from emulator.annexes.trace_kit.difference import Aspect, Difference, TraceFinding
from emulator.cli.main import main
from tests.support.command import EXAMPLE
from tests.support.terminal import shown
from tests.support.trace_files import collective, compute, write


def pair(folder: Path, duration: int) -> Path:
    folder.mkdir()
    for rank in range(2):
        write(folder / f"x.{rank}.et", [compute(1, duration_micros=duration), collective(2, data_deps=[1])])
    return folder


def test_a_trace_is_the_same_as_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "diff", str(EXAMPLE), str(EXAMPLE), "--gate"]) == 0
    assert capsys.readouterr().out == "the same\n"


def test_the_exit_code_tells_only_with_gate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = pair(tmp_path / "a", 100), pair(tmp_path / "b", 103)
    assert main(["trace", "diff", str(one), str(other)]) == 0
    assert capsys.readouterr().out.startswith("the same but for durations\n")
    assert main(["trace", "diff", str(one), str(other), "--gate"]) == 1
    assert main(["trace", "diff", str(one), str(other), "--gate", "--tolerance", "3%"]) == 0


def test_the_same_facts_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["trace", "diff", str(pair(tmp_path / "a", 100)), str(pair(tmp_path / "b", 103)), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert (found["same"], found["differ"]) == (False, ["durations"])
    assert found["aspects"]["durations"]["differing"] == 2
    assert found["duration_ratio"]["most"] == pytest.approx(1.03)


def test_a_trace_that_cannot_be_played_cannot_be_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad").mkdir()
    for rank in range(2):
        write(tmp_path / "bad" / f"x.{rank}.et", [compute(1, data_deps=[9])])
    assert main(["trace", "diff", str(EXAMPLE), str(tmp_path / "bad")]) == 2
    assert "depends on node 9" in capsys.readouterr().err


def found(*aspects: Aspect, ratio: tuple[float, float, float] | None = None) -> Difference:
    findings = {
        aspect: TraceFinding(3 if aspect in aspects else 0, 9, ["here"] if aspect in aspects else [])
        for aspect in Aspect
    }
    return Difference(findings, ratio, 0.0)


def test_the_answer_is_one_line() -> None:
    assert sentence(found()) == "the same"
    assert sentence(found(Aspect.NAMES)) == "the same but for names"
    assert (
        sentence(found(Aspect.SIZES, Aspect.NAMES, Aspect.DURATIONS)) == "the same but for sizes, names and durations"
    )
    assert sentence(found(Aspect.RANKS, Aspect.GROUPS)) == "different work: ranks and process groups"


def test_only_what_differs_is_listed() -> None:
    text = shown(render(found(Aspect.SIZES, ratio=(1.0, 1.0, 1.0))))
    assert "sizes" in text
    assert "roots" not in text
    assert "Durations" not in text


def test_durations_have_their_ratios() -> None:
    text = shown(render(found(Aspect.DURATIONS, ratio=(0.9, 1.0, 1.25))))
    assert "0.900 / 1.000 / 1.250 (least, median, most)" in text
