from dataclasses import replace
from pathlib import Path

import pytest

from emulator.errors import InputError
from emulator.experiment.settle.calibration import calibration_of, deciding_parameters
from emulator.experiment.settle.defaults import resolve
from emulator.experiment.spec.spec import Experiment, Network, Observe, Transport
from emulator.results.statistics.calibration import (
    LOOPBACK,
    Calibration,
    TimerJitter,
    TransportCost,
    default_path,
    write_calibration,
)
from emulator.topology.model import default_loopback

TOPOLOGY = default_loopback(2)
PARAMETERS = {"message_bytes": 4 << 20, "roce.path_mtu": 4096}
COST = TransportCost(
    "roce", PARAMETERS, ranks=4, agents=2, rates=[(8, 1e9)], step_ns=5.0, message_ns=1.0, variation=None
)
MADE = Calibration("2026-01-02", LOOPBACK, None, None, (COST,), TimerJitter(1, 2, 3, 4))


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Lines for the user; calibrations are stored below tmp_path/charkha."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return []


def used(notes: list[str], *, file: Path | None = None, transport: str | None = None) -> dict[str, object]:
    network = Network(transport=Transport(name=transport))
    resolved = resolve(Experiment.of_trace("t", network=network), TOPOLOGY)
    observe = Observe(calibration=None if file is None else str(file))
    return dict(calibration_of(observe, resolved, TOPOLOGY, notify=notes.append))


def test_parameters_that_decide_the_cost_depend_on_the_transport() -> None:
    zmq = Network(transport=Transport(name="zmq"))
    assert deciding_parameters(resolve(Experiment.of_trace("t"), TOPOLOGY)) == PARAMETERS
    assert deciding_parameters(resolve(Experiment.of_trace("t", network=zmq), TOPOLOGY)) == {"message_bytes": 1 << 20}


def test_without_a_file_there_is_none_and_no_word_about_it(notes: list[str]) -> None:
    assert used(notes) == {}
    assert notes == []


def test_the_file_of_this_host_is_found_and_stored_with_the_run(notes: list[str]) -> None:
    write_calibration(default_path(None), MADE)
    assert used(notes) == {
        "file": str(default_path(None)),
        "created": "2026-01-02",
        "where": "loopback",
        "transport": "roce",
        "parameters": PARAMETERS,
        "ranks": 4,
        "rates": [[8, 1e9]],
        "step_ns": 5.0,
        "timer_ns": 2,
        "closure": [],
    }
    (note,) = notes
    assert "the calibration expired: made 2026-01-02" in note  # long before today, and used all the same


def test_another_transport_has_no_ceiling(notes: list[str]) -> None:
    write_calibration(default_path(None), MADE)
    assert used(notes, transport="zmq") == {}
    assert notes == [f"{default_path(None)}: has no zmq with message_bytes 1048576: nothing is marked tester-limited"]


def test_a_calibration_of_another_host_is_ignored_with_a_note_unless_it_is_named(
    notes: list[str], tmp_path: Path
) -> None:
    other = replace(MADE, host_digest="0" * 64)
    write_calibration(default_path(None), other)
    assert used(notes) == {}
    assert notes[0].endswith("was made with a different host, kernel or version: run `charkha agent calibrate` again")
    write_calibration(tmp_path / "named.json", other)
    with pytest.raises(InputError, match=r"named.json: was made with a different host"):
        used(notes, file=tmp_path / "named.json")


def test_a_named_file_has_to_exist(notes: list[str], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing.json: cannot be read"):
        used(notes, file=tmp_path / "missing.json")
