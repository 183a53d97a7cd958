"""The README of the folder describes the files that are there, and every residual."""

from __future__ import annotations

import pytest

from emulator.annexes.exports.astra_sim.judgement import Judged
from emulator.annexes.exports.astra_sim.network import Dimension
from emulator.annexes.exports.astra_sim.observe import LinkClass
from emulator.annexes.exports.astra_sim.readme import readme
from tests.unit.annexes.exports.astra_sim.test_judgement import SIZES, judged, ring, to_all

NOTHING = Judged(Dimension(8, LinkClass.WITHIN_HOST, None), (), "no fit (no measurements): for replaying only")


@pytest.mark.parametrize("can_simulate", [True, False])
def test_the_simulation_is_described_only_if_its_file_exists(can_simulate: bool) -> None:
    text = readme("r", [NOTHING], [], has_groups=False, can_simulate=can_simulate)
    assert ("system-simulate.json" in text) is can_simulate


@pytest.mark.parametrize("has_groups", [True, False])
def test_the_command_line_names_the_groups_only_if_there_are_any(has_groups: bool) -> None:
    text = readme("r", [NOTHING], [], has_groups=has_groups, can_simulate=True)
    assert ("--comm-group-configuration=groups.json" in text) is has_groups


def test_every_class_has_a_row_with_measured_fitted_and_simulated_time() -> None:
    text = readme("r", [judged(*(ring(size) for size in SIZES))], [], has_groups=False, can_simulate=True)
    table = text.partition("between hosts:\n")[2].splitlines()
    assert table[0].split() == ["class", "measured", "fit", "off", "simulated", "off", "as"]
    assert [line.split()[:2] for line in table[1:]] == [["all_reduce", str(size)] for size in SIZES]
    assert all(line.endswith("ring") and line.count("%") == 2 for line in table[1:])


def test_a_simulated_time_that_is_off_shows_its_residual() -> None:
    text = readme("r", [judged(*(to_all(size) for size in SIZES))], [], has_groups=False, can_simulate=True)
    rows = [line for line in text.splitlines() if line.startswith("  all_to_all")]
    assert any("+130." in row for row in rows), rows


def test_limits_are_sentences_of_a_list() -> None:
    text = readme("r", [NOTHING], ["one thing", "another"], has_groups=False, can_simulate=True)
    assert "Where ASTRA-sim differs from the run:\n  - one thing.\n  - another.\n" in text
    assert "Where ASTRA-sim differs" not in readme("r", [NOTHING], [], has_groups=False, can_simulate=True)
