"""The command that tests the tests."""

import subprocess
from pathlib import Path

import pytest

pytest.importorskip("cosmic_ray")

from lab import mutation

CODE = "def longer(a: int, b: int) -> int:\n    return a if a > b else b\n"
TEST = "from room.code import longer\n\n\ndef test_the_longer_one() -> None:\n    assert longer(3, 2) == 3\n"


def test_mutants_are_tried_in_a_copy_and_those_that_survive_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, text in (("room/__init__.py", ""), ("room/code.py", CODE), ("tests/test_code.py", TEST)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    for words in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    monkeypatch.setitem(mutation.ROOMS, "room", mutation.Room("room", ("tests/test_code.py",)))
    assert mutation.main(["room", "--sample", "3", "--seed", "2", "--root", str(tmp_path)]) == 0
    shown = capfd.readouterr().out
    assert "room: 2 of 3 mutants killed" in shown
    assert shown.count("room/code.py:2 survived") == 1
    assert (tmp_path / "room" / "code.py").read_text() == CODE


def test_a_room_that_does_not_exist_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        mutation.main(["cellar"])
    assert ended.value.code == 2
    assert "cellar" in capsys.readouterr().err
