"""What tests of labs share."""

import pytest

from emulator.topology.model import Topology
from tests.support.topologies import shipped_topology


@pytest.fixture
def topology() -> Topology:
    return shipped_topology("leaf-spine-2x2", ranks=8)
