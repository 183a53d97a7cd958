"""Topologies described as an InfraGraph.

An InfraGraph with annotations: which host a rank is on, and which address an interface has.
"""

import json
import textwrap
from functools import partial
from pathlib import Path

import pytest
import yaml

from emulator.errors import PlanError, TopologyError
from emulator.topology.load import load_topology
from emulator.topology.model import Domain
from tests.support.shared_traces import require_shared
from tests.support.topologies import cables, write_topology

INFRAGRAPH = """name: small
devices:
  - name: server
    components:
      - {name: xpu, choice: xpu, count: 2}
      - {name: card, choice: device, count: 2}
      - {name: cpu, choice: cpu, count: 1}
  - name: card
    components:
      - {name: port, choice: port, count: 2}
      - {name: asic, choice: nic, count: 1}
  - name: box
    components:
      - {name: asic, choice: cpu, count: 1}
      - {name: port, choice: port, count: 8}
instances:
  - {name: srv, device: server, count: 2}
  - {name: sw, device: box, count: 1}
links:
  - name: eth
    physical:
      bandwidth: {choice: gigabytes_per_second, gigabytes_per_second: 12.5}
      latency: {choice: us, us: 1.5}
edges:
  - ep1: {instance: "srv[0]", component: "card[0:2].port[0]"}
    ep2: {instance: sw, component: "port[0:2]"}
    link: eth
    scheme: one2one
  - ep1: {instance: "srv[-1]", component: "card[1].port[1]"}
    ep2: {instance: "sw[0]", component: "port[2]"}
    link: eth
    scheme: many2many
"""


load = partial(write_topology, name="t.clab.yml")


def test_an_infragraph_becomes_hosts_switches_and_links(tmp_path: Path) -> None:
    topology = load(tmp_path, INFRAGRAPH, ranks=4)
    assert topology.name == "small"
    assert [host.name for host in topology.hosts] == ["srv0", "srv1"]
    assert [switch.name for switch in topology.network.switches] == ["sw0"]
    assert cables(topology) == [
        "srv0:card0.port0 - sw0:port0",
        "srv0:card1.port0 - sw0:port1",
        "srv1:card1.port1 - sw0:port2",
    ]
    assert {link.rate_bps for link in topology.network.links} == {100 * 10**9}
    assert topology.network.links[0].latency_ns == 1500
    # A rank for every xpu, and the next free benchmark address for every interface.
    assert topology.host_index == (0, 0, 1, 1)
    assert topology.addresses == ("198.18.0.1", "198.18.0.2", "198.18.0.3", "198.18.0.3")


NVLINK = """      - {name: cpu, choice: cpu, count: 1}
      - {name: nvsw, choice: switch, count: 4}
      - {name: pcie, choice: switch, count: 1}
    links:
      - name: nvlink
        physical:
          bandwidth: {choice: gigabytes_per_second, gigabytes_per_second: 112.5}
          latency: {choice: us, us: 2}
      - {name: bus}
    edges:
      - {ep1: {component: xpu}, ep2: {component: nvsw}, link: nvlink, scheme: many2many}
      - {ep1: {component: "xpu[0:2]"}, ep2: {component: "pcie[0]"}, link: bus, scheme: many2many}
      - {ep1: {component: card}, ep2: {component: pcie}, link: bus, scheme: many2many}
"""


def test_switches_that_connect_xpus_alone_are_a_scale_up_domain(tmp_path: Path) -> None:
    text = INFRAGRAPH.replace("      - {name: cpu, choice: cpu, count: 1}\n", NVLINK)
    topology = load(tmp_path, text, ranks=4)
    assert {host.domain for host in topology.hosts} == {Domain(3_600 * 10**9, 2_000)}
    unknown = load(tmp_path, text.replace("gigabytes_per_second: 112.5", "gigatransfers_per_second: 8"), ranks=4)
    assert {host.domain for host in unknown.hosts} == {None}
    note = "link nvlink between xpus of device server has no bit rate: its hosts have no scale-up domain"
    assert unknown.notes[-1] == note


def test_a_bandwidth_that_is_not_a_bit_rate_is_noted(tmp_path: Path) -> None:
    text = INFRAGRAPH.replace("gigabytes_per_second: 12.5", "gigatransfers_per_second: 8")
    topology = load(tmp_path, text.replace("choice: gigabytes_per_second", "choice: gigatransfers_per_second"))
    assert topology.network.links[0].rate_bps is None
    assert topology.notes == (
        "link eth has a bandwidth in gigatransfers_per_second, which is not a bit rate, and is ignored",
    )


def test_published_blueprints_load() -> None:
    clos = load_topology(require_shared("traces", "infragraph", "clos.yaml"), ranks=8)
    single = load_topology(require_shared("traces", "infragraph", "single_tier_4srv.yaml"), ranks=8)
    assert (len(clos.hosts), len(clos.network.switches), len(clos.network.links)) == (4, 7, 8 + 12)
    assert [host.rate_bps for host in single.hosts] == [100 * 10**9] * 4
    with pytest.raises(TopologyError, match="older InfraGraph draft"):
        load_topology(require_shared("traces", "infragraph", "cx5.yaml"), ranks=8)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("edges:", "connections: [srv.0.card.0.eth.sw.0.port.0]\nedges:", "uses an older InfraGraph draft"),
        ('instance: "srv[0]"', 'instance: "srx[0]"', ", edges[0].ep1: there is no instance 'srx'"),
        ('instance: "srv[0]"', 'instance: "srv[7]"', ", edges[0].ep1: [7] is outside 0 to 1"),
        ('"card[0:2].port[0]"', '"nic[0]"', ", edges[0].ep1: device server has no component 'nic'"),
        ('"card[0:2].port[0]"', '"a b"', ", edges[0].ep1: 'a b' is not an endpoint"),
        ("scheme: one2one", "scheme: ring", ", edges[0]: scheme 'ring' is unknown: use one2one or many2many"),
        ("device: box", "device: crate", ", instances[1].device: there is no device 'crate'"),
        ("device: box, count: 1", "device: box, count: -1", ", instances[1]: count -1 is not a number"),
        ('"port[2]"', '"port[1]"', ": sw0:port1 already has a link (at links[2].endpoints[1] after conversion)"),
        ("edges:", "adges:", "without a list of edges"),
        ("{name: xpu, choice: xpu, count: 2}", "7", "has a value of an unexpected type"),
    ],
)
def test_what_an_infragraph_lacks_is_named(tmp_path: Path, old: str, new: str, problem: str) -> None:
    with pytest.raises(TopologyError) as caught:
        load(tmp_path, INFRAGRAPH.replace(old, new))
    assert problem in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "t.clab.yml"))


ANNOTATIONS = """annotations:
  nodes:
  - name: srv.1.xpu.0
    attributes: [{attribute: rank, value: "0"}, {attribute: type, value: xpu}]
  - name: srv[0]xpu[0]
    attributes: [{attribute: rank, value: 1}]
  - name: srv[0:1]xpu[1:2]
    attributes: [{attribute: rank, value: "2"}]
  - name: srv.0.card.0.port.0
    attributes: [{attribute: ipaddress, value: 10.0.0.7/24}]
  - name: srv.1
    attributes: [{attribute: ipaddress, value: 10.0.1.7}]
  links:
  - name: eth
    attributes: [{attribute: bandwidth, value: 400G}]
"""
COMBINED = f"version: 3.1.0\ninfrastructure:\n{textwrap.indent(INFRAGRAPH, '  ')}{ANNOTATIONS}"


def test_ranks_are_where_they_are_annotated_and_interfaces_have_their_addresses(tmp_path: Path) -> None:
    topology = load(tmp_path, COMBINED, ranks=3)
    assert topology.name == "small"
    assert [topology.hosts[host].name for host in topology.host_index] == ["srv1", "srv0", "srv0"]
    found = {f"{host.name}:{port.name}": port.addresses[0] for host in topology.hosts for port in host.interfaces}
    assert found == {"srv0:card0.port0": "10.0.0.7", "srv0:card1.port0": "198.18.0.1", "srv1:card1.port1": "10.0.1.7"}
    assert topology.notes == ()


def test_json_is_read_as_yaml_is(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(json.dumps(yaml.safe_load(COMBINED)))
    read = load_topology(tmp_path / "t.json", ranks=3)
    assert read.host_index == load(tmp_path, COMBINED, ranks=3).host_index


def test_without_annotations_it_is_the_infrastructure(tmp_path: Path) -> None:
    bare = load(tmp_path, COMBINED.removesuffix(ANNOTATIONS), ranks=4)
    alone = load(tmp_path, INFRAGRAPH, ranks=4)
    assert (bare.host_index, bare.addresses, bare.network) == (alone.host_index, alone.addresses, alone.network)


def test_what_is_ignored_is_noted(tmp_path: Path) -> None:
    other = COMBINED.replace("value: xpu}", "value: xpu}, {attribute: tag, value: A7}")
    other = other.replace("name: srv.0.card.0.port.0", "name: sw.0.port.7")
    assert load(tmp_path, other, ranks=3).notes == (
        "the ipaddress of sw.0.port.7 is ignored: it is not an interface of a host with a link",
        "annotations other than rank and ipaddress are ignored: tag",
    )


def test_a_rank_without_an_annotation_has_no_host(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="rank 3 has no host: the topology's placement covers only 3 of 4 ranks"):
        load(tmp_path, COMBINED, ranks=4)


NODE = ", annotations.nodes[0]: "


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('value: "0"', "value: first", f"{NODE}rank 'first' of srv.1.xpu.0 is not a rank"),
        ('value: "0"', 'value: "1"', "annotations.nodes[1]: rank 1 is on srv1 and on srv0: a rank has one host"),
        ("srv.1.xpu.0", "srv.2.xpu.0", f"{NODE}[2] is outside 0 to 1"),
        ("srv.1.xpu.0", "srx.1.xpu.0", f"{NODE}there is no instance 'srx'"),
        ("srv.1.xpu.0", "srv.1.gpu.0", f"{NODE}device server has no component 'gpu'"),
        ("srv.1.xpu.0", "srv/1", f"{NODE}'srv/1' is not a node: write host.0.xpu.1 or host[0:2]xpu[1]"),
        ("srv.1.xpu.0", "srv[1:1]", f"{NODE}there is no node srv[1:1]"),
        ("srv.1.xpu.0", "sw.0", f"{NODE}rank 0 is on sw0, which has no xpu and no NIC"),
        (
            "10.0.0.7/24",
            "10.0.0",
            "annotations.nodes[3]: ipaddress '10.0.0' of srv.0.card.0.port.0 is not an IP address",
        ),
        ("name: srv.1\n", "name: srv.0\n", "annotations.nodes[4]: srv.0 has 2 interfaces, but one ipaddress"),
        ("10.0.0.7/24", "8.8.8.8", ": 8.8.8.8 is outside loopback"),
        ("name: srv.1\n", "node: srv.1\n", "annotations.nodes[4]: the key 'name' is missing"),
        ("annotations:\n", "annotations: [1]\nx:\n", ", annotations: expected a mapping, got a list"),
        ("infrastructure:\n", "infrastructure: 7\nx:\n", ", infrastructure: is not a mapping with devices"),
        ('instance: "srv[0]"', 'instance: "srx[0]"', ", infrastructure.edges[0].ep1: there is no instance 'srx'"),
        ("  edges:", "  connections: []\n  edges:", "uses an older InfraGraph draft"),
    ],
)
def test_what_is_wrong_with_an_annotation_is_named(tmp_path: Path, old: str, new: str, problem: str) -> None:
    assert old in COMBINED
    with pytest.raises(TopologyError) as caught:
        load(tmp_path, COMBINED.replace(old, new, 1), ranks=3)
    assert problem in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "t.clab.yml"))
