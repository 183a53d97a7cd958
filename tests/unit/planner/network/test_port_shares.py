"""Ranks at a port share its rate, over however many agents they are spread."""

from pathlib import Path

import pytest

from emulator.planner.network.port_shares import port_shares
from emulator.roce.pacing import NO_CAP, port_cap_bps
from emulator.topology.load import load_topology
from emulator.topology.model import Topology, default_loopback

TWO_PORTS = """
hosts:
  - {name: fast, per_rank: 198.18.1.0/24, rate: 40Gbit}
  - {name: slow, per_rank: 198.18.2.0/24, rate: 1Gbit}
placement: {0: fast, 1: fast, 2: fast, 3: slow}
"""


@pytest.fixture
def topology(tmp_path: Path) -> Topology:
    path = tmp_path / "two.yaml"
    path.write_text(TWO_PORTS)
    return load_topology(path, ranks=4)


@pytest.mark.parametrize(
    ("asked", "rate", "cap"),
    [(0, None, 0), (0, 7, 7), (5, None, 5), (5, 7, 5), (9, 7, 7), (NO_CAP, 7, 0), (NO_CAP, None, 0)],
)
def test_the_lower_of_what_is_asked_and_what_the_port_has(asked: int, rate: int | None, cap: int) -> None:
    assert port_cap_bps(asked, rate) == cap


def test_agents_divide_a_port_by_their_ranks_there(topology: Topology) -> None:
    shares = port_shares(topology, {"a": [0, 1], "b": [2, 3]}, asked_bps=30 * 10**9)
    assert [shares[rank].number for rank in range(4)] == [0, 0, 0, 1]
    assert [shares[rank].line_rate_bps for rank in range(4)] == [40 * 10**9] * 3 + [10**9]
    assert [shares[rank].cap_bps for rank in range(4)] == [20 * 10**9, 20 * 10**9, 10 * 10**9, 10**9]


def test_over_loopback_all_ranks_are_at_one_port() -> None:
    shares = port_shares(default_loopback(4), {"a": [0], "b": [1, 2, 3]}, asked_bps=8000)
    assert {share.number for share in shares.values()} == {0}
    assert [shares[rank].cap_bps for rank in range(4)] == [2000, 6000, 6000, 6000]
    assert shares[0].line_rate_bps == 0


def test_without_a_rate_and_a_cap_nothing_is_paced() -> None:
    assert {share.cap_bps for share in port_shares(default_loopback(2), {"a": [0, 1]}, asked_bps=0).values()} == {0}
