from pathlib import Path

import pytest

from emulator.controller.description import describe_path
from emulator.topology.load import load_topology

TOPOLOGIES = Path(__file__).parents[3] / "topologies"


@pytest.mark.parametrize(
    ("topology", "source", "target", "path"),
    [
        ("two-hosts-switch", 0, 1, "h0:eth0 - sw0 (p0 to p1) - h1:eth0"),
        ("leaf-spine-2x2", 0, 1, "h0:eth0 - leaf0 (p0 to p1) - h1:eth0"),
        (
            "leaf-spine-2x2",
            0,
            7,
            "h0:eth0 - leaf0 (p0 to u0, u1) - spine0, spine1 (d0, d0 to d1, d1) - leaf1 (u0, u1 to p3) - h7:eth0",
        ),
        ("nic-back-to-back", 0, 1, "tester:eth1 - server:eth1"),
        ("loopback", 0, 1, None),
    ],
)
def test_the_way_between_two_ranks(topology: str, source: int, target: int, path: str | None) -> None:
    ranks = 8 if topology.startswith("leaf") else 2
    assert describe_path(load_topology(TOPOLOGIES / f"{topology}.yaml", ranks=ranks), source, target) == path


def test_ranks_of_one_host_have_no_way() -> None:
    topology = load_topology(TOPOLOGIES / "two-hosts-switch.yaml", ranks=4)
    assert describe_path(topology, 0, 1) is None
