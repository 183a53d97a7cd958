from __future__ import annotations

import re
from pathlib import Path

import pytest

from emulator.errors import InputError, PlanError
from emulator.experiment.play import has_samples, listening, name_of, new_run_folder
from emulator.experiment.spec import Agents, Experiment, Job, Pairs
from emulator.run_folder.writer import RunWriter
from tests.support.runs import collective, columns, manifest, write_run


@pytest.mark.parametrize(
    ("experiment", "name"),
    [
        (Experiment.of_trace("traces/resnet.0.et"), "resnet.0.et"),
        (Experiment.of_sweep("all_gather", ranks=8), "bench-all_gather-8r"),
        (Experiment(jobs=(Job(pairs=Pairs(ranks=2, counts=((8, 1),))),)), "calibrate"),
    ],
)
def test_a_run_is_named_after_what_it_plays(experiment: Experiment, name: str) -> None:
    assert name_of(experiment) == name


def test_a_run_folder_has_time_and_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert re.fullmatch(r"runs/\d{8}-\d{6}-resnet", str(new_run_folder("resnet")))


def test_a_run_folder_has_a_short_printable_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    name = new_run_folder("a\nb\u202e" + "ü" * 100).name
    assert name.endswith("-a_b_" + "ü" * 56)
    assert len(name.encode()) < 255


def test_a_folder_that_is_taken_gets_a_random_part(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Path, "exists", lambda self: True)
    assert re.fullmatch(r"runs/\d{8}-\d{6}-[0-9a-f]{4}-x", str(new_run_folder("x")))


def test_a_folder_has_samples_if_something_was_measured(tmp_path: Path) -> None:
    write_run(tmp_path / "full", collective([0, 0], [9, 9]))
    write_run(tmp_path / "empty", [])
    with RunWriter(tmp_path / "unfinished", manifest()) as writer:
        writer.add_samples(columns(collective([0, 0], [9, 9])))
        writer.flush()
        assert has_samples(tmp_path / "unfinished")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "manifest.json").write_text("{")
    found = {name: has_samples(tmp_path / name) for name in ("full", "empty", "broken", "nowhere")}
    assert found == {"full": True, "empty": False, "broken": False, "nowhere": False}


def test_local_agents_need_no_address() -> None:
    assert listening(Agents()) is None


@pytest.mark.parametrize(
    ("agents", "problem"),
    [
        (Agents(by_hand=True), "agents started by hand need an address to connect to: --listen HOST:PORT or unix:PATH"),
        (Agents(token_file="t"), "--token-file is for --listen"),
        (Agents(tls_cert="c"), "--tls-cert is for --listen"),
        (Agents(tls_key="k"), "--tls-key is for --listen"),
        (Agents(tls_ca="a"), "--tls-ca is for --listen"),
    ],
)
def test_an_address_and_its_files_belong_together(agents: Agents, problem: str) -> None:
    with pytest.raises(PlanError) as caught:
        listening(agents)
    assert str(caught.value) == problem


def test_an_address_with_a_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret-secret-secret\n")
    (tmp_path / "token").chmod(0o600)
    found = listening(Agents(listen="127.0.0.1:4790", token_file=str(tmp_path / "token")))
    assert found is not None
    assert found.target == "127.0.0.1:4790"


def test_a_token_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing"):
        listening(Agents(listen="127.0.0.1:4790", token_file=str(tmp_path / "nothing")))
