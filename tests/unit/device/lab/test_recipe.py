"""From a design to batches of commands."""

import re
from pathlib import Path

import pytest

from emulator.device.lab.design import make_design
from emulator.device.lab.model import Node
from emulator.device.lab.recipe import (
    cables,
    node_batches,
    ovs_batches,
    restored,
    shaping_batch,
    version_batch,
)
from emulator.device.lab.shaping import shape
from emulator.host.tools import CommandBatch
from emulator.topology.load import load_topology
from tests.support.topologies import shipped_topology

SHIPPED = Path(__file__).parents[4] / "topologies"


def lines_of(name: str, node: str) -> list[str]:
    design = make_design(shipped_topology(name), "x")
    return [line for batch in node_batches(design.node(node), design) for line in batch.lines]


def test_cables_begin_and_end_in_namespaces() -> None:
    batch = cables(make_design(shipped_topology("two-hosts-switch"), "x"))
    assert batch.lines[:3] == ["netns add charkha-x-h0", "netns add charkha-x-h1", "netns add charkha-x-sw0"]
    assert batch.lines[3].startswith(
        "link add name eth0 mtu 1500 address 02:c4:00:00:00:00 netns charkha-x-h0 type veth"
    )
    assert batch.lines[3].endswith("peer name p0 mtu 1500 address 02:c4:00:00:00:01 netns charkha-x-sw0")


def test_a_bridge_forwards_without_asking_other_filters() -> None:
    design = make_design(shipped_topology("two-hosts-switch"), "x")
    asked = [batch.command for batch in node_batches(design.node("sw0"), design)]
    (command,) = [one for one in asked if "net.bridge.bridge-nf-call-iptables=0" in one]
    assert {"net.bridge.bridge-nf-call-ip6tables=0", "net.bridge.bridge-nf-call-arptables=0"} < set(command)
    assert "-e" in command, "where br_netfilter is not loaded there is no such setting"


@pytest.mark.parametrize(
    ("name", "node", "rate_bps"),
    [("eight-hosts-switch", "h0", 10**8), ("eight-hosts-switch", "sw0", 10**8), ("two-hosts-switch", "sw0", 10**9)],
)
def test_slow_hosts_and_switches_cut_to_frames_before_they_count(name: str, node: str, rate_bps: int) -> None:
    cutter, shaper, *_ = shaping_batch(make_design(shipped_topology(name), "x").node(node)).lines
    assert "root handle 1: tbf" in cutter
    assert "burst 1514 " in cutter
    assert f"parent 1:1 handle 2: tbf rate {rate_bps}bit" in shaper
    assert shaper.endswith("overhead 24")


def test_a_fast_host_counts_what_is_handed_over_as_one_in_proportion() -> None:
    cutter, shaper = shaping_batch(make_design(shipped_topology("two-hosts-switch"), "x").node("h0")).lines
    burst = shape(10**9, mtu=1500, is_host=True).burst_bytes  # type: ignore[union-attr]
    assert f"root handle 1: tbf rate 100000000000bit burst {burst} " in cutter
    assert f"parent 1:1 handle 2: tbf rate {10**9 * 1082 // 1106}bit burst {burst} " in shaper  # of 1,024 B of payload
    assert shaper.endswith("overhead 0")


def test_hosts_with_several_ports_choose_by_source() -> None:
    lines = lines_of("rail-4x4", "h0")
    assert "rule add from 198.18.2.1/32 table 1002" in lines
    routes = [line.split() for line in lines if line.startswith("route replace 198.18.3.4/32")]
    assert [(words[words.index("dev") + 1], words[-1]) for words in routes] == [
        ("eth0", "1000"),
        ("eth1", "1001"),
        ("eth2", "1002"),
        ("eth3", "1003"),
        ("eth0", "onlink"),  # who is bound to no address
    ]


def test_rules_of_ipv6_are_a_batch_of_their_own_and_no_line_has_options(tmp_path: Path) -> None:
    """`ip -batch` takes options from its command line alone, and rules are of IPv4 without any."""
    text = (SHIPPED / "dual-homed.yaml").read_text()
    (tmp_path / "v6.yaml").write_text(re.sub(r"198\.18\.(\d+)\.0/24", r'"fd00:18:\1::/64"', text))
    design = make_design(load_topology(tmp_path / "v6.yaml", ranks=0), "x")
    batches = [one for one in node_batches(design.node("h0"), design) if one.command[0] == "ip"]
    assert not any(line.startswith("-") for batch in batches for line in batch.lines)
    [rules] = [one for one in batches if "-6" in one.command]
    assert rules.lines == ["rule add from fd00:18::/64 table 1000", "rule add from fd00:18:10::/64 table 1001"]
    assert not any(line.startswith("rule") for one in batches if one is not rules for line in one.lines)


def test_a_router_spreads_by_ports_with_the_seed_of_the_topology() -> None:
    design = make_design(shipped_topology("leaf-spine-2x2"), "x")
    node = design.node("leaf0")
    settings = next(node_batches(node, design)).command
    assert "net.ipv4.fib_multipath_hash_policy=1" in settings
    assert f"net.ipv4.fib_multipath_hash_seed={node.hash_seed}" in settings
    assert "net.ipv6.conf.all.disable_ipv6=1" in settings  # the kernel's own frames would be counted by the DUT
    route = next(line for line in lines_of("leaf-spine-2x2", "leaf0") if line.startswith("route replace 198.18.5.0/24"))
    assert route.count("nexthop via") == 2


def test_a_port_that_was_down_gets_back_what_the_kernel_deleted_with_it() -> None:
    host = make_design(shipped_topology("two-hosts-switch"), "x").node("h0")
    neighbour = host.neighbours[0]
    assert list(restored(host, {"eth0"})) == [
        "address replace 198.18.1.1/32 dev eth0",
        "route replace local 198.18.1.0/24 dev eth0 table local",
        f"neighbour replace 198.18.2.1 lladdr {neighbour.mac} dev eth0 nud permanent",
        "route replace 198.18.2.0/24 via 198.18.2.1 dev eth0 onlink",
    ]
    assert list(restored(host, set())) == []


def test_no_route_leads_through_a_port_that_is_still_down() -> None:
    leaf = make_design(shipped_topology("leaf-spine-2x2"), "x").node("leaf0")
    up = {port.device for port in leaf.ports} - {"u1"}
    lines = list(restored(leaf, up))
    assert "route replace 198.18.5.0/24 via 169.254.0.10 dev u0 onlink" in lines
    assert not any("dev u1" in line for line in lines)


def test_routes_that_a_protocol_finds_are_not_written() -> None:
    leaf = make_design(shipped_topology("leaf-spine-bgp"), "x").node("leaf0")
    assert list(restored(leaf, {port.device for port in leaf.ports})) == [
        "address replace 169.254.0.1/32 dev p0",
        "address replace 169.254.0.3 peer 169.254.0.4/32 dev u0",
        "address replace 169.254.0.5 peer 169.254.0.6/32 dev u1",
        "neighbour replace 198.18.1.1 lladdr 02:c4:00:00:00:00 dev p0 nud permanent",
        "neighbour replace 169.254.0.4 lladdr 02:c4:00:00:00:05 dev u0 nud permanent",
        "neighbour replace 169.254.0.6 lladdr 02:c4:00:00:00:07 dev u1 nud permanent",
        "route replace 198.18.1.0/24 via 198.18.1.1 dev p0 onlink",
    ]


IPV6_ROUTER = """
hosts:
  - {name: h0, per_rank: "2001:db8:1::/64"}
  - {name: h1, per_rank: "2001:db8:2::/64"}
switches: [{name: sw0, kind: router}]
links:
  - {endpoints: ["h0:eth0", "sw0:p0"]}
  - {endpoints: ["h1:eth0", "sw0:p1"]}
"""


def test_a_router_of_ipv6_gets_its_addresses_back(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(IPV6_ROUTER)
    node = make_design(load_topology(path, ranks=0, allow_networks=["2001:db8::/32"]), "test").node("sw0")
    lines = list(restored(node, {"p1"}))
    assert {f"address replace {one} dev p1 nodad" for one in node.port("p1").addresses if ":" in one} < set(lines)
    assert any(line.startswith("neighbour replace 2001:db8:2:") for line in lines)
    assert any(line.startswith("route replace 2001:") for line in lines)
    assert not any(" p0" in line for line in lines)


FOLDER = Path("/run/charkha/x/sw0")


@pytest.fixture
def switch() -> Node:
    design = make_design(shipped_topology("two-hosts-switch"), "x")
    return design.node("sw0")


def batches(switch: Node) -> list[CommandBatch]:
    return list(ovs_batches(switch, FOLDER))


def tool_of(batch: CommandBatch) -> str:
    return next(word for word in batch.command if word.startswith(("ovsdb-", "ovs-")))


def test_the_database_serves_before_the_switch_starts(switch: Node) -> None:
    assert [tool_of(one) for one in batches(switch)] == [
        "ovsdb-tool",
        "ovsdb-server",
        "ovs-vsctl",
        "ovs-vswitchd",
        "ovs-vsctl",
        "ovs-ofctl",
    ]


def test_every_command_runs_in_the_namespace_with_a_folder_of_its_own(switch: Node) -> None:
    for one in batches(switch):
        assert one.command[:4] == ("ip", "netns", "exec", "charkha-x-sw0")
        assert {f"OVS_RUNDIR={FOLDER}", f"OVS_LOGDIR={FOLDER}"} < set(one.command)


def test_files_of_both_daemons_are_in_the_folder_of_the_lab(switch: Node) -> None:
    daemons = [one.command for one in batches(switch) if "--detach" in one.command]
    files = [
        word.partition("=")[2] for words in daemons for word in words if word.startswith(("--pid", "--log", "--u"))
    ]
    assert len(files) == 6
    assert len(set(files)) == 6
    assert all(Path(file).parent == FOLDER for file in files)


def test_ports_are_plugged_into_the_userspace_datapath_by_number(switch: Node) -> None:
    plug = " ".join(batches(switch)[4].command)
    assert "datapath_type=netdev" in plug
    for number, port in enumerate(switch.ports, start=1):
        assert f"set interface {port.device} ofport_request={number}" in plug


def test_frames_leave_by_the_port_of_their_destination(switch: Node) -> None:
    flows = batches(switch)[5].lines
    number = {port.device: at for at, port in enumerate(switch.ports, start=1)}
    assert len(flows) == len(switch.forwards) > 0
    assert list(flows) == [
        f"priority=1,dl_dst={one.mac},actions=output:{number[one.device]}" for one in switch.forwards
    ]


def test_the_version_is_that_of_the_switch() -> None:
    assert version_batch().command == ("ovs-vswitchd", "--version")
