"""The topology that the load of a controller is played in."""

from pathlib import Path

import pytest

from emulator.topology.load import load_topology
from lab.benchmarks.controller_load import topology


@pytest.mark.parametrize(("agents", "ranks"), [(1, 1), (3, 7), (64, 2048)])
def test_every_rank_has_a_place_at_the_host_of_an_agent(tmp_path: Path, agents: int, ranks: int) -> None:
    path = tmp_path / "load.yaml"
    path.write_text(topology(agents, ranks))
    loaded = load_topology(path, ranks=ranks)
    assert len(set(loaded.agents.values())) == agents
    assert len(set(loaded.addresses)) == ranks
