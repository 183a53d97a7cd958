"""Topologies described for containerlab."""

from functools import partial
from pathlib import Path

import pytest

from emulator.errors import TopologyError
from tests.support.topologies import cables, write_topology

CLAB = """name: clos01
topology:
  defaults: {kind: nokia_srlinux}
  kinds:
    nokia_srlinux: {image: srl, startup-config: x.cfg}
    linux: {exec: [ip addr add 10.0.0.77/24 dev eth7]}
  nodes:
    leaf1:
    br: {kind: bridge}
    ovs1: {kind: ovs-bridge}
    c1: {kind: linux, exec: ["ip addr add 10.0.0.1/24 dev eth1", "rm -rf /"]}
    c2: {kind: linux}
    c3: {kind: linux}
    frr: {kind: linux, labels: {charkha: router}}
  links:
    - {endpoints: ["c1:eth1", "leaf1:e1-1"], mtu: 9000, vars: {rate: 10Gbit}}
    - endpoints: ["leaf1:e1-2", "frr:eth1"]
    - type: veth
      endpoints: [{node: frr, interface: eth2}, {node: br, interface: p1}]
    - endpoints: ["br:p2", "ovs1:p1"]
    - endpoints: ["ovs1:p2", "c2:eth1"]
    - endpoints: ["c1:eth9", "host:enp1"]
    - {type: vxlan, endpoint: {node: c1, interface: eth5}}
"""


load = partial(write_topology, name="t.clab.yml")


def test_a_containerlab_file_becomes_hosts_switches_and_links(tmp_path: Path) -> None:
    topology = load(tmp_path, CLAB)
    assert topology.name == "clos01"
    assert [host.name for host in topology.hosts] == ["c1", "c2"]
    assert {switch.name: switch.kind for switch in topology.network.switches} == {
        "leaf1": "router",
        "br": "bridge",
        "ovs1": "ovs",
        "frr": "router",
    }
    assert cables(topology) == [
        "c1:eth1 - leaf1:e1-1",
        "leaf1:e1-2 - frr:eth1",
        "frr:eth2 - br:p1",
        "br:p2 - ovs1:p1",
        "ovs1:p2 - c2:eth1",
    ]
    assert (topology.network.links[0].mtu, topology.network.links[0].rate_bps) == (9000, 10**10)
    assert topology.addresses == ("10.0.0.1", "198.18.0.1")


def test_what_containerlab_has_and_we_have_not_is_noted(tmp_path: Path) -> None:
    assert load(tmp_path, CLAB).notes == (
        "node leaf1: startup-config is not used",
        "c1:eth9 - host:enp1 leads out of the lab and is ignored",
        "links[6] is of type vxlan, which leads out of the lab and is ignored",
        *(f"node {name}: 'ip addr add 10.0.0.77/24 dev eth7' is for no interface with a link" for name in ("c1", "c2")),
        "host c3 has no link and is ignored",
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("topology: {}", ":1, topology: has no nodes"),
        ("topology: {nodes: {a: 7}}", ":1, topology.nodes.a: is not a node"),
        ("topology:\n  nodes: {a: {kind: linux}}\n  links: [7]", ":3, topology.links[0]: is not a link"),
        (
            "topology:\n  nodes: {a: {kind: linux}}\n  links: [endpoints: [x]]",
            ":3, topology.links[0]: needs two endpoints",
        ),
        (
            "topology:\n  nodes: {a: }\n  links:\n  - endpoints: [a, b]",
            ":4, topology.links[0].endpoints[0]: 'a' is not an endpoint",
        ),
        ("topology: {nodes: {a: {kind: linux}}}", "no host has a link"),
        ("topology:\n  nodes: {a: {kind: linux}}\n  links: [endpoints: ['a:0', 'b:0']]", "there is no node 'b'"),
        (CLAB.replace("10Gbit", "fast"), "'fast' is not a rate"),
        (CLAB.replace("10.0.0.1/24", "8.8.8.8/24"), "8.8.8.8 is outside"),
    ],
)  # fmt: skip
def test_what_containerlab_lacks_is_named(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(TopologyError) as caught:
        load(tmp_path, text)
    assert problem in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "t.clab.yml"))


@pytest.mark.parametrize(
    "command",
    [
        "ip addr add 10.0.0.9/24 dev eth1",
        "ip a a 10.0.0.9/24 dev eth1",
        "ip -4 address replace local 10.0.0.9/24 brd + dev eth1",
        "ip addr add dev eth1 10.0.0.9/24",
        "sudo ip link set eth1 up && ip ad add 10.0.0.9/24 dev eth1",
        """sh -c 'ip link set eth1 up; ip addr add "10.0.0.9/24" dev eth1'""",
        "ifconfig eth1 10.0.0.9 netmask 255.255.255.0",
        "ifconfig eth1 inet 10.0.0.9/24 up",
        "/sbin/ip addr add 10.0.0.9/24 dev eth1",
        "env LANG=C busybox ip addr add 10.0.0.9/24 dev eth1",
    ],
)
def test_addresses_are_read_as_people_spell_them(command: str, tmp_path: Path) -> None:
    topology = load(tmp_path, CLAB.replace("ip addr add 10.0.0.1/24 dev eth1", command.replace('"', '\\"')))
    assert topology.addresses == ("10.0.0.9", "198.18.0.1")


@pytest.mark.parametrize(
    ("command", "is_noted"),
    [
        ("tc qdisc add dev eth1 root tbf rate 1gbit burst 32k latency 1ms", True),
        ("sh -c 'ip addr add 10.0.0.1/24 dev eth1 && ip link set dev eth1 mtu 4200'", True),
        ("ip link set eth1 up", False),
    ],
)
def test_commands_that_limit_a_port_are_noted(command: str, is_noted: bool, tmp_path: Path) -> None:
    notes = load(tmp_path, CLAB.replace('"rm -rf /"', f'"{command}"')).notes
    assert any(
        one.startswith("node c1: ") and one.endswith("give rate, latency and mtu at the link") for one in notes
    ) is (is_noted)


@pytest.mark.parametrize(("label", "role"), [("", "switch"), ("charkha: host", "host")])
def test_a_virtual_machine_may_be_a_host(label: str, role: str, tmp_path: Path) -> None:
    topology = load(tmp_path, CLAB.replace("c2: {kind: linux}", f"c2: {{kind: generic_vm, labels: {{{label}}}}}"))
    assert ("c2" in [one.name for one in topology.hosts]) is (role == "host")
    note = "node c2: a router, as all of kind generic_vm; the label charkha: host makes it a host"
    assert (note in topology.notes) is (role == "switch")


def test_addresses_of_links_are_used(tmp_path: Path) -> None:
    text = CLAB.replace('"ip addr add 10.0.0.1/24 dev eth1", ', "").replace(
        "mtu: 9000,", "mtu: 9000, ipv4: [10.0.0.5/24, 10.0.0.6/24],"
    )
    text = text.replace(
        '["ovs1:p2", "c2:eth1"]', "[{node: ovs1, interface: p2}, {node: c2, interface: eth1, ipv4: 10.0.0.7/24}]"
    )
    assert load(tmp_path, text).addresses == ("10.0.0.5", "10.0.0.7")


@pytest.mark.parametrize(
    ("command", "is_noted"),
    [
        ("ip addr add 10.0.0.1/24 label eth1", True),
        ("ip addr add $ADDRESS dev eth1", True),
        ("nmcli con mod eth1 ipv4.addresses 10.0.0.1/24", True),
        ("ip netns exec x ip addr add 10.0.0.1/24 dev eth1", True),
        ("ip route add 10.9.0.0/16 dev eth1", False),
        ("ethtool -K eth1 tx off", False),
    ],
)
def test_a_command_with_an_address_that_is_not_understood_is_noted(
    command: str, is_noted: bool, tmp_path: Path
) -> None:
    topology = load(tmp_path, CLAB.replace("ip addr add 10.0.0.1/24 dev eth1", command))
    assert topology.addresses == ("198.18.0.1", "198.18.0.2")
    assert (f"node c1: {command!r} is not understood" in topology.notes) is is_noted


def test_commands_of_kind_group_and_node_are_all_run(tmp_path: Path) -> None:
    text = CLAB.replace("dev eth7", "dev eth1").replace("c2:eth1", "c2:eth2")
    text = text.replace('"ip addr add 10.0.0.1/24 dev eth1", ', "")
    assert load(tmp_path, text).addresses == ("10.0.0.77", "198.18.0.1")


FABRIC = """name: fabric
topology:
  kinds: {linux: {image: "quay.io/frrouting/frr:9.1.0"}}
  nodes:
    leaf: {}
    gpu1: {image: "alpine:3"}
    gpu2: {image: "alpine:3"}
  links:
    - endpoints: ["gpu1:eth1", "leaf:eth1"]
    - endpoints: ["gpu2:eth1", "leaf:eth2"]
"""


@pytest.mark.parametrize(
    "leaf",
    [
        "{}",
        "{image: 'alpine:3', binds: [bird.conf:/etc/bird]}",
        "{image: 'alpine:3', exec: [sysctl -w net.ipv4.ip_forward=1]}",
    ],
)
def test_a_linux_node_with_a_routing_daemon_is_a_router(leaf: str, tmp_path: Path) -> None:
    topology = load(tmp_path, FABRIC.replace("leaf: {}", f"leaf: {leaf}"))
    assert [host.name for host in topology.hosts] == ["gpu1", "gpu2"]
    assert [(one.name, one.kind) for one in topology.network.switches] == [("leaf", "router")]
    assert any(note.startswith("node leaf: a router, as") for note in topology.notes)


def test_a_linux_node_with_several_links_needs_its_role(tmp_path: Path) -> None:
    plain = FABRIC.replace("leaf: {}", "leaf: {image: 'alpine:3'}")
    with pytest.raises(
        TopologyError, match=r"topology.nodes.leaf: is of kind linux and has 2 links.*\{charkha: router\}"
    ):
        load(tmp_path, plain)
    labelled = plain.replace("'alpine:3'}", "'alpine:3', labels: {charkha: host}}")
    assert [host.name for host in load(tmp_path, labelled).hosts] == ["leaf", "gpu1", "gpu2"]


def test_a_label_of_no_role_is_refused_and_one_of_the_defaults_counts(tmp_path: Path) -> None:
    plain = FABRIC.replace("leaf: {}", "leaf: {labels: {x: y}}")
    with pytest.raises(TopologyError, match="leaf: has the label charkha: 'Router'; there are host, router"):
        load(tmp_path, plain.replace("x: y", "charkha: Router"))
    hosts = load(tmp_path, plain.replace("  nodes:", "  defaults: {labels: {charkha: host}}\n  nodes:")).hosts
    assert [host.name for host in hosts] == ["leaf", "gpu1", "gpu2"]


def test_a_node_that_must_not_forward_is_a_host(tmp_path: Path) -> None:
    text = FABRIC.replace('gpu1: {image: "alpine:3"', 'gpu1: {image: "alpine:3", sysctls: {net.ipv4.ip_forward: 0}')
    assert [host.name for host in load(tmp_path, text).hosts] == ["gpu1", "gpu2"]


def test_an_address_of_an_interface_without_a_link_is_noted(tmp_path: Path) -> None:
    topology = load(tmp_path, CLAB.replace("10.0.0.1/24 dev eth1", "10.0.0.1/24 dev bond0"))
    assert "node c1: 'ip addr add 10.0.0.1/24 dev bond0' is for no interface with a link" in topology.notes
