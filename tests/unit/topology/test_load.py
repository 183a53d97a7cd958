"""A topology file as a whole: what is shipped loads, and a mistake is reported with file, line and key."""

import hashlib
from pathlib import Path

import pytest

from emulator.errors import InputError, PlanError, TopologyError
from emulator.topology.load import load_topology
from emulator.topology.network import Dut, End, GnmiTarget
from tests.support.topologies import SHIPPED, shipped_topology, topology_error, write_topology

HOST = "hosts:\n- {name: h0, address: 10.0.0.1}\n"
FABRIC = "fabric: {leaves: 1, spines: 1, hosts_per_leaf: 1, rate: 1Gbit}\n"
PATHS = sorted(SHIPPED.glob("*.yaml"))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_every_shipped_topology_loads_and_has_a_picture(path: Path) -> None:
    topology = load_topology(path, ranks=8)
    assert topology.name == path.stem
    assert topology.ranks == 8
    assert len(set(topology.addresses)) == topology.endpoints
    assert path.read_text().startswith("#")
    assert "+--" in path.read_text()


def test_topologies_are_shipped() -> None:
    assert {path.name for path in PATHS} >= {"loopback.yaml", "two-hosts.yaml"}


def test_name_source_and_digest_come_from_the_file(tmp_path: Path) -> None:
    topology = write_topology(tmp_path, HOST)
    assert (topology.name, topology.source) == ("t", str(tmp_path / "t.yaml"))
    assert topology.digest == hashlib.sha256(HOST.encode()).hexdigest()
    assert write_topology(tmp_path, "name: lab-7\n" + HOST).name == "lab-7"


def test_agents_and_transport_are_taken_as_written(tmp_path: Path) -> None:
    topology = write_topology(
        tmp_path, HOST + "agents: {h0: west}\ntransport: {name: roce, mtu: 1024, cap: 0.5, credits: false}\n"
    )
    assert topology.agents == {"h0": "west"}
    assert topology.transport == {"name": "roce", "mtu": 1024, "cap": 0.5, "credits": False}
    assert (topology.dut, topology.drawn, topology.notes) == (None, None, ())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "t.yaml:1: expected a mapping, got a list"),
        ("name: x\n", "t.yaml:1: needs hosts or a fabric"),
        (HOST + FABRIC, "t.yaml:1: needs hosts or a fabric"),
        ("hosts: []", "t.yaml:1, hosts: expected a list of length >= 1"),
        (HOST + "cables: []", "t.yaml:1: unknown key 'cables'"),
        (HOST + "linkz: []", "t.yaml:1: unknown key 'linkz'; did you mean 'links'?"),
        (HOST + "name:\n", "t.yaml:3, name: has no value: give one, or delete the key"),
        (HOST + "links:\n-\n", "t.yaml:4, links[0]: has no value: give one, or delete the key"),
        (HOST + "agents: {h9: x}\n", "t.yaml:3, agents.h9: there is no host 'h9'; there are h0"),
        (HOST + "agents: {h0: ''}\n", "t.yaml:3, agents: expected text of length >= 1"),
        (
            HOST + "transport: {qps: 2}\n",
            "t.yaml:3, transport.name: write the name of a transport: roce, zmq or verbs",
        ),
        (
            HOST + "transport: {name: pigeon}\n",
            "t.yaml:3, transport.name: write the name of a transport: roce, zmq or verbs",
        ),
        (HOST + "ecmp: {seed: -1}\n", "t.yaml:3, ecmp.seed: expected int >= 0"),
        (HOST + "ecmp: {seed: 4294967296}\n", "t.yaml:3, ecmp.seed: expected int <= 4294967295"),
        *(
            (FABRIC + f"{name}: {entries}\n",
             f"t.yaml:2, {name}: is already defined by the fabric: delete it, or list hosts instead")
            for name, entries in (
                ("links", "[{endpoints: ['a:b', 'c:d']}]"),
                ("switches", "[{name: s}]"),
                ("routes", "[]"),
            )
        ),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_with_line_and_key(tmp_path: Path, text: str, message: str) -> None:
    assert topology_error(tmp_path, text) == message


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match=r"none.yaml: cannot be read \(No such file or directory\)"):
        load_topology(tmp_path / "none.yaml", ranks=1)


def test_allowed_networks_must_be_prefixes(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--allow-network 'lab': .*; write a prefix such as 192\.0\.2\.0/24"):
        write_topology(tmp_path, HOST, allow=("lab",))


def test_ranks_are_placed_on_one_of_several_equal_parts_of_the_hosts(tmp_path: Path) -> None:
    lines = [f"  - {{name: h{n}, per_rank: 198.18.{n}.0/24}}\n" for n in range(5)]
    path = tmp_path / "five.yaml"
    path.write_text("".join(["hosts:\n", "  - {name: s, address: 198.18.9.1, storage: true}\n", *lines]))
    halves = [load_topology(path, ranks=6, host_share=(number, 2)) for number in range(2)]
    assert [{one.host_of(rank).name for rank in range(6)} for one in halves] == [{"h0", "h1"}, {"h2", "h3", "h4"}]
    with pytest.raises(PlanError, match="a job has hosts: 6/6, but only 5 hosts take ranks"):
        load_topology(path, ranks=1, host_share=(5, 6))


NETWORK = """hosts:
  - {name: h0, address: 10.0.0.1}
switches: [{name: s0}, {name: s1}]
links:
  - endpoints: ["h0:eth0", "s0:p0"]
  - endpoints: ["s0:up", "s1:down"]
"""


def dut_of(tmp_path: Path, text: str) -> Dut | None:
    return write_topology(tmp_path, f"{NETWORK}dut: {text}\n").dut


def test_the_boundary_is_where_links_leave_the_device() -> None:
    leaf_spine, nic = shipped_topology("leaf-spine-2x2").dut, shipped_topology("nic-back-to-back").dut
    assert [str(port) for port in leaf_spine.ports] == [f"leaf{h // 4}:p{h % 4}" for h in range(8)]
    assert nic.ports == (End("server", "eth1"),)


def test_listed_ports_replace_the_boundary(tmp_path: Path) -> None:
    assert dut_of(tmp_path, "{kind: switch, nodes: [s0]}") == Dut(
        "switch", nodes=("s0",), ports=(End("s0", "p0"), End("s0", "up"))
    )
    assert dut_of(tmp_path, "{kind: switch, nodes: [s0], ports: ['s0:up']}") == Dut(
        "switch", nodes=("s0",), ports=(End("s0", "up"),)
    )


def test_a_device_may_be_named_without_a_network(tmp_path: Path) -> None:
    text = (
        "hosts: [{name: h0, address: 10.0.0.1}]\ndut: {kind: nic, vendor: V, model: M, firmware: '1.2', nodes: [h0]}\n"
    )
    assert write_topology(tmp_path, text).dut == Dut("nic", "V", "M", "1.2", nodes=("h0",))


def test_switches_may_report_counters_over_gnmi(tmp_path: Path) -> None:
    found = dut_of(
        tmp_path,
        "{kind: fabric, gnmi: [{device: s0, address: '10.0.0.9:57400', username_env: U, password_env: P, ca: c.pem},"
        " {device: s1, address: '[fd00::1]:1', insecure: true, queues: 20ms}]}",
    )
    assert found.gnmi == (
        GnmiTarget("s0", "10.0.0.9:57400", "U", "P", ca="c.pem"),
        GnmiTarget("s1", "[fd00::1]:1", insecure=True, queues="20ms"),
    )


@pytest.mark.parametrize(
    ("dut", "message"),
    [
        ("{kind: toaster}", "dut.kind: 'toaster' is not one of fabric, nic, switch"),
        ("{nodes: [s0]}", "dut: the key 'kind' is missing"),
        ("{kind: switch, nodes: []}", "dut.nodes: expected a list of length >= 1"),
        ("{kind: switch, nodes: [s0, s7]}", "dut.nodes[1]: there is no node 's7'; there are h0, s0, s1"),
        ("{kind: switch, ports: ['s0:p9']}", "dut.ports[0]: no link is connected to s0:p9"),
        ("{kind: switch, ports: ['s0']}",
         "dut.ports[0]: 's0' is not an end of a link: write host:interface or switch:port"),
        ("{kind: switch, gnmi: [{device: s9, address: 'a:1'}]}",
         "dut.gnmi[0].device: there is no node 's9'; there are h0, s0, s1"),
        *(
            (f"{{kind: switch, gnmi: [{{device: s0, address: '{address}'}}]}}",
             f"dut.gnmi[0].address: '{address}' is not an address: write HOST:PORT")
            for address in ("lab", "lab:", ":1", "lab:http")
        ),
        ("{kind: switch, gnmi: [{device: s0}]}", "dut.gnmi[0]: the key 'address' is missing"),
        ("{kind: switch, gnmi: [{device: s0, address: 'a:1', queues: often}]}",
         "dut.gnmi[0].queues: 'often' is not a time: give a number with a unit, such as 5us or 1.5ms"),
        ("{kind: switch, gnmi: [{device: s0, address: 'a:1', queues: 0ms}]}",
         "dut.gnmi[0].queues: is not a time between two readings: write 20ms, for example"),
    ],
)  # fmt: skip
def test_a_wrong_device_is_reported_with_its_key(tmp_path: Path, dut: str, message: str) -> None:
    assert topology_error(tmp_path, f"{NETWORK}dut: {dut}\n") == f"t.yaml:7, {message}"
