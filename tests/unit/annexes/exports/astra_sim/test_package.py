"""The folder for ASTRA-sim: network in its units, facts, notes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from emulator.annexes.exports.astra_sim.network import GB
from emulator.annexes.exports.astra_sim.package import write
from emulator.errors import ResultError
from tests.support.runs import collective, write_run
from tests.unit.annexes.exports.astra_sim.test_workload import comm, played

MICROS = 1000


def test_a_run_that_was_aborted_has_no_measured_trace_to_hand_on(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", collective([0, 0], [9000, 9000]))
    with pytest.raises(ResultError, match="run: has no measured trace: only a run that was played to its end"):
        write(run, tmp_path / "out")


def test_the_network_has_the_fit_in_the_units_of_the_simulator(tmp_path: Path) -> None:
    samples = [
        one
        for instance, size in enumerate((1_000, 1_000_000, 100_000_000))
        for one in collective(
            [instance * 10**9] * 2,
            [instance * 10**9 + 2 * 5000 + size] * 2,
            size_bytes=size,
            instance=instance,
            node_id=instance,
        )
    ]
    hosts = {"host_index": [0, 1]}
    run = played(tmp_path, [comm(0), comm(1), comm(2)], samples, topology=hosts)
    notes = write(run, tmp_path / "out")
    assert notes == ["between hosts, 2 ranks: good: every class within 10 % of the fit and of the simulated time"]
    network = yaml.safe_load((tmp_path / "out" / "network.yml").read_text())
    assert network["topology"] == ["Switch"]
    assert network["npus_count"] == [2]
    # Two messages of half the size each follow one another: a byte on the port takes 1 ns, a message 5 us over 2 hops.
    assert network["bandwidth"] == [pytest.approx(1e9 / GB, rel=1e-3)]
    assert network["latency"] == [pytest.approx(2500, rel=1e-2)]
    system = json.loads((tmp_path / "out" / "system-simulate.json").read_text())
    assert (system["replay-only"], system["all-reduce-implementation"]) == (0, ["ring"])


def test_without_a_fit_the_folder_simulates_nothing_and_says_why(tmp_path: Path) -> None:
    run = played(tmp_path, [comm(1)], collective([0, 0], [9, 9], node_id=1, size_bytes=0))
    note, changed = write(run, tmp_path / "out")
    assert changed.startswith("2 nodes changed for ASTRA-sim: all_reduce of fewer bytes than ranks: a broadcast")
    assert note.startswith("within a host, 2 ranks: no fit (1 classes without a time (groups of one, size 0,")
    assert not (tmp_path / "out" / "system-simulate.json").exists()
    assert "system-simulate" not in (tmp_path / "out" / "README.txt").read_text()
    assert "PLACEHOLDERS" in (tmp_path / "out" / "network.yml").read_text()


def test_overlapping_collectives_are_in_the_notes_the_readme_and_the_facts(tmp_path: Path) -> None:
    samples = [one for number in (1, 2) for one in collective([0, 0], [9000, 9000], node_id=number, instance=number)]
    run = played(tmp_path, [comm(1), comm(2)], samples)
    notes = write(run, tmp_path / "out")
    expected = "2 of 4 communications overlap another one on their rank. ASTRA-sim runs one at a time per rank"
    assert any(note.startswith(expected) for note in notes)
    assert expected in (tmp_path / "out" / "README.txt").read_text()
    facts = json.loads((tmp_path / "out" / "fit.json").read_text())
    assert facts["overlapping_communications"] == {"overlapping": 2, "measured": 4}


def test_the_facts_have_the_simulated_time_of_every_class(tmp_path: Path) -> None:
    run = played(tmp_path, [comm(1)], collective([0, 0], [9000, 9000], node_id=1))
    write(run, tmp_path / "out")
    [observation] = json.loads((tmp_path / "out" / "fit.json").read_text())["dimensions"][0]["observations"]
    assert (observation["collective"], observation["simulated_as"]) == ("all_reduce", "ring")
    assert observation["simulated_ns"] == pytest.approx(9000, abs=1)
    assert observation["simulated_residual_percent"] == pytest.approx(0, abs=0.1)
