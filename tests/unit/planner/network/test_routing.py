"""Flows through networks small enough to name every link."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from emulator.errors import PlanError
from emulator.planner.network.routing import Crossing, Router, weights_of
from emulator.topology.load import load_topology

FABRIC = "fabric: {leaves: 2, spines: 2, hosts_per_leaf: 2, rate: 1Gbit}\n"
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
    router = router_of(tmp_path, FABRIC, 4)
    out, into = crossed(router, router.edges(array(0), array(3)))
    assert {name.split(":")[0] for name in out} == {"h0"}
    assert {name.split(" > ")[1].split(":")[0] for name in into} == {"h3"}


def test_a_cable_between_two_hosts_is_crossed_once(tmp_path: Path) -> None:
    router = router_of(tmp_path, CABLE, 2)
    assert crossed(router, router.edges(array(0), array(1))) == [{"a:eth0 > b:eth0"}, set()]
    assert crossed(router, router.hashed(array(0), array(1))) == []


def test_a_flow_between_leaves_goes_up_and_down_by_one_spine(tmp_path: Path) -> None:
    router = router_of(tmp_path, FABRIC, 4)
    (up,), (down,) = crossed(router, router.hashed(array(0), array(2)))
    assert up.startswith("leaf0:")
    assert down.split(" > ")[1].startswith("leaf1:")
    assert up.split(" > ")[1].split(":")[0] == down.split(":")[0]
    assert crossed(router, router.hashed(array(0), array(1))) == []  # the same leaf


def test_spread_evenly_every_spine_carries_half_and_nothing_is_lost(tmp_path: Path) -> None:
    router = router_of(tmp_path, FABRIC, 4)
    hops = list(router.spread(array(0, 0), array(0, 1), array(2, 3), array(1000, 500)))
    assert [len(links) for _, links, _ in hops] == [2, 2]
    for _, _, sent in hops:
        assert sent.tolist() == [750, 750]


def test_weights_decide_how_a_flow_is_spread(tmp_path: Path) -> None:
    router = router_of(tmp_path, FABRIC, 4)
    ((_, links, _), _) = router.spread(array(0), array(0), array(2), array(1000))
    names = [router.paths.link_name(int(link)) for link in links]
    router.weights = weights_of(router.paths, {names[0]: 3, names[1]: 1})
    ((_, _, sent), _) = router.spread(array(0), array(0), array(2), array(1000))
    assert sent.tolist() == [750, 250]


def test_links_that_were_one_of_several_are_choices(tmp_path: Path) -> None:
    router = router_of(tmp_path, FABRIC, 4)
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
