"""Where transport parameters come from: the command line, else the topology, else the defaults."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.cli.commands import plan, run
from emulator.cli.options import add_options, build
from emulator.cli.options import given as given_options
from emulator.cli.parser import Parser
from emulator.control.parameter import Parameter
from emulator.errors import PlanError
from emulator.experiment.settle.defaults import Resolved, resolve
from emulator.experiment.spec.spec import Experiment, Network, Transport
from emulator.roce.options import RoceOptions
from emulator.topology.load import load_topology
from emulator.topology.model import Host, Topology, default_loopback
from tests.support.full import examples
from tests.support.topologies import shipped_topology


def resolved(arguments: Sequence[str], topology: Topology, *, in_lab: bool = False) -> Resolved:
    parser = Parser()
    add_options(parser, run.OPTIONS)
    args = parser.parse_args(["trace", *arguments])
    return resolve(build(given_options(args, run.OPTIONS), run.OPTIONS), topology, in_lab=in_lab)


def roce(arguments: Sequence[str], topology: Topology, *, in_lab: bool = False) -> Mapping[str, Parameter]:
    return resolved(arguments, topology, in_lab=in_lab).parameters("roce.")


def source(found: Resolved, name: str) -> str:
    return next(one.source for one in found.settings if one.name == name)


def topology(transport: Mapping[str, str | int | bool]) -> Topology:
    return Topology("t", (Host("h0"),), (0,), ("127.0.0.1",), source="t.yaml", transport=transport)


def test_without_a_word_it_is_the_first_transport() -> None:
    found = resolved([], topology({}))
    assert (found.transport.name, found.message_bytes) == ("roce", 4 << 20)
    assert source(found, "transport") == source(found, "message_bytes") == "default"


@pytest.mark.parametrize(
    ("arguments", "meant", "shown"),
    [([], 0, "off"), (["--record-steps", "worst"], -1, "worst"), (["--record-steps", "7"], 7, "7")],
)
def test_steps_are_recorded_only_where_asked(arguments: list[str], meant: int, shown: str) -> None:
    found = resolved(arguments, topology({}))
    (setting,) = (one for one in found.settings if one.name == "record_steps")
    assert (found.record_steps, setting.value) == (meant, shown)
    assert setting.source == ("asked" if arguments else "default")


def test_the_topology_names_transport_and_parameters() -> None:
    found = resolved([], topology({"name": "roce", "qps": 4, "message-bytes": "64K", "congestion": "dcqcn"}))
    assert (found.transport.name, found.message_bytes) == ("roce", 64 << 10)
    assert found.options == RoceOptions(qps=4, congestion="dcqcn", split="off")
    assert found.parameters("roce.")["roce.qps"].value == 4
    assert {source(found, name) for name in ("transport", "message_bytes", "roce.qps")} == {"topology"}


def test_the_command_line_goes_before_the_topology() -> None:
    named = topology({"name": "roce", "qps": 4, "message_bytes": 100})
    found = resolved(["--qps", "2", "--message-bytes", "1K"], named)
    assert (found.roce.qps, found.message_bytes) == (2, 1024)
    assert source(found, "roce.qps") == source(found, "message_bytes") == "asked"
    assert resolved(["--transport", "zmq"], named).message_bytes == 1 << 20  # they are roce's parameters


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
    "time_stamps": ("kernel", "reader", "kernel"),
    "split": (False, "on", "off"),
    "timeline": ("10ms", "1ms", "10ms"),
    "verify_every": (7, "8", 7),
    "multipath": (4, "2", 4),
    "entropy": ("batch", "packet", "batch"),
    "entropy_field": ("flow-label", "port", "flow-label"),
}


def test_every_option_is_tried_below() -> None:
    assert set(EVERY_OPTION) == {field.name.removesuffix("_bps") for field in fields(RoceOptions)} - {"survive"}


TWO_PORTS = """hosts:
  - name: h0
    interfaces: [{name: eth0, address: 127.9.0.1}, {name: eth1, addresses: [127.9.1.1, 127.9.1.2]}]
  - {name: h1, per_rank: 127.9.2.0/24}
placement: {0: "h0:eth0", 1: "HOST"}
"""


def two_ports(folder: Path, second: str, transport: str = "") -> Topology:
    (folder / "t.yaml").write_text(TWO_PORTS.replace("HOST", second) + transport)
    return load_topology(folder / "t.yaml", ranks=2)


def test_a_run_that_is_to_survive_needs_second_addresses(tmp_path: Path) -> None:
    assert not resolved([], two_ports(tmp_path, "h1")).options.survive  # type: ignore[union-attr]
    with pytest.raises(PlanError, match="--survive: rank 1 has no second address, as h1 has one interface"):
        resolved(["--survive"], two_ports(tmp_path, "h1"))
    taken = "rank 1 has no second address, as the next interface of h0 has no address left for it"
    with pytest.raises(PlanError, match=taken):
        resolved(["--survive"], two_ports(tmp_path, "h0:eth1"))


@pytest.mark.parametrize("said", ["survive: true", "survive: 'on'"])
def test_a_topology_may_say_that_runs_survive(tmp_path: Path, said: str) -> None:
    text = TWO_PORTS.replace("{name: eth0, address: 127.9.0.1}", "{name: eth0, addresses: [127.9.0.1, 127.9.0.2]}")
    (tmp_path / "t.yaml").write_text(text.replace("HOST", "h0:eth1") + f"transport: {{name: roce, {said}}}\n")
    found = resolved([], load_topology(tmp_path / "t.yaml", ranks=2))
    assert found.parameters("roce.")["roce.survive"].value is True
    with pytest.raises(PlanError, match="leave out --multipath"):
        resolved(["--multipath", "4"], load_topology(tmp_path / "t.yaml", ranks=2))


@pytest.mark.parametrize("name", EVERY_OPTION)
def test_the_topology_may_set_every_option_and_the_command_line_overrides_it(name: str) -> None:
    said, argument, effective = EVERY_OPTION[name]
    field = f"{name}_bps" if name in ("flow_rate", "rate_cap") else name
    spelling = f"--{name.replace('_', '-')}"
    for key in (name, field, name.replace("_", "-")):
        assert getattr(resolved([], topology({"name": "roce", key: said})).roce, field) == effective
    overridden = resolved([spelling, argument], topology({"name": "roce", name: said}))
    alone = resolved([spelling, argument], topology({"name": "roce"}))
    assert overridden.options == alone.options
    assert getattr(alone.roce, field) != effective


def test_ports_with_a_rate_have_dcqcn_at_that_rate_and_loopback_has_none() -> None:
    lab = roce([], shipped_topology("rail-4x4", ranks=16))
    rate = shipped_topology("rail-4x4", ranks=16).rate_bps(0)
    assert lab["roce.congestion"].value == "dcqcn"
    assert lab["roce.dcqcn.line_rate_bps"] == Parameter(rate, "bit/s")
    assert lab["roce.rate_cap_bps"] == Parameter(rate, "bit/s")
    loopback = roce(["--transport", "roce"], default_loopback(2))
    assert loopback["roce.congestion"].value == "none"
    assert loopback["roce.rate_cap_bps"].value == 0


@pytest.mark.parametrize(("name", "window"), [("eight-hosts-switch", 500_000), ("rail-4x4", 0), ("loopback", 0)])
def test_the_window_is_a_time_at_slow_ports_and_the_usual_one_elsewhere(name: str, window: int) -> None:
    assert roce([], shipped_topology(name, ranks=8))["roce.window_bytes"].value == window


@pytest.mark.parametrize(
    ("name", "call"), [("two-hosts-switch", 31_500), ("eight-hosts-switch", 0), ("leaf-spine-2x2", 0), ("loopback", 0)]
)
def test_in_a_lab_a_call_is_what_hosts_with_fast_ports_let_pass_and_the_usual_one_elsewhere(
    name: str, call: int
) -> None:
    place = shipped_topology(name, ranks=4)
    assert roce([], place)["roce.call_bytes"] == Parameter(0, "bytes")  # a NIC takes what the kernel hands it
    assert roce([], place, in_lab=True)["roce.call_bytes"] == Parameter(call, "bytes")


def test_the_length_of_a_call_that_somebody_names_stays_in_a_lab_and_zmq_has_none() -> None:
    fast = shipped_topology("two-hosts-switch", ranks=2)
    assert roce(["--call-bytes", "8K"], fast, in_lab=True)["roce.call_bytes"] == Parameter(8 << 10, "bytes")
    found = resolved(["--transport", "zmq"], fast, in_lab=True)
    assert found.options is None


def test_one_port_without_a_rate_is_enough_to_leave_congestion_control_off(tmp_path: Path) -> None:
    path = tmp_path / "half.yaml"
    path.write_text(
        "hosts:\n  - {name: a, address: 127.9.0.1, rate: 1Gbit}\n  - {name: b, address: 127.9.0.2}\n"
        "transport: {name: roce}\n"
    )
    place = load_topology(path, ranks=2)
    assert roce([], place)["roce.congestion"].value == "none"
    assert roce(["--congestion", "dcqcn"], place)["roce.congestion"].value == "dcqcn"


@pytest.mark.parametrize(
    ("name", "arguments", "path_mtu"),
    [
        ("two-hosts-switch", [], 1024),
        ("rail-4x4", [], 4096),
        ("two-hosts-switch", ["--path-mtu", "256"], 256),
        ("loopback", ["--transport", "roce"], 4096),
    ],
)
def test_packets_fit_the_links(name: str, arguments: list[str], path_mtu: int) -> None:
    place = shipped_topology(name, ranks=2)
    assert roce(arguments, place)["roce.path_mtu"].value == path_mtu


@pytest.mark.parametrize(
    ("transport", "problem"),
    [
        (
            {"name": "roce", "colour": "red"},
            "t.yaml: transport roce has no parameter 'colour'; it has message_bytes, q",
        ),
        ({"name": "roce", "qps": 0}, "t.yaml: transport: qps 0: from 1 to 64"),
        ({"name": "roce", "flow_rate": "5G"}, "t.yaml: transport: flow-rate '5G': give a rate with a unit"),
        ({"name": "roce", "payload": True}, "t.yaml: transport: payload on: there are constant, random"),
        ({"name": "zmq", "qps": 2}, "t.yaml: transport zmq has no parameter 'qps'; it has message_bytes"),
        ({"name": "zmq", "message_bytes": "much"}, "t.yaml: transport message_bytes: 'much' is not a size"),
        ({"name": "zmq", "message_bytes": 0}, "t.yaml: transport message_bytes: 0 is outside"),
    ],
)
def test_what_a_topology_gets_wrong_is_named(transport: Mapping[str, str | int], problem: str) -> None:
    with pytest.raises(PlanError) as caught:
        resolved([], topology(transport))
    assert problem in str(caught.value)


def test_flow_labels_are_entropy_only_where_every_rank_has_one() -> None:
    labels = ["--multipath", "4", "--entropy-field", "flow-label"]
    with pytest.raises(PlanError, match="rank 0 has the IPv4 address 127"):
        resolved(labels, default_loopback(2))
    resolved(labels[2:], default_loopback(2))


def test_derived_settings_give_their_reason() -> None:
    found = resolved([], shipped_topology("two-hosts-switch", ranks=2))
    reasons = {one.name: one.reason for one in found.settings if one.source == "derived"}
    assert reasons["roce.path_mtu"] == "largest that fits the link MTU of 1500"
    assert reasons["roce.congestion"] == "the port of every rank has a rate"
    assert "roce.qps" not in reasons


def test_sizes_as_text_in_a_topology_are_planned_as_they_are_played() -> None:
    named = topology({"name": "roce", "message_bytes": "4M"})
    assert resolved([], named).message_bytes == 4 << 20


@pytest.mark.parametrize("name", ["two-hosts-switch", "rail-4x4", "loopback", "leaf-spine-2x2"])
@given(
    transport=st.sampled_from([(), ("--transport", "zmq"), ("--transport", "roce")]),
    message=st.sampled_from([(), ("--message-bytes", "64K"), ("--message-bytes", "1M")]),
    algorithm=st.sampled_from([(), ("--algorithm", "all_reduce=ring"), ("--algorithm", "all_to_all=pairwise")]),
    scale=st.sampled_from([(), ("--scale-bytes", "1/64")]),
    elements=st.sampled_from([(), ("--element-bytes", "4")]),
)
@settings(max_examples=examples(125), deadline=None)
def test_plan_and_run_resolve_equal_settings(name: str, **words: tuple[str, ...]) -> None:
    arguments = ["trace", "--topology", "t.yaml", *(word for part in words.values() for word in part)]
    place = shipped_topology(name, ranks=2)
    found = []
    for command in (run, plan):
        parser = Parser()
        add_options(parser, command.OPTIONS)
        experiment = build(given_options(parser.parse_args(arguments), command.OPTIONS), command.OPTIONS)
        found.append(resolve(experiment, place))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("transport", "problem"),
    [
        (Transport(name="carrier_pigeon"), "there is no transport 'carrier_pigeon'; choose from roce, zmq"),
        (Transport(name="zmq", options={"qps": 2}), "--qps is for --transport roce, not for zmq"),
        (Transport(name="zmq", options={"colour": "red"}), "transport zmq has no option 'colour'; it has none"),
        (Transport(options={"colour": "red"}), "transport roce has no option 'colour'; it has qps, path-mtu"),
        (Transport(options={"qps": 65}), "--qps 65: from 1 to 64"),
        (Transport(options={"qps": "many"}), "--qps"),
        (Transport(options={"congestion": "hope"}), "--congestion hope: there are none, dcqcn"),
        (Transport(options={"flow_rate": "fast"}), "--flow-rate 'fast': give a rate with a unit"),
        (Transport(options={"path_mtu": 1000}), "--path-mtu 1000"),
    ],
)
def test_a_run_spec_that_a_transport_cannot_follow_is_refused(transport: Transport, problem: str) -> None:
    experiment = Experiment.of_trace("t", network=Network(transport=transport))
    with pytest.raises(PlanError) as caught:
        resolve(experiment, default_loopback(2))
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("algorithms", "problem"),
    [({"all_reduce": "warp"}, "no algorithm 'warp'"), ({"all_warp": "ring"}, "no collective 'all_warp'")],
)
def test_an_algorithm_that_does_not_exist_is_refused(algorithms: dict[str, str], problem: str) -> None:
    with pytest.raises(PlanError, match=problem):
        resolve(Experiment.of_trace("t", algorithms=algorithms), default_loopback(2))


def test_a_topology_can_name_only_a_transport_that_exists() -> None:
    with pytest.raises(PlanError, match="there is no transport 'smoke'"):
        resolved([], topology({"name": "smoke"}))


def test_an_mtu_of_the_run_replaces_that_of_the_links_and_the_path_mtu_chosen_for_it() -> None:
    place = topology({"name": "roce", "path_mtu": 4096})
    found = resolve(Experiment.of_trace("t", network=Network(mtu=1500)), place)
    assert found.mtu == 1500
    assert found.roce.path_mtu == 1024
    assert (
        next(one.reason for one in found.settings if one.name == "roce.path_mtu")
        == "largest that fits the link MTU of 1500"
    )


@pytest.mark.parametrize(
    ("experiment", "iterations"), [(Experiment.of_trace("t"), 5), (Experiment.of_sweep("all_reduce", ranks=2), 20)]
)
def test_a_sweep_has_more_iterations_than_a_trace(experiment: Experiment, iterations: int) -> None:
    found = resolve(experiment, default_loopback(2))
    assert (found.iterations, found.warmup, found.credits, found.seed) == (iterations, 1, True, 0)
    assert (found.timeout_s, found.join_timeout_s, found.counters_every_s) == (60, 60, 1)


def test_every_value_of_the_run_spec_is_requested_and_every_other_one_is_not() -> None:
    experiment = Experiment.of_trace(
        "t", iterations=7, warmup=0, credits=False, compute="skip", algorithms={"all_reduce": "ring"}
    )
    found = resolve(experiment, default_loopback(2))
    requested = {one.name: one.value for one in found.settings if one.source == "asked"}
    assert requested == {"iterations": 7, "warmup": 0, "credits": False, "compute": 0.0, "algorithm.all_reduce": "ring"}


@pytest.mark.parametrize(
    ("rate_bps", "window_bytes"),
    [
        (10**6, 64 << 10),  # 40 ms are 5,000 bytes: less than the least
        (13_107_200, 64 << 10),  # exactly the least
        (10**8, 500_000),
        (419_430_400, 0),  # 40 ms are exactly the usual window
        (10**9, 0),
    ],
)
def test_the_window_follows_the_slowest_port(rate_bps: int, window_bytes: int) -> None:
    hosts = (Host("h0", rate_bps), Host("h1", 10**10))
    place = Topology("t", hosts, (0, 1), ("127.0.0.1", "127.0.0.2"))
    found = resolve(Experiment.of_trace("t"), place)
    assert found.roce.window_bytes == window_bytes
