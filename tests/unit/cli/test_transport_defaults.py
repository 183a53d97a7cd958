"""Where transport parameters come from: the command line, else the topology, else the defaults."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from emulator.cli.arguments import add_play_options
from emulator.cli.roce_arguments import add_roce_options, roce_options
from emulator.cli.transport_defaults import take_transport_defaults
from emulator.errors import PlanError
from emulator.topology.load import load_topology
from emulator.topology.model import Host, Topology

TOPOLOGIES = Path(__file__).parents[3] / "topologies"


def options(arguments: Sequence[str], topology: Topology) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_play_options(parser, iterations=1, warmup=0)
    add_roce_options(parser)
    args = parser.parse_args(arguments)
    take_transport_defaults(args, topology)
    return args


def topology(transport: Mapping[str, str | int]) -> Topology:
    return Topology("t", (Host("h0"),), (0,), ("127.0.0.1",), source="t.yaml", transport=transport)


def test_without_a_word_it_is_the_first_transport() -> None:
    args = options([], topology({}))
    assert (args.transport, args.message_bytes) == ("zmq", 1 << 20)


def test_the_topology_names_transport_and_parameters() -> None:
    args = options([], topology({"name": "roce", "qps": 4, "message-bytes": "64K", "congestion": "dcqcn"}))
    given, effective = roce_options(args)
    assert (args.transport, args.message_bytes) == ("roce", 64 << 10)
    assert given == {"qps": "4", "congestion": "dcqcn"}
    assert effective["roce.qps"].value == 4


def test_the_command_line_goes_before_the_topology() -> None:
    named = topology({"name": "roce", "qps": 4, "message_bytes": 100})
    args = options(["--qps", "2", "--message-bytes", "1K"], named)
    assert (args.roce_qps, args.message_bytes) == (2, 1024)
    assert options(["--transport", "zmq"], named).message_bytes == 1 << 20  # they are roce's parameters


@pytest.mark.parametrize(
    ("name", "arguments", "path_mtu"),
    [
        ("two-hosts-switch", [], 1024),
        ("rail-4x4", [], 4096),
        ("two-hosts-switch", ["--path-mtu", "256"], 256),
        ("loopback", ["--transport", "roce"], None),
    ],
)
def test_packets_fit_the_links(name: str, arguments: list[str], path_mtu: int | None) -> None:
    assert options(arguments, load_topology(TOPOLOGIES / f"{name}.yaml", ranks=2)).roce_path_mtu == path_mtu


@pytest.mark.parametrize(
    ("transport", "problem"),
    [
        (
            {"name": "roce", "colour": "red"},
            "t.yaml: transport roce has no parameter 'colour'; it has message_bytes, q",
        ),
        ({"name": "zmq", "qps": 2}, "t.yaml: transport zmq has no parameter 'qps'; it has message_bytes"),
        ({"name": "zmq", "message_bytes": "much"}, "t.yaml: transport message_bytes: 'much' is no size"),
        ({"name": "zmq", "message_bytes": 0}, "t.yaml: transport message_bytes: 0 is outside"),
    ],
)
def test_what_a_topology_gets_wrong_is_named(transport: Mapping[str, str | int], problem: str) -> None:
    with pytest.raises(PlanError) as caught:
        options([], topology(transport))
    assert problem in str(caught.value)
