"""`charkha help examples`: what comes with Charkha, listed and found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from emulator.cli.main import main
from emulator.experiment.series.suite.document import shipped_suites
from emulator.shipped import PROFILES, TOPOLOGIES, TRACES


def test_every_file_is_listed_below_its_kind(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "examples"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if not line.startswith(" ")] == ["topologies", "traces", "profiles", "suites"]
    names = [line.split()[0] for line in lines if line.startswith(" ")]
    assert names == [*TOPOLOGIES.paths, *TRACES.paths, *PROFILES.paths, *shipped_suites()]
    assert "  two-hosts-switch    Two hosts through one switch, 1 Gbit/s a port: the smallest lab." in lines


def test_json_has_the_paths(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "examples", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {one["kind"] for one in found} == {"topologies", "traces", "profiles", "suites"}
    assert all(Path(one["path"]).exists() for one in found)
    assert {"kind", "name", "path", "description"} == set(found[0])


@pytest.mark.parametrize("name", ["rack-template", "transformer-8r", "fw-b", "smoke"])
def test_the_path_of_one_can_be_copied(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "examples", name]) == 0
    assert Path(capsys.readouterr().out.strip()).exists()


def test_a_name_works_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["trace", "check", "transformer-8r"]) == 0
    assert main(["trace", "check", "lab/examples/transformer-8r"]) == 0
    assert main(["plan", "transformer-8r", "--topology", "leaf-spine-2x2"]) == 0
    assert main(["plan", "transformer-8r", "--topology", "topologies/leaf-spine-2x2.yaml"]) == 0
    assert "leaf-spine" in capsys.readouterr().out
