"""Where transport parameters come from: the command line, else the topology, else the defaults."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path

import pytest

from emulator.cli.options.arguments import add_play_options
from emulator.cli.options.roce import add_roce_options, roce_options
from emulator.control.parameter import Parameter
from emulator.errors import PlanError
from emulator.experiment.transport_defaults import take_lab_defaults, take_transport_defaults
from emulator.roce.options import RoceOptions
from emulator.topology.load import load_topology
from emulator.topology.model import Host, Topology, default_loopback

TOPOLOGIES = Path(__file__).parents[3] / "topologies"


def options(arguments: Sequence[str], topology: Topology) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_play_options(parser, iterations=1, warmup=0)
    add_roce_options(parser)
    args = parser.parse_args(arguments)
    take_transport_defaults(args, topology)
    return args


def topology(transport: Mapping[str, str | int | bool]) -> Topology:
    return Topology("t", (Host("h0"),), (0,), ("127.0.0.1",), source="t.yaml", transport=transport)


def test_without_a_word_it_is_the_first_transport() -> None:
    args = options([], topology({}))
    assert (args.transport, args.message_bytes) == ("roce", 4 << 20)


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


EVERY_OPTION: Mapping[str, tuple[str | int | bool, str, str | int]] = {
    # what a file says (YAML makes `off` a boolean), what the command line says, what is in effect of the file's
    "qps": (4, "2", 4),
    "path_mtu": (512, "256", 512),
    "window_bytes": ("256K", "64K", 256 << 10),
    "call_bytes": ("16K", "8K", 16 << 10),
    "qp_timeout": ("nccl", "9", 20),
    "retry_count": (3, "2", 3),
    "congestion": ("dcqcn", "none", "dcqcn"),
    "dcqcn_preset": ("paper", "otg", "paper"),
    "flow_rate": ("5Gbit", "1Gbit", 5 * 10**9),
    "rate_cap": (False, "1Gbit", -1),
    "dscp": (10, "11", 10),
    "ack_dscp": (12, "13", 12),
    "cnp_dscp": (14, "15", 14),
    "ecn": (False, "ect1", "off"),
    "source_port": ("random", "fixed", "random"),
    "payload": ("random", "constant", "random"),
    "receiver": ("ooo", "gbn", "ooo"),
    "verify_every": (7, "8", 7),
}


def test_every_option_is_tried_below() -> None:
    assert set(EVERY_OPTION) == {field.name.removesuffix("_bps") for field in fields(RoceOptions)}


@pytest.mark.parametrize("name", EVERY_OPTION)
def test_the_topology_may_set_every_option_and_the_command_line_overrides_it(name: str) -> None:
    said, argument, effective = EVERY_OPTION[name]
    field = f"{name}_bps" if name in ("flow_rate", "rate_cap") else name
    spelling = f"--{name.replace('_', '-')}"
    for key in (name, field, name.replace("_", "-")):
        given, _ = roce_options(options([], topology({"name": "roce", key: said})))
        assert getattr(RoceOptions.parse(given), field) == effective
    overridden, _ = roce_options(options([spelling, argument], topology({"name": "roce", name: said})))
    alone, _ = roce_options(options([spelling, argument], topology({"name": "roce"})))
    assert overridden == alone
    assert getattr(RoceOptions.parse(alone), field) != effective


def test_ports_with_a_rate_have_dcqcn_at_that_rate_and_loopback_has_none() -> None:
    _, lab = roce_options(options([], load_topology(TOPOLOGIES / "rail-4x4.yaml", ranks=16)))
    rate = load_topology(TOPOLOGIES / "rail-4x4.yaml", ranks=16).rate_bps(0)
    assert lab["roce.congestion"].value == "dcqcn"
    assert lab["roce.dcqcn.line_rate_bps"] == Parameter(rate, "bit/s")
    assert lab["roce.rate_cap_bps"] == Parameter(rate, "bit/s")
    _, loopback = roce_options(options(["--transport", "roce"], default_loopback(2)))
    assert loopback["roce.congestion"].value == "none"
    assert loopback["roce.rate_cap_bps"].value == 0


@pytest.mark.parametrize(("name", "window"), [("eight-hosts-switch", 500_000), ("rail-4x4", 0), ("loopback", 0)])
def test_the_window_is_a_time_at_slow_ports_and_the_usual_one_elsewhere(name: str, window: int) -> None:
    _, effective = roce_options(options([], load_topology(TOPOLOGIES / f"{name}.yaml", ranks=8)))
    assert effective["roce.window_bytes"].value == window


@pytest.mark.parametrize(
    ("name", "call"), [("two-hosts-switch", 37_800), ("eight-hosts-switch", 0), ("leaf-spine-2x2", 0), ("loopback", 0)]
)
def test_in_a_lab_a_call_is_what_hosts_with_fast_ports_let_pass_and_the_usual_one_elsewhere(
    name: str, call: int
) -> None:
    args = options([], load_topology(TOPOLOGIES / f"{name}.yaml", ranks=4))
    assert roce_options(args)[1]["roce.call_bytes"] == Parameter(0, "bytes")  # a NIC takes what the kernel hands it
    take_lab_defaults(args)
    assert roce_options(args)[1]["roce.call_bytes"] == Parameter(call, "bytes")


def test_the_length_of_a_call_that_somebody_names_stays_in_a_lab_and_zmq_has_none() -> None:
    fast = load_topology(TOPOLOGIES / "two-hosts-switch.yaml", ranks=2)
    args = options(["--call-bytes", "8K"], fast)
    take_lab_defaults(args)
    assert roce_options(args)[1]["roce.call_bytes"] == Parameter(8 << 10, "bytes")
    args = options(["--transport", "zmq"], fast)
    take_lab_defaults(args)
    assert args.roce_call_bytes is None


def test_one_port_without_a_rate_is_enough_to_leave_congestion_control_off(tmp_path: Path) -> None:
    path = tmp_path / "half.yaml"
    path.write_text(
        "hosts:\n  - {name: a, address: 127.9.0.1, rate: 1Gbit}\n  - {name: b, address: 127.9.0.2}\n"
        "transport: {name: roce}\n"
    )
    args = options([], load_topology(path, ranks=2))
    assert args.roce_congestion is None
    assert options(["--congestion", "dcqcn"], load_topology(path, ranks=2)).roce_congestion == "dcqcn"


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
        ({"name": "roce", "qps": 0}, "t.yaml: transport: qps 0: from 1 to 64"),
        ({"name": "roce", "flow_rate": "5G"}, "t.yaml: transport: flow-rate '5G': a rate with its unit"),
        ({"name": "roce", "payload": True}, "t.yaml: transport: payload on: there are constant, random"),
        ({"name": "zmq", "qps": 2}, "t.yaml: transport zmq has no parameter 'qps'; it has message_bytes"),
        ({"name": "zmq", "message_bytes": "much"}, "t.yaml: transport message_bytes: 'much' is not a size"),
        ({"name": "zmq", "message_bytes": 0}, "t.yaml: transport message_bytes: 0 is outside"),
    ],
)
def test_what_a_topology_gets_wrong_is_named(transport: Mapping[str, str | int], problem: str) -> None:
    with pytest.raises(PlanError) as caught:
        options([], topology(transport))
    assert problem in str(caught.value)
