"""Topologies described as an InfraGraph."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.errors import TopologyError
from emulator.topology.load import load_topology
from emulator.topology.model import Domain, Topology
from tests.support.shared_traces import require_shared

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


def load(tmp_path: Path, text: str, *, name: str = "t.clab.yml", ranks: int = 2) -> Topology:
    path = tmp_path / name
    path.write_text(text)
    return load_topology(path, ranks=ranks)


def cables(topology: Topology) -> list[str]:
    return [str(link) for link in topology.network.links]


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
