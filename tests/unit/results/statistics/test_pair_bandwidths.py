"""Slow ports and pairs are named, and good ones are not."""

from __future__ import annotations

from itertools import permutations

import pytest

from emulator.results.statistics.bench.pair_bandwidths import Direction, find_slow

PORTS = ("h0:eth0", "h1:eth0", "h2:eth0", "h3:eth0")
LINE_RATE = 943e6


def equal_bandwidths() -> dict[tuple[str, str], float]:
    return dict.fromkeys(permutations(PORTS, 2), LINE_RATE)


def test_equal_bandwidths_name_nothing() -> None:
    slow = find_slow(equal_bandwidths())
    assert slow.ports == ()
    assert slow.pairs == ()


def test_no_bandwidths_name_nothing() -> None:
    assert find_slow({}).ports == ()


@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize("port", PORTS)
def test_a_port_slow_in_one_direction_is_named_alone(port: str, direction: Direction) -> None:
    end = 0 if direction is Direction.SEND else 1
    slow = find_slow({pair: 412e6 if pair[end] == port else rate for pair, rate in equal_bandwidths().items()})
    assert [(found.port, found.direction) for found in slow.ports] == [(port, direction)]
    assert (slow.ports[0].bits_per_s, slow.ports[0].others_bits_per_s) == (412e6, LINE_RATE)
    assert slow.pairs == ()


def test_a_port_slow_in_both_directions_is_named_for_both() -> None:
    slow = find_slow({pair: 412e6 if PORTS[3] in pair else rate for pair, rate in equal_bandwidths().items()})
    assert {(found.port, found.direction) for found in slow.ports} == {(PORTS[3], way) for way in Direction}
    assert slow.pairs == ()


def test_one_slow_pair_between_good_ports_is_named_as_a_pair() -> None:
    slow = find_slow(equal_bandwidths() | {(PORTS[0], PORTS[2]): 100e6})
    assert slow.ports == ()
    assert [(pair.source, pair.destination) for pair in slow.pairs] == [(PORTS[0], PORTS[2])]


@pytest.mark.parametrize("direction", list(Direction))
def test_two_slow_ports_of_four_do_not_make_the_good_ones_slow(direction: Direction) -> None:
    end = 0 if direction is Direction.SEND else 1
    slow = find_slow({pair: 412e6 if pair[end] in PORTS[2:] else rate for pair, rate in equal_bandwidths().items()})
    assert {(found.port, found.direction) for found in slow.ports} == {(port, direction) for port in PORTS[2:]}
    assert slow.pairs == ()


def test_one_slow_pair_among_three_ports_is_named_as_a_pair() -> None:
    bandwidths = dict.fromkeys(permutations(PORTS[:3], 2), LINE_RATE) | {(PORTS[0], PORTS[1]): 100e6}
    slow = find_slow(bandwidths)
    assert slow.ports == ()
    assert [(pair.source, pair.destination) for pair in slow.pairs] == [(PORTS[0], PORTS[1])]
