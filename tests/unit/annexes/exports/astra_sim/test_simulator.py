"""Arithmetic of the collectives of ASTRA-sim, and the choice of one algorithm per collective."""

from __future__ import annotations

import pytest

from emulator.annexes.exports.astra_sim.fit import Fit, Observation, fit
from emulator.annexes.exports.astra_sim.simulator import ONE_AT_A_TIME, chain, choose_algorithms, simulate
from emulator.trace.meaning.model import CommKind

S = 1 << 20
ALPHA = 1000


@pytest.mark.parametrize(
    ("algorithm", "kind", "messages", "sent"),
    [
        ("ring", CommKind.ALL_REDUCE, 14, 14 * S // 8),
        ("ring", CommKind.ALL_GATHER, 7, 7 * S),
        ("ring", CommKind.REDUCE_SCATTER, 7, 7 * S // 8),
        ("ring", CommKind.REDUCE_SCATTER_BLOCK, 7, 7 * S // 8),
        ("ring", CommKind.ALL_TO_ALL, 28, 28 * S // 8),
        ("direct", CommKind.ALL_REDUCE, 2, 2 * S // 8),
        ("direct", CommKind.ALL_GATHER, 1, S),
        ("direct", CommKind.REDUCE_SCATTER, 1, S // 8),
        ("direct", CommKind.ALL_TO_ALL, 1, S // 8),
        (ONE_AT_A_TIME, CommKind.ALL_TO_ALL, 7, 7 * S // 8),
        ("halvingDoubling", CommKind.ALL_REDUCE, 6, 14 * S // 8),
        ("halvingDoubling", CommKind.ALL_GATHER, 3, 7 * S),
        ("halvingDoubling", CommKind.REDUCE_SCATTER, 3, 7 * S // 8),
        ("", CommKind.SEND, 1, S),
    ],
)
def test_the_longest_chain_of_messages_of_eight_ranks(algorithm: str, kind: CommKind, messages: int, sent: int) -> None:
    assert chain(algorithm, kind, 8, S) == (messages, sent)


@pytest.mark.parametrize("members", [2, 4, 16, 64])
def test_halving_doubling_sends_a_half_a_quarter_and_back(members: int) -> None:
    halves = [S >> step for step in range(1, members.bit_length())]
    assert chain("halvingDoubling", CommKind.ALL_REDUCE, members, S) == (2 * len(halves), 2 * sum(halves))


@pytest.mark.parametrize(
    ("algorithm", "kind", "members"),
    [
        ("halvingDoubling", CommKind.ALL_REDUCE, 6),
        ("halvingDoubling", CommKind.ALL_TO_ALL, 8),
        (ONE_AT_A_TIME, CommKind.ALL_REDUCE, 8),
        ("ring", CommKind.BROADCAST, 8),
        ("mine", CommKind.ALL_REDUCE, 8),
    ],
)
def test_what_the_simulator_does_not_have_has_no_chain(algorithm: str, kind: CommKind, members: int) -> None:
    assert chain(algorithm, kind, members, S) is None


def measured(kind: CommKind, algorithm: str, messages: int, port_bytes: int, size: int) -> Observation:
    """A class of eight ranks on a network of 1 us a message and 1 ns a byte."""
    cct_ns = messages * ALPHA + port_bytes
    return Observation(f"{kind.label} {size}", messages, port_bytes, cct_ns, 5, kind, 8, size, algorithm)


def fitted(*observations: Observation) -> Fit:
    found = fit(observations)
    assert found is not None
    return found


def all_reduces(algorithm: str, messages: int) -> list[Observation]:
    return [measured(CommKind.ALL_REDUCE, algorithm, messages, 14 * s // 8, s) for s in (1 << 10, 1 << 14, 1 << 22)]


@pytest.mark.parametrize(
    ("played", "messages", "chosen"), [("ring", 14, "ring"), ("halving_doubling", 6, "halvingDoubling")]
)
def test_the_algorithm_that_was_played_is_simulated_exactly(played: str, messages: int, chosen: str) -> None:
    found = fitted(*all_reduces(played, messages))
    algorithms = choose_algorithms([found])
    assert algorithms[CommKind.ALL_REDUCE] == chosen
    points = simulate(found, algorithms)
    assert all(abs(point.residual) < 0.01 and point.is_played_alike for point in points)


def test_two_algorithms_of_a_collective_leave_one_that_is_simulated_as_the_other() -> None:
    found = fitted(*all_reduces("ring", 14), *all_reduces("halving_doubling", 6))
    points = simulate(found, choose_algorithms([found]))
    assert len({point.algorithm for point in points}) == 1
    assert sorted({point.fitted.observation.algorithm for point in points if not point.is_played_alike}) != []
    assert max(abs(point.residual) for point in points) > 0.4


def test_an_all_to_all_at_once_is_not_simulated_without_sharing_the_port() -> None:
    sizes = (1 << 14, 1 << 20, 1 << 24)
    found = fitted(*(measured(CommKind.ALL_TO_ALL, "parallel", 1, 7 * s // 8, s) for s in sizes))
    direct = simulate(found, {CommKind.ALL_TO_ALL: "direct"})
    assert [round(100 * point.residual) for point in direct] == [-80, -86, -86]
    assert choose_algorithms([found])[CommKind.ALL_TO_ALL] == ONE_AT_A_TIME


def test_a_collective_that_was_not_measured_gets_ring_or_one_message_at_a_time() -> None:
    assert choose_algorithms([]) == {
        CommKind.ALL_REDUCE: "ring",
        CommKind.ALL_GATHER: "ring",
        CommKind.REDUCE_SCATTER: "ring",
        CommKind.ALL_TO_ALL: ONE_AT_A_TIME,
    }


def test_a_broadcast_is_replayed_and_has_no_simulated_time() -> None:
    found = fitted(measured(CommKind.BROADCAST, "tree", 3, S, S))
    assert simulate(found, choose_algorithms([found])) == []


def test_a_collective_of_fewer_bytes_than_ranks_is_replayed_and_has_no_part_in_the_choice() -> None:
    small = Observation("4 B", 3, 12, 900_000, 5, CommKind.ALL_REDUCE, 8, 4, "recursive_doubling")
    found = fitted(*all_reduces("ring", 14), small)
    algorithms = choose_algorithms([found])
    assert algorithms[CommKind.ALL_REDUCE] == "ring"
    assert small not in [point.fitted.observation for point in simulate(found, algorithms)]
