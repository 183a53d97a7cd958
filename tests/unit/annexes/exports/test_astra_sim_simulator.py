"""Arithmetic of the collectives of ASTRA-sim, and the choice of one algorithm per collective."""

from dataclasses import replace

import pytest
import yaml

from emulator.annexes.exports.astra_sim_fit import Fit, Observation, fit
from emulator.annexes.exports.astra_sim_observe import LinkClass
from emulator.annexes.exports.astra_sim_simulator import (
    GB,
    ONE_AT_A_TIME,
    Dimension,
    Judged,
    chain,
    choose_algorithms,
    dimensions,
    judge,
    limits_of,
    simulate,
    to_yaml,
)
from emulator.trace.meaning.model import CommKind

SOME = Fit(1000.0, float(1 << 30), (), True)


def test_equal_blocks_of_ranks_on_hosts_make_two_dimensions() -> None:
    both = {LinkClass.WITHIN_HOST: SOME, LinkClass.BETWEEN_HOSTS: SOME}
    assert [(one.ranks, one.link) for one in dimensions(4, [0, 0, 1, 1], both)] == [
        (2, LinkClass.WITHIN_HOST),
        (2, LinkClass.BETWEEN_HOSTS),
    ]


@pytest.mark.parametrize("host_index", [[0, 1, 0, 1], [0, 0, 0, 1]])
def test_ranks_that_are_not_in_equal_blocks_make_one_dimension(host_index: list[int]) -> None:
    both = {LinkClass.WITHIN_HOST: SOME, LinkClass.BETWEEN_HOSTS: SOME}
    assert dimensions(4, host_index, both) == [Dimension(4, LinkClass.BETWEEN_HOSTS, SOME)]


@pytest.mark.parametrize("link", LinkClass)
def test_the_only_link_class_with_a_fit_gives_its_fit_and_its_name(link: LinkClass) -> None:
    assert dimensions(4, [0, 0, 1, 1], {link: SOME}) == [Dimension(4, link, SOME)]


def test_one_host_is_one_switch() -> None:
    assert dimensions(4, [], {}) == [Dimension(4, LinkClass.WITHIN_HOST, None)]


def test_the_file_has_the_units_of_the_simulator() -> None:
    assert yaml.safe_load(to_yaml([Dimension(4, LinkClass.WITHIN_HOST, SOME)])) == {
        "topology": ["Switch"],
        "npus_count": [4],
        "bandwidth": [1.0],
        "latency": [500.0],
    }


def test_a_slow_link_has_a_bandwidth() -> None:
    slow = Dimension(4, LinkClass.WITHIN_HOST, replace(SOME, bandwidth_bytes_per_s=235.4))
    assert yaml.safe_load(to_yaml([slow]))["bandwidth"] == [pytest.approx(235.4 / GB, rel=1e-5)]


def test_placeholders_are_marked() -> None:
    text = to_yaml([Dimension(4, LinkClass.WITHIN_HOST, None)])
    assert "# PLACEHOLDERS" in text
    assert yaml.safe_load(text)["bandwidth"] == [1.0]


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


SIZES = (1 << 12, 1 << 18, 1 << 24)


def ring(size: int, cct_ns: float | None = None, algorithm: str = "ring") -> Observation:
    """A ring all-reduce of 8 ranks on a network of 1 us a message and 1 ns a byte."""
    messages, port_bytes = 14, 14 * size // 8
    exact = messages * 1000 + port_bytes
    return Observation(
        f"all_reduce {size}", messages, port_bytes, round(cct_ns or exact), 5, CommKind.ALL_REDUCE, 8, size, algorithm
    )


def to_all(size: int) -> Observation:
    port_bytes = 7 * size // 8
    return Observation(
        f"all_to_all {size}", 1, port_bytes, 1000 + port_bytes, 5, CommKind.ALL_TO_ALL, 8, size, "parallel"
    )


def judged(*observations: Observation) -> Judged:
    found = fit(observations)
    assert found is not None
    return judge(Dimension(8, LinkClass.BETWEEN_HOSTS, found), choose_algorithms([found]), {})


@pytest.mark.parametrize(
    ("observations", "verdict"),
    [
        ([ring(size) for size in SIZES], "good: every class within 10 % of the fit and of the simulated time"),
        ([ring(size) for size in SIZES[:2]], "not tested: 2 classes determine latency and bandwidth"),
        ([ring(SIZES[0])], "latency unknown: one size"),
        ([ring(size, 10 * size**1.5) for size in SIZES], "BAD: all_reduce "),
        ([to_all(size) for size in SIZES], "BAD for simulation: all_to_all 4096 is "),
    ],
)
def test_the_verdict_names_the_first_thing_that_is_wrong(observations: list[Observation], verdict: str) -> None:
    assert judged(*observations).verdict.startswith(verdict)


def test_the_verdict_says_when_the_bandwidth_is_bounded_by_the_port() -> None:
    # 1 ns a byte is measured, 8 Gbit/s; the port needs 1.05 ns, 7.619 Gbit/s of payload.
    bounded = judged(*(replace(one, ideal_ns=round(1.05 * one.port_bytes)) for one in map(ring, SIZES)))
    assert bounded.verdict.startswith("good: ")
    assert bounded.verdict.endswith("; bandwidth at its bound, the payload that a port can carry (7.619 Gbit/s)")
    free = judged(*(replace(one, ideal_ns=round(0.9 * one.port_bytes)) for one in map(ring, SIZES)))
    assert "bound" not in free.verdict


def test_without_a_fit_the_verdict_gives_the_reasons() -> None:
    dimension = Dimension(8, LinkClass.WITHIN_HOST, None)
    assert str(judge(dimension, {}, {"of more than 512 ranks": 2})) == (
        "within a host, 8 ranks: no fit (2 classes of more than 512 ranks): for replaying only"
    )
    assert judge(dimension, {}, {}).verdict == "no fit (no measurements): for replaying only"


def test_a_network_the_simulator_reproduces_has_no_limits() -> None:
    one = judged(*(ring(size) for size in SIZES))
    assert limits_of([one], (0, 20), {LinkClass.BETWEEN_HOSTS: one.dimension.fit}) == []


def test_another_algorithm_than_the_one_played_is_a_limit() -> None:
    one = judged(*(ring(size) for size in SIZES), ring(SIZES[1], algorithm="double_binary_tree"))
    [limit] = limits_of([one], (0, 20), {})
    assert limit.startswith("all_reduce played as double_binary_tree is simulated as ring: ASTRA-sim takes one")


def test_two_dimensions_are_refused_by_the_congestion_aware_backend() -> None:
    one = judged(*(ring(size) for size in SIZES))
    [limit] = limits_of([one, one], (0, 20), {})
    assert "Use the congestion-unaware backend" in limit


def test_a_link_class_that_no_dimension_takes_is_named() -> None:
    one = judged(*(ring(size) for size in SIZES))
    [limit] = limits_of([one], (0, 20), {LinkClass.MIXED: one.dimension.fit, LinkClass.WITHIN_HOST: None})
    assert limit.startswith("between hosts, several ranks a host: 3 classes were measured and are not in network.yml")
