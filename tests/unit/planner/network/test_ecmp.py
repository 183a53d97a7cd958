"""Linux's choice among equal-cost next hops, beside what a kernel chose, and the transport's own source ports."""

import numpy as np
import pytest

from agents.transports.roce.endpoint import ConnectionId, source_ports
from emulator.planner.network.ecmp import LinuxHash, roce_source_ports

SEED = 1013904226
# (source, target, source port, next hop of two): what `ip route get` of Linux 6.18 said in a router with that seed.
CHOSEN = [
    ("198.18.2.235", "198.18.6.155", 25269, 1),
    ("198.18.1.4", "198.18.8.233", 40712, 0),
    ("198.18.3.60", "198.18.8.50", 37120, 1),
    ("198.18.4.164", "198.18.8.221", 27050, 0),
    ("198.18.2.39", "198.18.6.223", 42630, 0),
    ("198.18.1.199", "198.18.8.17", 45025, 0),
    ("198.18.1.200", "198.18.6.8", 20767, 0),
    ("198.18.4.185", "198.18.7.236", 40001, 0),
    ("198.18.4.187", "198.18.8.206", 26908, 1),
    ("198.18.2.94", "198.18.8.25", 58621, 1),
    ("198.18.2.56", "198.18.5.67", 33456, 0),
    ("198.18.3.130", "198.18.8.214", 28624, 1),
    ("198.18.3.150", "198.18.8.105", 36026, 1),
    ("198.18.3.235", "198.18.6.238", 45718, 0),
    ("198.18.3.172", "198.18.5.179", 40726, 1),
    ("198.18.3.139", "198.18.6.232", 64242, 1),
    ("198.18.2.213", "198.18.5.147", 42506, 1),
    ("198.18.3.17", "198.18.7.124", 9178, 1),
    ("198.18.1.205", "198.18.8.18", 23573, 1),
    ("198.18.2.76", "198.18.8.110", 2342, 0),
    ("198.18.1.155", "198.18.8.158", 3920, 1),
    ("198.18.4.151", "198.18.5.85", 48107, 0),
    ("198.18.2.80", "198.18.7.2", 3384, 1),
    ("198.18.1.138", "198.18.5.9", 40330, 0),
]


def linux_choices(*, counts: int) -> list[int]:
    sources, targets, ports, _ = zip(*CHOSEN, strict=True)
    flows = np.arange(len(CHOSEN))
    taken = LinuxHash([*sources, *targets], seeds=[7, SEED], source_ports=lambda senders, _: np.array(ports)[senders])
    switches, several = np.full(len(flows), 1), np.full(len(flows), counts)
    return list(taken.choose(taken.tuples(flows, flows + len(flows)), switches, several))


def test_two_next_hops_are_chosen_as_a_kernel_did() -> None:
    assert linux_choices(counts=2) == [chosen for *_, chosen in CHOSEN]


def test_one_next_hop_is_no_choice_and_many_are_parts_of_two() -> None:
    assert set(linux_choices(counts=1)) == {0}
    assert [choice // 4 for choice in linux_choices(counts=8)] == linux_choices(counts=2)
    assert set(linux_choices(counts=3)) == {0, 1, 2}


@pytest.mark.parametrize("policy", ["fold", "fixed"])
def test_source_ports_are_those_of_the_transport(policy: str) -> None:
    senders, receivers = np.divmod(np.arange(64 * 64) * 37, 64)  # ranks of some thousands, too
    ports = roce_source_ports(policy, qps=1)
    assert ports is not None
    ends = (ConnectionId(a, "", b, "", 1, 1) for a, b in zip(senders.tolist(), receivers.tolist(), strict=True))
    assert ports(senders, receivers).tolist() == [source_ports(policy, one, seed=0)[0] for one in ends]


def test_ports_that_nobody_knows_beforehand_are_not_guessed() -> None:
    assert roce_source_ports("random", qps=1) is None
    assert roce_source_ports("fold", qps=2) is None
