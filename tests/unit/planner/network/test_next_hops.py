"""The flat table of next hops, against the topology's own answer for one flow."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from emulator.planner.network.next_hops import NextHopTable
from emulator.topology.load import load_topology
from emulator.topology.paths import Paths

FABRIC = "fabric: {leaves: 3, spines: 2, hosts_per_leaf: 2, rate: 1Gbit}\n"
PINNED = """hosts: [{name: a, address: 10.0.0.1}, {name: b, address: 10.0.0.2}]
switches: [{name: s}, {name: t}, {name: u}, {name: v}]
links:
  - {endpoints: ["a:eth0", "s:p"]}
  - {endpoints: ["b:eth0", "v:p"]}
  - {endpoints: ["s:t", "t:s"]}
  - {endpoints: ["s:u", "u:s"]}
  - {endpoints: ["t:v", "v:t"]}
  - {endpoints: ["u:v", "v:u"]}
routes:
  - {at: s, to: b, via: u}
"""


def paths_of(tmp_path: Path, text: str) -> Paths:
    path = tmp_path / "t.yaml"
    path.write_text(text)
    return Paths(load_topology(path, ranks=2).network)


@pytest.mark.parametrize("text", [FABRIC, PINNED], ids=["shortest paths", "with a route"])
def test_every_switch_and_port_gets_the_links_that_the_topology_names(tmp_path: Path, text: str) -> None:
    paths = paths_of(tmp_path, text)
    here, port = (each.ravel() for each in np.indices((paths.switches, paths.ports)))
    last = paths.target[paths.port_link[port]] - paths.hosts
    elsewhere = here != last
    here, port, last = here[elsewhere], port[elsewhere], last[elsewhere]
    table = NextHopTable(paths)
    first, count = table.find(here, port, last)
    hosts = list(paths.network.interfaces)
    for at, to, start, number in zip(here, port, first, count, strict=True):
        expected = paths.next_hops(paths.network.switches[at].name, hosts[to])
        links = table.links[start : start + number]
        assert [paths.network.links[link >> 1] for link in links] == list(expected)
        assert set(paths.source[links].tolist()) == {at + paths.hosts}


def test_what_was_looked_up_before_stays_true_when_more_is_learned(tmp_path: Path) -> None:
    paths = paths_of(tmp_path, FABRIC)
    table = NextHopTable(paths)
    one = np.array([1]), np.array([0]), np.array([0])
    first, count = table.find(*one)
    before = table.links[first[0] : first[0] + count[0]].tolist()
    table.find(np.array([0, 1]), np.array([4, 4]), np.array([2, 2]))
    first, count = table.find(*one)
    assert table.links[first[0] : first[0] + count[0]].tolist() == before
    assert len(before) == 2


def test_no_path_has_no_next_hops(tmp_path: Path) -> None:
    text = (
        "hosts: [{name: a, address: 10.0.0.1}, {name: b, address: 10.0.0.2}]\n"
        "switches: [{name: s}, {name: t}]\n"
        "links: [{endpoints: ['a:eth0', 's:p']}, {endpoints: ['b:eth0', 't:p']}]\n"
    )
    path = tmp_path / "t.yaml"
    path.write_text(text)
    table = NextHopTable(Paths(load_topology(path, ranks=2).network))
    assert table.find(np.array([0]), np.array([1]), np.array([1]))[1].tolist() == [0]
