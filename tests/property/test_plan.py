"""Laws of loads: nothing is lost or made on the way, whatever the network, the collective and the placement."""

from collections import Counter
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.planner.network import plan
from emulator.planner.network.header_overhead import WireOverhead
from emulator.planner.network.link_loads import Incast
from emulator.planner.network.plan import make_plan
from emulator.planner.network.routing import Router
from emulator.planner.traffic.operation import Operation, traffic_of_collective
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
EXCHANGES = [
    (CommKind.ALL_REDUCE, "direct"),
    (CommKind.ALL_GATHER, "direct"),
    (CommKind.REDUCE_SCATTER, "direct"),
    (CommKind.ALL_TO_ALL, "parallel"),
    (CommKind.ALL_TO_ALL, "pairwise"),
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
    made = make_plan(traffic, topology, router=router, overhead=WireOverhead(1, 1))
    paths, nodes = made.paths, made.paths.hosts + made.paths.switches
    for loads in (made.loads.even, made.loads.hashed):
        out = np.bincount(paths.source, loads, nodes)
        into = np.bincount(paths.target, loads, nodes)
        np.testing.assert_allclose(out[paths.hosts :], into[paths.hosts :], atol=1e-6)
        assert out[: paths.hosts].sum() == into[: paths.hosts].sum() == made.network_bytes
    assert made.flows is not None
    assert sum(flow.bytes for flow in made.flows) == made.network_bytes
    for operation in made.operations:
        assert operation.port_ns <= operation.ideal_ns <= operation.hashed_ns


@settings(max_examples=examples(100), deadline=None)
@given(
    leaves=st.integers(1, 3).map(lambda pods: 2 * pods),
    spines=st.integers(1, 3),
    hosts=st.integers(1, 3),
    rails=st.booleans(),
    ranks=st.integers(2, 24),
    group=st.integers(2, 24),
    size_bytes=st.integers(0, 10_000),
    case=st.sampled_from(EXCHANGES),
    placement=st.sampled_from(["block", "round_robin", "rail"]),
    domain=st.booleans(),
)
def test_a_full_exchange_added_up_is_the_sum_of_its_flows(
    leaves: int, spines: int, hosts: int, rails: bool, ranks: int, group: int, size_bytes: int,
    case: tuple[CommKind, str], placement: str, domain: bool,
) -> None:  # fmt: skip
    scale_up = ", domain: {rate: 8Gbit}" if domain else ""
    text = (
        f"fabric: {{leaves: {leaves}, spines: {spines}, hosts_per_leaf: {hosts}, interfaces: 2, rails: {rails},"
        f" rate: 1Gbit{scale_up}}}\nplacement: {placement}\n"
    )
    with TemporaryDirectory() as folder:
        path = Path(folder) / "t.yaml"
        path.write_text(text)
        topology = load_topology(path, ranks=ranks)
    members = min(group, ranks)
    if case[0] is CommKind.ALL_GATHER:  # in equal shards, in the smaller group of the remaining ranks too
        size_bytes *= members * (ranks % members or 1)
    traffic = traffic_of_collective(
        case[0], ranks=ranks, size_bytes=size_bytes, group_size=members, overrides={case[0].label: case[1]}
    )
    listed = make_plan(traffic, topology, router=Router(topology), overhead=WireOverhead(1, 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "LISTED_FLOWS", -1)
        added = make_plan(traffic, topology, router=Router(topology), overhead=WireOverhead(1, 1))
    for name in ("even", "hashed", "flows", "is_choice", "rate_bps"):
        np.testing.assert_array_equal(getattr(listed.loads, name), getattr(added.loads, name))
    for one, other in zip(listed.operations, added.operations, strict=True):
        for field in fields(one):
            np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name))
        assert one.incast == walked_incast(one.operation, Router(topology))


def walked_incast(operation: Operation, router: Router) -> Incast:
    """Step by step, sender by sender."""
    ranks = ports = 0
    for phase in operation.phases():
        for members in operation.ranks:
            to_rank: Counter[int] = Counter()
            to_port: Counter[int] = Counter()
            for sender, receiver in zip(members[phase.senders], members[phase.receivers], strict=True):
                remote = router.rank_host[sender] != router.rank_host[receiver]
                to_rank[receiver] += bool(remote or not router.in_domain[sender])
                to_port[router.rank_port[receiver]] += bool(remote)
            ranks, ports = max(ranks, *to_rank.values()), max(ports, *to_port.values())
    return Incast(ranks, ports)
