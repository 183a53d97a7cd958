import pytest

from emulator.errors import PlanError
from emulator.option import options_of
from emulator.roce.options import OPTIONS, RoceOptions


def test_text_becomes_numbers() -> None:
    options = RoceOptions.parse({"qps": "4", "path_mtu": "1024", "ecn": "ect1", "flow_rate_bps": "10Gbit"})
    assert (options.qps, options.path_mtu, options.ecn, options.flow_rate_bps) == (4, 1024, "ect1", 10**10)
    assert RoceOptions.parse({}) == RoceOptions()


def test_sizes_rates_and_names_are_taken_as_people_write_them() -> None:
    options = RoceOptions.parse({"window_bytes": "512K", "qp_timeout": "nccl", "rate_cap_bps": "off"})
    assert (options.window_bytes, options.qp_timeout, options.rate_cap_bps) == (512 << 10, 20, -1)
    assert RoceOptions.parse({"rate_cap_bps": "25Gbit"}).rate_cap_bps == 25 * 10**9


@pytest.mark.parametrize(
    ("texts", "port_rate", "cap", "line_rate"),
    [
        ({}, None, 0, 10**11),
        ({}, 4 * 10**10, 4 * 10**10, 4 * 10**10),
        ({"rate_cap_bps": "off"}, 4 * 10**10, 0, 4 * 10**10),
        ({"rate_cap_bps": "1Gbit"}, 4 * 10**10, 10**9, 10**9),
        ({"rate_cap_bps": "1Gbit"}, None, 10**9, 10**9),
        ({"rate_cap_bps": "90Gbit"}, 4 * 10**10, 4 * 10**10, 4 * 10**10),
        ({"flow_rate_bps": "5Gbit"}, 4 * 10**10, 4 * 10**10, 5 * 10**9),
    ],
    ids=str,
)
def test_the_cap_of_a_port_and_the_line_rate_follow_from_what_is_known(
    texts: dict[str, str], port_rate: int | None, cap: int, line_rate: int
) -> None:
    options = RoceOptions.parse(texts | {"congestion": "dcqcn"})
    assert (options.port_cap_bps(port_rate), options.line_rate_bps(port_rate)) == (cap, line_rate)
    assert options.congestion_maker(port_rate)().rate_bps(0) == line_rate
    described = options.described([port_rate])
    assert described["rate_cap_bps"] == (cap, "bit/s")
    assert described["dcqcn.line_rate_bps"] == (line_rate, "bit/s")


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("qps", "0", "--qps 0: from 1 to 64"),
        ("qps", "many", "--qps 'many': give a whole number"),
        ("path_mtu", "1500", "--path-mtu 1500: there are 256, 512, 1024, 2048, 4096"),
        ("congestion", "hope", "--congestion hope: there are none, dcqcn"),
        ("dcqcn_preset", "nonesuch", "--dcqcn-preset nonesuch: there are paper, "),
        ("flow_rate_bps", "10G", "--flow-rate '10G': give a rate with a unit"),
        ("flow_rate_bps", "10", "--flow-rate '10': give a rate with a unit"),
        ("rate_cap_bps", "none", "--rate-cap 'none': give a rate with a unit, such as 10Gbit, or off"),
        ("window_bytes", "big", "--window-bytes 'big': give a size"),
        ("verify_every", "0", "--verify-every 0: from 1 to"),
        ("colour", "red", "no option 'colour'; it has qps"),
    ],
)
def test_what_cannot_be_is_named(name: str, text: str, problem: str) -> None:
    with pytest.raises(PlanError, match=problem.replace("(", r"\(")):
        RoceOptions.parse({name: text})


def test_effective_values_carry_units() -> None:
    described = RoceOptions.parse({"congestion": "dcqcn", "flow_rate_bps": "25Gbit"}).described()
    assert described["path_mtu"] == (4096, "bytes")
    assert described["timeout_ns"] == (67_108_864, "ns")
    assert described["dcqcn.line_rate_bps"] == (25e9, "bit/s")
    assert not any(name.startswith("dcqcn.") for name in RoceOptions().described())


@pytest.mark.parametrize("field", OPTIONS)
def test_an_option_takes_either_a_choice_or_a_value(field: str) -> None:
    is_switch = isinstance(getattr(RoceOptions(), field), bool)
    assert bool(OPTIONS[field].choices) + bool(OPTIONS[field].metavar) + is_switch == 1


@pytest.mark.parametrize(("text", "value"), [("on", True), ("off", False), (True, True), ("true", True), (0, False)])
def test_a_switch_is_on_or_off(text: str | bool, value: bool) -> None:
    assert RoceOptions.parse({"survive": text}).survive is value
    with pytest.raises(PlanError, match="--survive 'maybe': it is on or off"):
        RoceOptions.parse({"survive": "maybe"})


@pytest.mark.parametrize("field", [name for name, one in OPTIONS.items() if one.choices])
def test_every_choice_can_be_set_and_the_default_is_one_of_them(field: str) -> None:
    for choice in OPTIONS[field].choices:
        assert str(getattr(RoceOptions.parse({field: choice}), field)) == choice
    assert str(getattr(RoceOptions(), field)) in OPTIONS[field].choices


def test_the_help_gives_the_default_of_the_field_or_in_words() -> None:
    texts = {one.name: one.text for one in options_of(RoceOptions)}
    assert texts["qps"] == "queue pairs per rank pair (default: 1)"
    assert texts["rate_cap_bps"].endswith("(default: the port's rate, if the topology has it)")
