"""The bandwidth of every pair of ports, from the samples of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from emulator.results.run_folder.manifest import TraceFacts
from emulator.results.statistics.bench.pair_sweep import PairTable, pair_table
from tests.support.runs import row, write_run

SIZE = 1_000_000
TOPOLOGY = {
    "hosts": [{"name": f"h{n}", "interfaces": [{"name": "eth0"}]} for n in range(4)],
    "host_index": [0, 1, 2, 3],
    "interface_index": [0, 0, 0, 0],
}


def measured(folder: Path, times_us: dict[tuple[int, int], list[int]], *, topology: dict[str, Any]) -> PairTable:
    """The table of a run in which these pairs took so long, µs in each iteration."""
    rows = []
    for instance, ((source, destination), values) in enumerate(times_us.items()):
        for iteration, value in enumerate(values):
            same = {"iteration": iteration, "instance": instance, "size_bytes": SIZE, "group_size": 2}
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
