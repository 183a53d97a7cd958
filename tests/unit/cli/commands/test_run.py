"""`charkha run` and `charkha controller`: which run spec the arguments give."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from emulator.cli.main import main
from emulator.experiment.document import read_experiment
from tests.support.command import EXAMPLE, refused


def spec(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main([*map(str, arguments), "--print-spec"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    "source", [[], [EXAMPLE, "-f", "spec.yaml"], [EXAMPLE, "--again", "runs/x"], ["-f", "a.yaml", "--again", "b"]]
)
def test_exactly_one_source_is_needed(source: list[object], capsys: pytest.CaptureFixture[str]) -> None:
    assert "give one of TRACE, --job, -f FILE and --again RUN" in refused("run", *source, capsys=capsys)


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


def test_a_spec_that_is_missing_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert "nowhere.yaml" in refused("run", "-f", "nowhere.yaml", capsys=capsys)


def test_jobs_on_the_command_line_are_those_of_a_session(capsys: pytest.CaptureFixture[str]) -> None:
    first = f"a={EXAMPLE},ranks=8,start=+3ms,iterations=4"
    printed = spec(capsys, "run", "--job", first, "--job", f"b={EXAMPLE},until=others,pace=continuous", "-w", 0)
    assert yaml.safe_load(printed)["jobs"] == [
        {
            "name": "a",
            "trace": {"path": str(EXAMPLE), "ranks": 8},
            "iterations": 4,
            "warmup": 0,
            "start": "3ms",
        },
        {"name": "b", "trace": {"path": str(EXAMPLE)}, "warmup": 0, "until": "others", "pace": "continuous"},
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"{EXAMPLE}", "write NAME=TRACE"),
        ("a=t,colour=red", "write one of ranks=, hosts="),
        ("a=t,start=3", "'3' is not a time"),
        ("a=t,ranks=0", "give a whole number of at least 1"),
        ("a=t,until=noon", "jobs[0].until: 'noon' is not one of others"),
        ("a=t,hosts=h0+h1", "hosts of a job need network.topology"),
    ],
)
def test_a_job_that_cannot_be_understood_is_refused(
    text: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert problem in refused("run", "--job", text, capsys=capsys)


def test_a_session_is_not_repeated_as_a_campaign(capsys: pytest.CaptureFixture[str]) -> None:
    jobs = ("--job", "a=lab/examples/transformer-8r", "--job", "b=lab/examples/transformer-8r")
    assert "--repeat and --profiles are for runs of one job" in refused("run", *jobs, "--repeat", "2", capsys=capsys)
