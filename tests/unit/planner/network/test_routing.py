"""Flows through networks small enough to name every link."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from emulator.errors import PlanError
from emulator.planner.network.routing import Crossing, NextHopTable, Router, weights_of
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


ROUTING_FABRIC = "fabric: {leaves: 2, spines: 2, hosts_per_leaf: 2, rate: 1Gbit}\n"
HOSTS = "hosts: [{name: a, address: 10.0.0.1}, {name: b, address: 10.0.0.2}]\n"
CABLE = HOSTS + "links: [{endpoints: ['a:eth0', 'b:eth0']}]\n"
ISLANDS = HOSTS + (
    "switches: [{name: s}, {name: t}]\nlinks: [{endpoints: ['a:eth0', 's:p']}, {endpoints: ['b:eth0', 't:p']}]\n"
)


def router_of(tmp_path: Path, text: str, ranks: int) -> Router:
    path = tmp_path / "t.yaml"
    path.write_text(text)
    return Router(load_topology(path, ranks=ranks))


def crossed(router: Router, crossings: Iterable[Crossing]) -> list[set[str]]:
    """Names of the links of each crossing."""
    return [{router.paths.link_name(int(link)) for link in one.links} for one in crossings]


def array(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def test_a_flow_leaves_by_its_port_and_arrives_by_the_receivers(tmp_path: Path) -> None:
    router = router_of(tmp_path, ROUTING_FABRIC, 4)
    out, into = crossed(router, router.edges(array(0), array(3)))
    assert {name.split(":")[0] for name in out} == {"h0"}
    assert {name.split(" > ")[1].split(":")[0] for name in into} == {"h3"}


def test_a_cable_between_two_hosts_is_crossed_once(tmp_path: Path) -> None:
    router = router_of(tmp_path, CABLE, 2)
    assert crossed(router, router.edges(array(0), array(1))) == [{"a:eth0 > b:eth0"}, set()]
    assert crossed(router, router.hashed(array(0), array(1))) == []


def test_a_flow_between_leaves_goes_up_and_down_by_one_spine(tmp_path: Path) -> None:
    router = router_of(tmp_path, ROUTING_FABRIC, 4)
    (up,), (down,) = crossed(router, router.hashed(array(0), array(2)))
    assert up.startswith("leaf0:")
    assert down.split(" > ")[1].startswith("leaf1:")
    assert up.split(" > ")[1].split(":")[0] == down.split(":")[0]
    assert crossed(router, router.hashed(array(0), array(1))) == []  # the same leaf


def test_spread_evenly_every_spine_carries_half_and_nothing_is_lost(tmp_path: Path) -> None:
    router = router_of(tmp_path, ROUTING_FABRIC, 4)
    hops = list(router.spread(array(0, 0), array(0, 1), array(2, 3), array(1000, 500)))
    assert [len(links) for _, links, _ in hops] == [2, 2]
    for _, _, sent in hops:
        assert sent.tolist() == [750, 750]


def test_weights_decide_how_a_flow_is_spread(tmp_path: Path) -> None:
    router = router_of(tmp_path, ROUTING_FABRIC, 4)
    ((_, links, _), _) = router.spread(array(0), array(0), array(2), array(1000))
    names = [router.paths.link_name(int(link)) for link in links]
    router.weights = weights_of(router.paths, {names[0]: 3, names[1]: 1})
    ((_, _, sent), _) = router.spread(array(0), array(0), array(2), array(1000))
    assert sent.tolist() == [750, 250]


def test_links_that_were_one_of_several_are_choices(tmp_path: Path) -> None:
    router = router_of(tmp_path, ROUTING_FABRIC, 4)
    list(router.hashed(array(0), array(2)))
    choices = {router.paths.link_name(int(link)) for link in np.flatnonzero(router.is_choice)}
    assert {name.split(":")[0] for name in choices} == {"leaf0"}
    assert len(choices) == 2


def test_ranks_that_cannot_reach_each_other_are_named(tmp_path: Path) -> None:
    router = router_of(tmp_path, ISLANDS, 2)
    with pytest.raises(PlanError, match=r"no path from rank 0 \(a:eth0\) to rank 1 \(b:eth0\)"):
        list(router.hashed(array(0), array(1)))
    with pytest.raises(PlanError, match="no path from s to b:eth0"):
        list(router.spread(array(0), array(0), array(1), array(8)))


@pytest.mark.parametrize("way", ["hashed", "spread"])
def test_routes_that_form_a_loop_are_refused(tmp_path: Path, way: str) -> None:
    triangle = ISLANDS.replace("]\nlinks", ", {name: u}]\nlinks").replace(
        "]}]\n", "]}, {endpoints: ['s:u', 'u:s']}, {endpoints: ['u:t', 't:u']}]\n"
    )
    loop = "routes: [{at: s, to: b, via: u}, {at: u, to: b, via: s}]\n"
    router = router_of(tmp_path, triangle + loop, 2)
    arguments = (array(0), array(1)) if way == "hashed" else (array(0), array(0), array(1), array(8))
    with pytest.raises(PlanError, match="the routes form a loop"):
        list(getattr(router, way)(*arguments))


@pytest.mark.parametrize(("load", "problem"), [({"x:1 > y:2": 1}, "no link 'x:1 > y:2'"), (None, "at least 0")])
def test_weights_name_links_and_are_not_negative(tmp_path: Path, load: dict[str, float] | None, problem: str) -> None:
    paths = router_of(tmp_path, CABLE, 2).paths
    with pytest.raises(PlanError, match=problem):
        weights_of(paths, load or {"a:eth0 > b:eth0": -1})
