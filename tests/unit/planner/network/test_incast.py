"""How many ranks send to one rank, and through one port, in the same step."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.planner.network.incast import Incast, incast_of
from emulator.planner.network.routing import Router
from emulator.planner.traffic.operation import Operation, traffic_of_collective
from emulator.topology.load import load_topology
from emulator.trace.model import CommKind

TWO_HOSTS = "hosts:\n  - {name: a, per_rank: 10.0.1.0/24}\n  - {name: b, per_rank: 10.0.2.0/24}\n"


def operation(kind: CommKind, algorithm: str, *, ranks: int, group_size: int) -> Operation:
    overrides = {kind.label: algorithm}
    traffic = traffic_of_collective(kind, ranks=ranks, size_bytes=5040, group_size=group_size, overrides=overrides)
    return traffic.operations[0]


@pytest.fixture
def router(tmp_path: Path) -> Router:
    """Eight ranks: 0 to 3 on one host, 4 to 7 on the other."""
    path = tmp_path / "t.yaml"
    path.write_text(TWO_HOSTS)
    return Router(load_topology(path, ranks=8))


def test_all_senders_of_a_rank_count_but_only_other_hosts_load_its_port(router: Router) -> None:
    gather = operation(CommKind.GATHER, "parallel", ranks=8, group_size=8)
    assert incast_of(gather, router) == Incast(rank=7, port=4)


def test_a_ring_has_one_sender_per_rank(router: Router) -> None:
    assert incast_of(operation(CommKind.ALL_REDUCE, "ring", ranks=8, group_size=8), router) == Incast(rank=1, port=1)


def test_ranks_that_share_a_port_add_up(router: Router) -> None:
    # All-to-all in one phase: four ranks of a host each receive from the four of the other.
    assert incast_of(operation(CommKind.ALL_TO_ALL, "parallel", ranks=8, group_size=8), router) == Incast(7, 16)


def test_a_group_inside_a_host_loads_no_port(router: Router) -> None:
    assert incast_of(operation(CommKind.ALL_TO_ALL, "parallel", ranks=8, group_size=4), router) == Incast(3, 0)


def test_the_group_with_the_largest_incast_counts(router: Router) -> None:
    # Groups of three: 0-2 within a host, 3-5 across both, 6-7 within a host.
    assert incast_of(operation(CommKind.GATHER, "parallel", ranks=8, group_size=3), router) == Incast(2, 2)


def test_senders_of_ones_own_domain_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "domains.yaml"
    path.write_text(TWO_HOSTS.replace("a, per_rank", "a, domain: {rate: 1GB/s}, per_rank"))
    router = Router(load_topology(path, ranks=8))
    gather = operation(CommKind.GATHER, "parallel", ranks=8, group_size=8)  # to rank 0, of the host with a domain
    assert incast_of(gather, router) == Incast(rank=4, port=4)
    # Rank 4 of the host without one still hears all others.
    assert incast_of(operation(CommKind.ALL_TO_ALL, "parallel", ranks=8, group_size=8), router) == Incast(7, 16)
