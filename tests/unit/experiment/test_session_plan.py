from pathlib import Path

import pytest

from emulator.errors import InputError, PlanError
from emulator.experiment.play.session_plan import watch_dut
from emulator.experiment.settle.defaults import resolve
from emulator.experiment.settle.testbed import Testbed
from emulator.experiment.spec.spec import Device, Experiment
from emulator.topology.load import load_topology

PROFILE = Path(__file__).parents[3] / "lab" / "profiles" / "fw-a.yaml"
TOPOLOGY = load_topology(Path(__file__).parents[3] / "topologies" / "two-hosts-switch.yaml", ranks=2)


def watch(profile: str | None) -> object:
    return watch_dut(Device(profile=profile), resolve(Experiment.of_trace("t"), TOPOLOGY), Testbed(TOPOLOGY))


def test_a_profile_needs_a_lab() -> None:
    with pytest.raises(PlanError, match="a profile needs a lab, but this run is not in one: `charkha lab up "):
        watch(str(PROFILE))


def test_a_profile_that_does_not_exist_is_named() -> None:
    with pytest.raises(InputError, match="no-such-firmware"):
        watch("no-such-firmware")
