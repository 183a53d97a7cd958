"""The bandwidth of every pair of ports, from the samples of a run."""

from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from emulator.results.run_folder.manifest import TraceFacts
from emulator.results.statistics.pair_sweep import Direction, PairTable, find_slow, pair_table
from tests.support.runs import row, write_run

SIZE = 1_000_000
TOPOLOGY = {
    "hosts": [{"name": f"h{n}", "interfaces": [{"name": "eth0"}]} for n in range(4)],
    "host_index": [0, 1, 2, 3],
    "interface_index": [0, 0, 0, 0],
}


def measured(
    folder: Path,
    times_us: dict[tuple[int, int], list[int]],
    *,
    topology: dict[str, Any],
    waits_us: dict[tuple[int, int], int] | None = None,
) -> PairTable:
    """The table of a run in which these pairs took so long, µs in each iteration, of it a wait for a core."""
    rows = []
    for instance, ((source, destination), values) in enumerate(times_us.items()):
        for iteration, value in enumerate(values):
            wait_ns = (waits_us or {}).get((source, destination), 0) * 1000
            same = {"iteration": iteration, "instance": instance, "size_bytes": SIZE, "group_size": 2}
            same["core_wait_ns"] = wait_ns // 2
            end = value * 1000
            rows.append(row(kind="send", rank=source, peer=destination, post_ns=0, done_ns=end + 5, **same))
            ends = {"post_ns": 0, "arrival_ns": end, "done_ns": end}
            rows.append(row(kind="recv", rank=destination, peer=source, **ends, **same))
    ranks = 1 + max(max(pair) for pair in times_us)
    trace = TraceFacts(path="pairs", digest="00" * 32, ranks=ranks, nodes=1, communication_nodes=1)
    return pair_table(write_run(folder / "run", rows, topology=topology, trace=trace), size_bytes=SIZE)


def everyone(value: int, count: int = 4) -> dict[tuple[int, int], list[int]]:
    return {(one, other): [value] * 3 for one in range(count) for other in range(count) if one != other}


def test_bandwidth_is_the_size_over_the_median_time(tmp_path: Path) -> None:
    table = measured(tmp_path, everyone(1000) | {(0, 1): [1000, 2000, 4000]}, topology=TOPOLOGY)
    assert table.bits_per_s["h0:eth0", "h1:eth0"] == 8 * SIZE / 2e-3
    assert table.bits_per_s["h1:eth0", "h0:eth0"] == 8 * SIZE / 1e-3
    assert (table.transfers, table.is_one_host) == (36, False)
    assert table.slow.pairs == (), "its best transfer was as fast as the others"


def test_a_pair_that_is_slow_every_time_is_named(tmp_path: Path) -> None:
    table = measured(tmp_path, everyone(1000) | {(0, 1): [2000] * 3}, topology=TOPOLOGY)
    assert [(one.source, one.destination) for one in table.slow.pairs] == [("h0:eth0", "h1:eth0")]


def test_a_pair_whose_acknowledgements_return_through_a_slow_port_is_not_named(tmp_path: Path) -> None:
    into_2 = {(source, 2): [6000] * 3 for source in (0, 1, 3)}
    slow = measured(tmp_path, everyone(1000) | into_2 | {(2, 3): [4000] * 3}, topology=TOPOLOGY).slow
    assert [(one.port, one.direction) for one in slow.ports] == [("h2:eth0", Direction.RECEIVE)]
    assert slow.pairs == ()
    other = measured(tmp_path / "other", everyone(1000) | into_2 | {(1, 3): [4000] * 3}, topology=TOPOLOGY).slow
    assert [(one.source, one.destination) for one in other.pairs] == [("h1:eth0", "h3:eth0")]


def test_a_pair_whose_agents_waited_for_a_core_every_time_is_not_named(tmp_path: Path) -> None:
    table = measured(tmp_path, everyone(1000) | {(0, 1): [1250] * 3}, topology=TOPOLOGY, waits_us={(0, 1): 150})
    assert table.bits_per_s["h0:eth0", "h1:eth0"] < 0.9 * table.bits_per_s["h1:eth0", "h0:eth0"]
    assert table.slow.pairs == ()
    short = measured(
        tmp_path / "short", everyone(1000) | {(0, 1): [1250] * 3}, topology=TOPOLOGY, waits_us={(0, 1): 50}
    )
    assert len(short.slow.pairs) == 1, "the wait explains half of it"


def test_what_the_others_reached_once_is_not_asked_of_a_pair(tmp_path: Path) -> None:
    lucky = {pair: [700, *values[1:]] for pair, values in everyone(1000).items()}
    assert measured(tmp_path, lucky | {(0, 1): [1050] * 3}, topology=TOPOLOGY).slow.pairs == ()


def test_nothing_is_slow_on_one_host(tmp_path: Path) -> None:
    table = measured(tmp_path, everyone(1000) | {(0, 1): [2000] * 3}, topology={})
    assert (table.is_one_host, table.slow.ports, table.slow.pairs) == (True, (), ())


def test_pairs_within_a_host_do_not_count(tmp_path: Path) -> None:
    table = measured(tmp_path, everyone(1000), topology={**TOPOLOGY, "host_index": [0, 0, 1, 1]})
    assert ("h0:eth0", "h0:eth0") not in table.bits_per_s
    assert table.ports == ["h0:eth0", "h1:eth0"]
    assert table.transfers == 24


def test_ranks_of_no_topology_have_their_numbers(tmp_path: Path) -> None:
    table = measured(tmp_path, everyone(1000, 2), topology={})
    assert table.ports == ["rank 0", "rank 1"]
    assert table.is_one_host


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
