import dataclasses
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from emulator.errors import EventError
from emulator.experiment.play.play import _places, has_samples, name_of, new_run_folder, prepare
from emulator.experiment.spec.event_spec import Event
from emulator.experiment.spec.spec import Experiment, Job, Pairs
from emulator.results.run_folder.schema import RunTable
from emulator.results.run_folder.writer import RunWriter
from emulator.topology.model import default_loopback
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
        writer.add(RunTable.SAMPLES, columns(collective([0, 0], [9, 9])))
        writer.flush()
        assert has_samples(tmp_path / "unfinished")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "manifest.json").write_text("{")
    found = {name: has_samples(tmp_path / name) for name in ("full", "empty", "broken", "nowhere")}
    assert found == {"full": True, "empty": False, "broken": False, "nowhere": False}


def test_nothing_is_settled_of_a_run_whose_commands_nobody_allowed() -> None:
    sweep = Experiment.of_sweep("all_gather", ranks=8)
    spec = replace(sweep, events=(Event(at="1s", do=("ls",)),))
    with pytest.raises(EventError, match=r"events\[0\]\.do: .*--allow-commands"), prepare(spec, []):
        pass


def test_second_addresses_are_taken_as_first_ones_are() -> None:
    topology = dataclasses.replace(default_loopback(2), alternates=("127.77.3.1", ""))
    assert _places(topology).keys() == {*topology.addresses, "127.77.3.1"}
