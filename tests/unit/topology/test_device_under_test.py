"""The device under test: its boundary, and who reports its counters."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.topology.network import Dut, End, GnmiTarget
from tests.support.topologies import shipped_topology, topology_error, write_topology

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
    assert leaf_spine is not None
    assert nic is not None
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
        " {device: s1, address: '[fd00::1]:1', insecure: true}]}",
    )
    assert found is not None
    assert found.gnmi == (
        GnmiTarget("s0", "10.0.0.9:57400", "U", "P", ca="c.pem"),
        GnmiTarget("s1", "[fd00::1]:1", insecure=True),
    )


@pytest.mark.parametrize(
    ("dut", "message"),
    [
        ("{kind: toaster}", "dut.kind: 'toaster' is not one of fabric, nic, switch"),
        ("{nodes: [s0]}", "dut: the key 'kind' is missing"),
        ("{kind: switch, nodes: []}", "dut.nodes: expected array of length >= 1"),
        ("{kind: switch, nodes: [s0, s7]}", "dut.nodes[1]: there is no node 's7'; there are h0, s0, s1"),
        ("{kind: switch, ports: ['s0:p9']}", "dut.ports[0]: no link is plugged into s0:p9"),
        ("{kind: switch, ports: ['s0']}",
         "dut.ports[0]: 's0' is not an end of a link: write it as host:interface or switch:port"),
        ("{kind: switch, gnmi: [{device: s9, address: 'a:1'}]}",
         "dut.gnmi[0].device: there is no node 's9'; there are h0, s0, s1"),
        *(
            (f"{{kind: switch, gnmi: [{{device: s0, address: '{address}'}}]}}",
             f"dut.gnmi[0].address: '{address}' is not an address: write it as HOST:PORT")
            for address in ("lab", "lab:", ":1", "lab:http")
        ),
        ("{kind: switch, gnmi: [{device: s0}]}", "dut.gnmi[0]: the key 'address' is missing"),
    ],
)  # fmt: skip
def test_a_wrong_device_is_reported_with_its_key(tmp_path: Path, dut: str, message: str) -> None:
    assert topology_error(tmp_path, f"{NETWORK}dut: {dut}\n") == f"t.yaml:7, {message}"
