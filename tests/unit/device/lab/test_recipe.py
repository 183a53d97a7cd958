"""From a design to batches of commands, as somebody has read and approved them; tests/lab has the kernel's part."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from emulator.device.lab.design import make_design
from emulator.device.lab.recipe import (
    cables,
    node_batches,
    ovs_batches,
    restored,
    shaping_batch,
    version_batch,
)
from emulator.host.tools import CommandBatch
from emulator.topology.load import load_topology
from tests.support.approved import approved
from tests.support.topologies import shipped_topology

FOLDER = Path("/run/charkha/x/sw0")
SHIPPED = Path(__file__).parents[4] / "topologies"
IPV6_ROUTER = """
hosts:
  - {name: h0, per_rank: "2001:db8:1::/64"}
  - {name: h1, per_rank: "2001:db8:2::/64"}
switches: [{name: sw0, kind: router}]
links:
  - {endpoints: ["h0:eth0", "sw0:p0"]}
  - {endpoints: ["h1:eth0", "sw0:p1"]}
"""


def text_of(batches: Iterable[CommandBatch]) -> str:
    """Batches as text: the command, and what it reads."""
    return "\n".join("\n".join(["$ " + " ".join(one.command), *one.lines]) for one in batches)


@pytest.mark.parametrize(
    ("topology", "names"),
    [
        ("two-hosts-switch", ("h0", "sw0")),  # a fast host counts what is handed over as one, a switch the wire
        ("eight-hosts-switch", ("h0", "sw0")),  # a slow host counts the wire, too
        ("rail-4x4", ("h0",)),  # several ports: chosen by source, or by nobody's address
        ("leaf-spine-2x2", ("leaf0",)),  # spreads by ports, with the seed of the topology; has no frames of its own
        ("leaf-spine-bgp", ("leaf0",)),
    ],
)
def test_commands_of_a_node_are_what_was_approved(topology: str, names: tuple[str, ...]) -> None:
    design = make_design(shipped_topology(topology), "x")
    texts = [f"== {name}\n{text_of([*node_batches(design.node(name), design)])}" for name in names]
    texts += [f"== rates of {name}\n{text_of([shaping_batch(design.node(name))])}" for name in names]
    approved(f"recipes/{topology}", "\n\n".join(texts) + "\n")


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


def test_cables_begin_and_end_in_namespaces() -> None:
    design = make_design(shipped_topology("two-hosts-switch"), "x")
    approved("recipes/cables", text_of([cables(design)]) + "\n")


def test_a_port_that_was_down_gets_back_what_the_kernel_deleted_with_it(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(IPV6_ROUTER)
    ipv6 = make_design(load_topology(tmp_path / "t.yaml", ranks=0, allow_networks=["2001:db8::/32"]), "x").node("sw0")
    host = make_design(shipped_topology("two-hosts-switch"), "x").node("h0")
    leaf = make_design(shipped_topology("leaf-spine-2x2"), "x").node("leaf0")
    learning = make_design(shipped_topology("leaf-spine-bgp"), "x").node("leaf0")
    devices, learned = ({port.device for port in node.ports} for node in (leaf, learning))
    cases = {
        "a host": restored(host, {"eth0"}),
        "no route leads through a port that is still down": restored(leaf, devices - {"u1"}),
        "routes that a protocol finds are not written": restored(learning, learned),
        "a router of IPv6": restored(ipv6, {"p1"}),
    }
    assert list(restored(host, set())) == []
    text = "\n\n".join("\n".join([f"== {name}", *lines]) for name, lines in cases.items())
    approved("recipes/restored", text + "\n")


def test_open_vswitch_runs_in_the_namespace_with_a_folder_of_its_own() -> None:
    """The database serves before the switch starts; frames leave by the port of their destination."""
    switch = make_design(shipped_topology("two-hosts-switch"), "x").node("sw0")
    approved("recipes/open-vswitch", text_of([*ovs_batches(switch, FOLDER), version_batch()]) + "\n")
