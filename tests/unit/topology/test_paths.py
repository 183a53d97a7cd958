"""Equal-cost next hops, explicit routes, and the numbering of nodes, links and ports."""

from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from emulator.topology.paths import Paths
from tests.support.topologies import SHIPPED, shipped_topology, write_topology

DIAMOND = """hosts: [{name: a, address: 10.0.0.1}, {name: b, address: 10.0.0.2}, {name: c, address: 10.0.0.3}]
switches: [{name: s}, {name: t}, {name: u}]
links:
  - endpoints: ["a:eth0", "s:0"]
  - endpoints: ["s:1", "t:1"]
  - endpoints: ["t:2", "s:2"]
  - endpoints: ["t:0", "b:eth0"]
  - endpoints: ["c:eth0", "u:0"]
"""


def vias(paths: Paths, switch: str, host: str, interface: str | None = None) -> list[str]:
    return [link.other(switch).node for link in paths.next_hops(switch, host, interface)]


def test_nodes_links_and_ports_are_numbered(tmp_path: Path) -> None:
    paths = Paths(write_topology(tmp_path, DIAMOND).network)
    assert (paths.hosts, paths.switches, paths.ports) == (3, 3, 3)
    assert [paths.node_name(node) for node in range(6)] == ["a", "b", "c", "s", "t", "u"]
    assert paths.source.tolist() == [0, 3, 3, 4, 4, 3, 4, 1, 2, 5]
    assert (paths.target == paths.source.reshape(-1, 2)[:, ::-1].ravel()).all()
    assert [paths.link_name(link) for link in paths.port_link.tolist()] == [
        "a:eth0 > s:0",
        "b:eth0 > t:0",
        "c:eth0 > u:0",
    ]
    assert paths.link_name(1) == "s:0 > a:eth0"


def test_equal_cost_next_hops_are_on_shortest_paths() -> None:
    paths = Paths(shipped_topology("leaf-spine-2x2").network)
    assert vias(paths, "leaf0", "h5") == ["spine0", "spine1"]
    assert vias(paths, "leaf0", "h3") == ["h3"]
    assert vias(paths, "spine1", "h5") == ["leaf1"]


@pytest.mark.parametrize("seed", range(20))
def test_next_hops_are_one_nearer_by_the_distances_of_scipy(tmp_path: Path, seed: int) -> None:
    random, switches = np.random.default_rng(seed), 8
    pairs = [pair for pair in random.integers(switches, size=(12, 2)).tolist() if pair[0] != pair[1]]
    lines = ["hosts: [{name: h, address: 10.0.0.1}]", "switches:", *(f"  - {{name: s{n}}}" for n in range(switches))]
    lines += ["links:", '  - endpoints: ["h:eth0", "s0:h"]']
    lines += [f'  - endpoints: ["s{one}:a{n}", "s{other}:b{n}"]' for n, (one, other) in enumerate(pairs)]
    paths = Paths(write_topology(tmp_path, "\n".join(lines), ranks=0).network)
    begin, end = np.array(pairs).T
    links = csr_array((np.ones(len(pairs)), (begin, end)), shape=(switches, switches))
    away = dijkstra(links, directed=False, unweighted=True, indices=[0])[0]
    for switch in range(1, switches):
        near = [b if a == switch else a for a, b in pairs if switch in (a, b)]
        expected = sorted(f"s{one}" for one in near if np.isfinite(away[one]) and away[one] < away[switch])
        assert sorted(vias(paths, f"s{switch}", "h")) == expected


def test_every_interface_of_a_host_has_its_own_paths() -> None:
    paths = Paths(shipped_topology("rail-4x4").network)
    assert vias(paths, "rail0", "h2", "eth0") == ["h2"]
    assert vias(paths, "rail0", "h2", "eth3") == ["spine0"]


def test_routes_take_precedence_over_equal_cost_paths(tmp_path: Path) -> None:
    routes = "routes:\n  - {at: leaf0, to: h4, via: spine1}\n  - {at: leaf0, to: 'h5:eth0', via: [spine0]}\n"
    text = (SHIPPED / "leaf-spine-2x2.yaml").read_text() + routes
    paths = Paths(write_topology(tmp_path, text, ranks=0).network)
    assert [vias(paths, "leaf0", host) for host in ("h4", "h5", "h6")] == [["spine1"], ["spine0"], ["spine0", "spine1"]]


def test_the_last_of_two_routes_for_a_host_counts(tmp_path: Path) -> None:
    routes = "routes:\n  - {at: leaf0, to: h4, via: spine1}\n  - {at: leaf0, to: h4, via: spine0}\n"
    text = (SHIPPED / "leaf-spine-2x2.yaml").read_text() + routes
    assert vias(Paths(write_topology(tmp_path, text, ranks=0).network), "leaf0", "h4") == ["spine0"]


def test_parallel_links_are_separate_next_hops_and_islands_have_none(tmp_path: Path) -> None:
    paths = Paths(write_topology(tmp_path, DIAMOND).network)
    assert vias(paths, "s", "b") == ["t", "t"]
    assert vias(paths, "s", "c") == []
    towards = paths.towards(1)
    assert towards.first.tolist() == [0, 2, 2, 2]
    assert towards.links.tolist() == [2, 5]
    assert paths.towards(1) is towards


def test_a_longer_path_is_not_a_next_hop(tmp_path: Path) -> None:
    text = """hosts: [{name: a, address: 10.0.0.1}, {name: b, address: 10.0.0.2}]
switches: [{name: s}, {name: t}, {name: u}]
links:
  - endpoints: ["a:eth0", "s:0"]
  - endpoints: ["b:eth0", "t:0"]
  - endpoints: ["s:1", "t:1"]
  - endpoints: ["s:2", "u:1"]
  - endpoints: ["t:2", "u:2"]
  - endpoints: ["s:3", "u:3"]
"""
    paths = Paths(write_topology(tmp_path, text).network)
    assert vias(paths, "s", "b") == ["t"]
    assert vias(paths, "u", "a") == ["s", "s"]


def test_a_host_at_a_cable_is_not_reached_through_switches(tmp_path: Path) -> None:
    text = """hosts:
  - {name: a, interfaces: [{name: x, address: 10.0.0.1}, {name: y, address: 10.0.0.2}]}
  - {name: b, address: 10.0.0.3}
switches: [{name: s}]
links:
  - endpoints: ["a:x", "b:eth0"]
  - endpoints: ["a:y", "s:0"]
"""
    paths = Paths(write_topology(tmp_path, text).network)
    assert vias(paths, "s", "a", "y") == ["a"]
    assert vias(paths, "s", "b") == []
