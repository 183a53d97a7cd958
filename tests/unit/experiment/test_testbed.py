from __future__ import annotations

from pathlib import Path

import pytest

from emulator.errors import InputError, TopologyError
from emulator.experiment.settle.testbed import enter_testbed, topology_without_host
from emulator.experiment.spec.spec import Experiment, Network

TOPOLOGY = Path(__file__).parents[3] / "topologies" / "two-hosts-switch.yaml"


def experiment(**network: object) -> Experiment:
    return Experiment.of_trace("t", network=Network(**network))  # type: ignore[arg-type]


def test_a_lab_needs_a_topology() -> None:
    with pytest.raises(InputError, match="--lab needs --topology"), enter_testbed(experiment(lab="x"), ranks=2):
        pass


def test_a_plan_is_made_on_the_topology_without_a_lab() -> None:
    found = topology_without_host(experiment(topology=str(TOPOLOGY)), ranks=2)
    assert (found.ranks, found.source) == (2, str(TOPOLOGY))


def test_a_plan_without_a_topology_is_made_on_loopback() -> None:
    found = topology_without_host(experiment(), ranks=3)
    assert found.ranks == 3
    assert len({found.address_of(rank) for rank in range(3)}) == 3


def test_a_topology_file_that_is_not_valid_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text("hosts: 3\n")
    with pytest.raises(TopologyError, match=r"t\.yaml"):
        topology_without_host(experiment(topology=str(path)), ranks=1)
