"""A calibration as a file: read as written, of this host or not, for this transport or not."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from emulator.errors import HostError, InputError
from emulator.results.statistics.calibration import (
    LOOPBACK,
    AgentClock,
    Calibration,
    TimerJitter,
    TransportCost,
    default_path,
    read_calibration,
    to_json,
    write_calibration,
)

RATES = [(8192, 1e9), (2 << 20, 2e9)]
COST = TransportCost("roce", {"message_bytes": 1 << 20, "roce.path_mtu": 1024}, 4, 2, RATES, 5e4, 1.25e4, 0.01)
MADE = Calibration(
    created="2026-01-02T03:04:05+00:00",
    where=LOOPBACK,
    topology=None,
    topology_digest=None,
    transports=(COST,),
    timer=TimerJitter(1000, 20_000, 50_000, 90_000),
    clocks=(AgentClock("east", -5, 60_000),),
)


def test_it_reads_as_it_was_written(tmp_path: Path) -> None:
    write_calibration(tmp_path / "new" / "c.json", MADE)
    found = read_calibration(tmp_path / "new" / "c.json")
    assert found == MADE
    assert found.is_of_this_host


def test_another_host_is_noticed() -> None:
    assert not replace(MADE, host_digest="0" * 64).is_of_this_host


def test_a_cost_holds_for_the_parameters_it_was_measured_with() -> None:
    parameters = {"message_bytes": 1 << 20, "roce.path_mtu": 1024}
    assert MADE.cost_of("roce", parameters) == COST
    assert MADE.cost_of("roce", parameters | {"roce.path_mtu": 4096}) is None
    assert MADE.cost_of("zmq", parameters) is None


@pytest.mark.parametrize(
    "change",
    [
        {"format": "other"},
        {"version": 2},
        {"timer": None},
        {"transports": [{}]},
        {"created": "yesterday"},
        {"closure": [{"name": "rate"}]},
    ],
)
def test_what_is_no_calibration_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    (tmp_path / "c.json").write_text(json.dumps(to_json(MADE) | change))
    with pytest.raises(InputError, match=r"c.json: is not a calibration"):
        read_calibration(tmp_path / "c.json")


def test_a_file_that_is_not_there_or_cannot_be_made_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="`charkha agent calibrate` makes one"):
        read_calibration(tmp_path / "c.json")
    (tmp_path / "file").write_text("")
    with pytest.raises(HostError, match=r"c.json: cannot write results .*; choose another place"):
        write_calibration(tmp_path / "file" / "c.json", MADE)


def test_each_topology_has_its_own_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert default_path(None) == Path("/state/charkha/calibration.json")
    assert default_path("ab" * 32) == Path("/state/charkha/calibration-abababababababab.json")
