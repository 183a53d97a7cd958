import json
from pathlib import Path

import pytest

from emulator.cli.main import main
from tests.support.command import EXAMPLE, refused
from tests.support.trace_files import compute, write


def test_a_drawn_set_can_be_played_and_its_distance_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "synth", str(EXAMPLE), str(tmp_path / "made"), "--seed", "3", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["ranks"], made["seed"], len(made["files"])) == (8, 3, 9)
    by_name = {one["name"]: one for one in made["distances"]}
    assert by_name["all_reduce"]["source_count"] == by_name["all_reduce"]["sample_count"] == 376
    assert 0 <= by_name["role 1 (4 ranks)"]["kolmogorov_smirnov"] < 0.3
    assert main(["trace", "check", str(tmp_path / "made"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["communication_nodes"] == {"all_reduce": 376, "send": 32, "recv": 32}


def test_seeds_make_different_sets_and_the_same_one_the_same(tmp_path: Path) -> None:
    def content(name: str, seed: int) -> bytes:
        main(["trace", "synth", str(EXAMPLE), str(tmp_path / name), "--seed", str(seed)])
        return (tmp_path / name / "synth.0.et").read_bytes()

    assert content("a", 1) == content("b", 1) != content("c", 2)


def test_the_terminal_says_what_is_modelled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["trace", "synth", str(EXAMPLE), str(tmp_path / "made")])
    text = capsys.readouterr().out
    assert "not modelled  overlap: every rank computes and communicates one after the other" in text
    assert "KS" in text


def test_a_trace_without_communication_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "x.0.et", [compute(1)])
    assert "has no communication" in refused("trace", "synth", path, tmp_path / "made", "--ranks", 1)
