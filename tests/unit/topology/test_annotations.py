"""An InfraGraph with annotations: which host a rank is on, and which address an interface has."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest
import yaml

from emulator.errors import PlanError, TopologyError
from emulator.topology.load import load_topology
from tests.unit.topology.test_infragraph import INFRAGRAPH, load

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
