import json
from pathlib import Path

import pytest

from emulator.cli.main import main
from tests.support.command import EXAMPLE
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
