"""Laws of loads: nothing is lost or made on the way, whatever the network, the collective and the placement."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.planner.network.header_overhead import WireOverhead
from emulator.planner.network.plan import make_plan
from emulator.planner.network.routing import Router
from emulator.planner.traffic.operation import traffic_of_collective
from emulator.topology.load import load_topology
from emulator.trace.meaning.model import CommKind
from tests.support.full import examples

CASES = [
    (CommKind.ALL_REDUCE, "ring"),
    (CommKind.ALL_REDUCE, "halving_doubling"),
    (CommKind.ALL_REDUCE, "recursive_doubling"),
    (CommKind.ALL_REDUCE, "double_binary_tree"),
    (CommKind.ALL_TO_ALL, "pairwise"),
    (CommKind.BROADCAST, "tree"),
]


@settings(max_examples=examples(60), deadline=None)
@given(
    leaves=st.integers(1, 3).map(lambda pods: 2 * pods),
    spines=st.integers(1, 3),
    hosts=st.integers(1, 3),
    rails=st.booleans(),
    ranks=st.integers(1, 20),
    group=st.integers(1, 20),
    size_bytes=st.integers(0, 10_000),
    case=st.sampled_from(CASES),
    placement=st.sampled_from(["block", "round_robin", "rail"]),
    seed=st.integers(0, 2**32 - 1),
)
def test_what_enters_a_switch_leaves_it(
    leaves: int, spines: int, hosts: int, rails: bool, ranks: int, group: int, size_bytes: int,
    case: tuple[CommKind, str], placement: str, seed: int,
) -> None:  # fmt: skip
    text = (
        f"fabric: {{leaves: {leaves}, spines: {spines}, hosts_per_leaf: {hosts}, interfaces: 2, rails: {rails},"
        f" rate: 1Gbit}}\nplacement: {placement}\n"
    )
    with TemporaryDirectory() as folder:
        path = Path(folder) / "t.yaml"
        path.write_text(text)
        topology = load_topology(path, ranks=ranks)
    router = Router(topology, seed=seed)
    traffic = traffic_of_collective(
        case[0], ranks=ranks, size_bytes=size_bytes, group_size=min(group, ranks), overrides={case[0].label: case[1]}
    )
    plan = make_plan(traffic, topology, router=router, overhead=WireOverhead(1, 1))
    paths, nodes = plan.paths, plan.paths.hosts + plan.paths.switches
    for loads in (plan.loads.even, plan.loads.hashed):
        out = np.bincount(paths.source, loads, nodes)
        into = np.bincount(paths.target, loads, nodes)
        np.testing.assert_allclose(out[paths.hosts :], into[paths.hosts :], atol=1e-6)
        assert out[: paths.hosts].sum() == into[: paths.hosts].sum() == plan.network_bytes
    assert plan.flows is not None
    assert sum(flow.bytes for flow in plan.flows) == plan.network_bytes
    for operation in plan.operations:
        assert operation.port_ns is not None
        assert operation.ideal_ns is not None
        assert operation.hashed_ns is not None
        assert operation.port_ns <= operation.ideal_ns <= operation.hashed_ns
