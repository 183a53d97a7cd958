"""`charkha run` and `charkha run --by-hand`: which run spec the arguments give."""

from pathlib import Path

import pytest
import yaml

from emulator.cli.main import main
from emulator.experiment.spec.document import read_experiment
from tests.support.command import EXAMPLE


def spec(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main([*map(str, arguments), "--print-spec"]) == 0
    return capsys.readouterr().out


def test_a_printed_spec_plays_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = spec(capsys, "run", EXAMPLE, "--iterations", 7, "--seed", 3)
    (tmp_path / "spec.yaml").write_text(printed)
    assert spec(capsys, "run", "-f", tmp_path / "spec.yaml") == printed


def test_an_option_overrides_the_spec_and_leaves_the_rest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(spec(capsys, "run", EXAMPLE, "--iterations", 7, "--seed", 3))
    changed = spec(capsys, "run", "-f", path, "--iterations", 2)
    assert changed == path.read_text().replace("iterations: 7", "iterations: 2")
    assert "seed: 3" in changed


def test_a_controller_starts_no_agents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(spec(capsys, "controller", EXAMPLE, "--listen", "127.0.0.1:4790"))
    assert read_experiment(path).agents.by_hand
    path.write_text(spec(capsys, "run", EXAMPLE))
    assert not read_experiment(path).agents.by_hand


def test_jobs_on_the_command_line_are_those_of_a_session(capsys: pytest.CaptureFixture[str]) -> None:
    first = f"a={EXAMPLE},ranks=8,start=+3ms,iterations=4"
    printed = spec(capsys, "run", "--job", first, "--job", f"b={EXAMPLE},until=others,pace=continuous", "-w", 0)
    assert yaml.safe_load(printed)["jobs"] == [
        {"name": "a", "trace": {"path": str(EXAMPLE), "ranks": 8}, "iterations": 4, "warmup": 0, "start": "3ms"},
        {"name": "b", "trace": {"path": str(EXAMPLE)}, "warmup": 0, "until": "others", "pace": "continuous"},
    ]
