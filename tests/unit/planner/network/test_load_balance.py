import numpy as np
import pytest

from emulator.planner.network.header_overhead import WireOverhead
from emulator.planner.network.load_balance import balance_of, equal_cost, level_names, levels, oversubscription
from emulator.planner.network.plan import make_plan
from emulator.planner.network.routing import Router
from emulator.planner.traffic.operation import traffic_of_collective
from emulator.topology.model import default_loopback
from emulator.topology.paths import Paths
from emulator.trace.meaning.model import CommKind
from tests.support.topologies import shipped_topology


def test_balance_of_unequal_links() -> None:
    found = balance_of(np.array([3.0, 1.0]))
    assert (found.mean_bytes, found.most_bytes, found.mmr) == (2, 3, 1.5)
    assert found.jain == pytest.approx(16 / (2 * 10))


def test_one_link_that_carries_everything() -> None:
    found = balance_of(np.array([0.0, 0.0, 0.0, 8.0]))
    assert (found.mmr, found.jain) == (4, 0.25)


def test_idle_links_have_no_balance() -> None:
    assert (balance_of(np.zeros(3)).mmr, balance_of(np.zeros(3)).jain) == (None, None)


def test_levels_and_oversubscription_of_a_leaf_spine() -> None:
    paths = Paths(shipped_topology("leaf-spine-2x2").network)
    assert levels(paths).tolist() == [0, 0, 1, 1]
    assert level_names(paths) == {-1: "hosts", 0: "leaf", 1: "spine"}
    found = oversubscription(paths)
    assert [(switch.switch, switch.down_bps, switch.up_bps) for switch in found] == [
        ("leaf0", 8e7, 4e7),
        ("leaf1", 8e7, 4e7),
    ]


def test_collisions_are_flows_beyond_the_even_share() -> None:
    topology = shipped_topology("leaf-spine-2x2", ranks=8)
    traffic = traffic_of_collective(CommKind.ALL_TO_ALL, ranks=8, size_bytes=8000, group_size=8, overrides={})
    plan = make_plan(traffic, topology, router=Router(topology), overhead=WireOverhead(1, 1))
    found = {choice.switch: choice for choice in equal_cost(plan)}
    assert set(found) == {"leaf0", "leaf1"}
    for choice in found.values():
        assert sum(choice.flows) == 16
        assert choice.collisions == max(choice.flows) - 8
        assert choice.hashed.mmr == max(choice.flows) / 8
        assert [name.split(" > ")[0] for name in choice.links] == [f"{choice.switch}:u0", f"{choice.switch}:u1"]


def test_one_switch_is_not_oversubscribed() -> None:
    assert oversubscription(Paths(shipped_topology("two-hosts").network)) == []
    assert levels(Paths(default_loopback(1).network)).tolist() == [0]
