"""What crossed the network: hosts, shares, and the busiest port."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from emulator.control.parameter import Parameter
from emulator.results.run_folder.manifest import HostFacts, Manifest
from emulator.results.statistics.traffic.network_traffic import (
    crosses_ports,
    hosts_of_ranks,
    network_traffic,
    path_counts,
)
from emulator.views.network_text import describe_paths
from tests.support.runs import manifest
from tests.support.runs import manifest as make_manifest

MS = 1_000_000


def placed(of_ranks: list[int], *, address: str = "198.18.0.{}", rate: int | None = 10**9, **topology: Any) -> Manifest:
    """A run whose ranks are on these hosts, each with a port `eth0`."""
    listed = [
        {"name": f"h{host}", "interfaces": [{"name": "eth0", "rate_bps": rate}]} for host in sorted(set(of_ranks))
    ]
    addresses = [address.format(rank + 1) for rank in range(len(of_ranks))]
    facts = {"host_index": of_ranks, "interface_index": [0] * len(of_ranks), "addresses": addresses, "hosts": listed}
    return replace(manifest(), topology=facts | topology)


def flows(*rows: tuple[int, int, int]) -> pa.Table:
    return pa.table({name: [row[place] for row in rows] for place, name in enumerate(("src", "dst", "bytes"))})


def test_only_payload_between_hosts_crosses_the_network() -> None:
    sent = flows((0, 1, 3000), (1, 2, 1000), (2, 3, 3000), (3, 0, 1000))  # of two iterations
    found = network_traffic(sent, placed([0, 0, 1, 1]), payload_bytes=4000, jct_ns=2 * MS)
    assert (found.share, found.payload_bytes, found.bytes_per_s) == (0.25, 1000, 500_000)
    assert found.busiest.bits_per_s == 8 * 500 / 2e-3  # half of it leaves through either port
    assert found.busiest.percent == pytest.approx(0.2)


def test_the_busiest_port_is_the_one_with_the_largest_share_of_its_rate() -> None:
    slow = placed([0, 1, 2])
    slow.topology["hosts"][2]["interfaces"][0]["rate_bps"] = 10**8
    found = network_traffic(flows((0, 1, 5000), (1, 2, 1000)), slow, payload_bytes=6000, jct_ns=MS)
    assert (found.busiest.port, found.busiest.direction) == ("h2:eth0", "received")
    assert found.busiest.percent == pytest.approx(8.0)


def test_without_rates_the_busiest_port_carries_most() -> None:
    found = network_traffic(
        flows((0, 1, 5000), (1, 2, 9000)), placed([0, 1, 2], rate=None), payload_bytes=14_000, jct_ns=MS
    )
    assert (found.busiest.port, found.busiest.percent, found.busiest.bits_per_s) == ("h1:eth0", None, 72e6)


@pytest.mark.parametrize(
    "facts",
    [placed([0, 0]), placed([0, 1], address="127.0.0.{}"), replace(manifest(), topology={})],
    ids=["one host", "loopback", "no topology"],
)
def test_where_nothing_can_cross_a_network_there_is_no_figure(facts: Manifest) -> None:
    assert not hosts_of_ranks(facts)
    assert network_traffic(flows((0, 1, 5)), facts, payload_bytes=5, jct_ns=MS) is None


def test_a_run_crosses_ports_unless_it_says_that_it_stayed_on_a_host() -> None:
    on_a_host, loopback = placed([0, 0]), placed([0, 1], address="127.0.0.{}")
    between, unknown = placed([0, 1]), replace(manifest(), topology={})
    assert [crosses_ports(one) for one in (on_a_host, loopback, between, unknown)] == [False, False, True, True]


def test_runs_without_a_complete_iteration_or_without_ports_have_no_rates() -> None:
    found = network_traffic(flows((0, 1, 5)), placed([0, 1]), payload_bytes=5, jct_ns=None)
    assert (found and found.bytes_per_s, found and found.busiest) == (None, None)
    old = network_traffic(flows((0, 1, 5)), placed([0, 1], hosts=None), payload_bytes=5, jct_ns=MS)
    assert (old.bytes_per_s, old.busiest) == (5000, None)
    assert network_traffic(flows((0, 1, 0)), placed([0, 1]), payload_bytes=0, jct_ns=MS) is None


def facts(*packets: int, lost: int = 0) -> dict[str, Parameter]:
    names = ("retransmits", "trimmed", "marked", "retirements")
    found = {f"multipath.path{at}.packets": Parameter(count, "packets") for at, count in enumerate(packets)}
    found |= {f"multipath.path{at}.{name}": Parameter(0) for at in range(len(packets)) for name in names}
    return found | {f"multipath.path{at}.lost": Parameter(lost * at) for at in range(len(packets))}


def test_agents_are_added_up_by_path() -> None:
    host = HostFacts(agent="a", transport=facts(10, 20, lost=3))
    manifest = replace(make_manifest(), hosts=(host, replace(host, transport=facts(1, 2))))
    counts = path_counts(manifest)
    assert [(one.path, one.packets, one.lost) for one in counts] == [(0, 11, 0), (1, 22, 3)]
    assert describe_paths(counts) == "2: 11 to 22 packets each, lost 3 (path 1: 3)"
    assert describe_paths(counts[:1]) == "1: 11 packets"


def test_without_sprayed_flows_there_are_no_paths() -> None:
    assert path_counts(make_manifest()) == ()
