"""From a design to batches of commands, and rates as `charkha plan` counts them."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.errors import HostError
from emulator.lab.capacity import judge, offered_load
from emulator.lab.commands import _refused, require_root, require_tools
from emulator.lab.design import make_design
from emulator.lab.recipe import Batch, cables, node_batches, shaping_batch
from emulator.lab.shaping import FAST_BPS, QUEUE_NS, call_bytes, merging_ns, shape
from emulator.planner.network.header_overhead import ETHERNET_BYTES, roce_overhead, roce_packet_bytes, roce_path_mtu
from emulator.roce.payload import Payload
from emulator.topology.load import load_topology

TOPOLOGIES = Path(__file__).parents[3] / "topologies"


def shipped(name: str):
    return load_topology(TOPOLOGIES / f"{name}.yaml", ranks=0)


def lines_of(name: str, node: str) -> list[str]:
    design = make_design(shipped(name), "x")
    return [line for batch in node_batches(design.node(node), design) for line in batch.lines]


def test_cables_begin_and_end_in_namespaces() -> None:
    batch = cables(make_design(shipped("two-hosts-switch"), "x"))
    assert batch.lines[:3] == ["netns add charkha-x-h0", "netns add charkha-x-h1", "netns add charkha-x-sw0"]
    assert batch.lines[3].startswith(
        "link add name eth0 mtu 1500 address 02:c4:00:00:00:00 netns charkha-x-h0 type veth"
    )
    assert batch.lines[3].endswith("peer name p0 mtu 1500 address 02:c4:00:00:00:01 netns charkha-x-sw0")


def test_a_rate_is_that_of_the_wire() -> None:
    shaping = shape(10**8, mtu=1500, is_host=False)
    assert shaping is not None
    assert shaping.cut_bytes + shaping.overhead_bytes == 1500 + ETHERNET_BYTES
    assert shaping.limit_bytes == 100_000 == QUEUE_NS * 10**8 // (8 * 10**9)
    assert shape(None, mtu=1500, is_host=True) is None


@pytest.mark.parametrize("rate_bps", [10**6, 10**8, 10**9, 10**10])
@pytest.mark.parametrize("mtu", [1500, 9000])
def test_a_bucket_holds_two_frames_and_a_switch_queues_32(rate_bps: int, mtu: int) -> None:
    shaping = shape(rate_bps, mtu=mtu, is_host=False)
    assert shaping is not None
    assert shaping.burst_bytes >= 2 * (mtu + ETHERNET_BYTES)
    assert shaping.limit_bytes >= 32 * (mtu + ETHERNET_BYTES)
    host = shape(rate_bps, mtu=mtu, is_host=True)
    assert host is not None
    assert mtu + ETHERNET_BYTES < host.burst_bytes < shaping.burst_bytes


def test_a_switch_queues_what_its_topology_says() -> None:
    queues = {
        port.shaping.limit_bytes
        for node in make_design(shipped("leaf-spine-2x2"), "x").nodes
        for port in node.ports
        if not node.is_host and port.shaping is not None
    }
    assert queues == {1 << 20}


@pytest.mark.parametrize(("asked", "queue"), [(1_000_000, 1_000_000), (100, 9000 + ETHERNET_BYTES)])
def test_a_queue_has_room_for_a_frame_whatever_was_asked(asked: int, queue: int) -> None:
    shaping = shape(10**9, mtu=9000, is_host=False, queue_bytes=asked)
    assert shaping is not None
    assert shaping.limit_bytes == queue


@pytest.mark.parametrize(
    ("rate_bps", "mtu", "hold_ns"), [(10**9, 1500, 50_000), (2 * 10**8, 1500, 123_040), (10**8, 9000, 200_000)]
)
def test_a_host_merges_for_two_frames_within_limits(rate_bps: int, mtu: int, hold_ns: int) -> None:
    assert merging_ns(rate_bps, mtu=mtu) == hold_ns
    assert merging_ns(None, mtu=mtu) == 50_000


def test_a_bridge_forwards_without_asking_other_filters() -> None:
    design = make_design(shipped("two-hosts-switch"), "x")
    asked = [batch.command for batch in node_batches(design.node("sw0"), design)]
    (command,) = [one for one in asked if "net.bridge.bridge-nf-call-iptables=0" in one]
    assert {"net.bridge.bridge-nf-call-ip6tables=0", "net.bridge.bridge-nf-call-arptables=0"} < set(command)
    assert "-e" in command, "where br_netfilter is not loaded there is no such setting"


@pytest.mark.parametrize(
    ("name", "node", "rate_bps"),
    [("eight-hosts-switch", "h0", 10**8), ("eight-hosts-switch", "sw0", 10**8), ("two-hosts-switch", "sw0", 10**9)],
)
def test_slow_hosts_and_switches_cut_to_frames_before_they_count(name: str, node: str, rate_bps: int) -> None:
    cutter, shaper, *_ = shaping_batch(make_design(shipped(name), "x").node(node)).lines
    assert "root handle 1: tbf" in cutter
    assert "burst 1514 " in cutter
    assert f"parent 1:1 handle 2: tbf rate {rate_bps}bit" in shaper
    assert shaper.endswith("overhead 24")


def test_a_fast_host_counts_what_is_handed_over_as_one_in_proportion() -> None:
    cutter, shaper = shaping_batch(make_design(shipped("two-hosts-switch"), "x").node("h0")).lines
    burst = shape(10**9, mtu=1500, is_host=True).burst_bytes  # type: ignore[union-attr]
    assert f"root handle 1: tbf rate 100000000000bit burst {burst} " in cutter
    assert f"parent 1:1 handle 2: tbf rate {10**9 * 1082 // 1106}bit burst {burst} " in shaper  # of 1,024 B of payload
    assert shaper.endswith("overhead 0")


@pytest.mark.parametrize("rate_bps", [FAST_BPS, 4 * 10**8, 10**9, 10**11])
@pytest.mark.parametrize("mtu", [1500, 9000])
@pytest.mark.parametrize("ipv6", [False, True])
def test_one_call_of_an_agent_passes_a_fast_host_at_a_time(rate_bps: int, *, mtu: int, ipv6: bool) -> None:
    shaping, room = shape(rate_bps, mtu=mtu, is_host=True), call_bytes(rate_bps)
    assert shaping is not None
    assert room is not None
    path_mtu = roce_path_mtu(mtu, ipv6=ipv6)
    frames = Payload(path_mtu=path_mtu, call_bytes=room).per_call
    wire = roce_packet_bytes(path_mtu, ipv6=ipv6)
    counted = frames * (wire - 24)  # as the kernel has it: every frame with headers, without FCS, preamble and gap
    assert counted <= min(shaping.burst_bytes, shaping.cut_bytes) < 2 * counted
    assert frames >= 5
    assert shaping.bucket_bps is not None
    assert counted / shaping.bucket_bps == pytest.approx(frames * wire / rate_bps, rel=1e-3 if ipv6 else 1e-7)


def test_a_slow_host_is_handed_as_much_as_a_call_carries() -> None:
    assert call_bytes(FAST_BPS - 1) is None
    assert shape(FAST_BPS - 1, mtu=1500, is_host=True).bucket_bps is None  # type: ignore[union-attr]


def test_a_fast_host_whose_link_has_no_room_for_roce_counts_its_longest_frame() -> None:
    shaping = shape(10**9, mtu=100, is_host=True)
    assert shaping is not None
    assert shaping.bucket_bps == 10**9 * 114 // 138


def test_hosts_with_several_ports_choose_by_source() -> None:
    lines = lines_of("rail-4x4", "h0")
    assert "rule add from 198.18.2.1/32 table 1002" in lines
    routes = [line.split() for line in lines if line.startswith("route add 198.18.3.4/32")]
    assert [(words[words.index("dev") + 1], words[-1]) for words in routes] == [
        ("eth0", "1000"),
        ("eth1", "1001"),
        ("eth2", "1002"),
        ("eth3", "1003"),
        ("eth0", "onlink"),  # who is bound to no address
    ]


def test_a_router_spreads_by_ports_with_the_seed_of_the_topology() -> None:
    design = make_design(shipped("leaf-spine-2x2"), "x")
    node = design.node("leaf0")
    settings = next(node_batches(node, design)).command
    assert "net.ipv4.fib_multipath_hash_policy=1" in settings
    assert f"net.ipv4.fib_multipath_hash_seed={node.hash_seed}" in settings
    assert "net.ipv6.conf.all.disable_ipv6=1" in settings  # the kernel's own frames would be counted by the DUT
    route = next(line for line in lines_of("leaf-spine-2x2", "leaf0") if line.startswith("route add 198.18.5.0/24"))
    assert route.count("nexthop via") == 2


def test_what_hosts_offer_is_counted_in_packets() -> None:
    load = offered_load(shipped("eight-hosts-switch").network)
    packet = roce_overhead(1500, message_bytes=1024).wire_bytes
    assert load.packets_per_s == pytest.approx(8 * 10**8 / 8 / packet)


def test_a_host_carries_what_its_cores_can() -> None:
    assert judge(shipped("eight-hosts-switch").network, cores=2) is None
    assert judge(shipped("two-hosts-switch").network, cores=2) is None
    refused = judge(shipped("two-hosts-switch").network, cores=1)
    assert refused is not None
    assert "1 cores carry about" in refused


def test_users_without_root_get_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(HostError, match="takes root: run the command with sudo"):
        require_root()


def test_missing_tools_are_named_with_their_package() -> None:
    with pytest.raises(HostError, match="no-such-tool is missing on this host: apt-get install no-such-tool"):
        require_tools(["sh", "no-such-tool"])


def test_a_refusal_shows_the_line_of_the_batch() -> None:
    batch = Batch(("ip", "-n", "x", "-batch", "-"), ["link set dev a up", "link set dev b up"])
    said = _refused(batch, 'Cannot find device "b"\nCommand failed -:2\n')
    assert said == '`ip -n x link set dev b up` failed (Cannot find device "b")'
