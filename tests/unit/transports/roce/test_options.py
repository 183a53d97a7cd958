import pytest

from agents.transports.roce.options import RoceOptions
from emulator.errors import PlanError


def test_text_becomes_numbers() -> None:
    options = RoceOptions.parse({"qps": "4", "path_mtu": "1024", "ecn": "ect1", "rate_bps": "10Gbit"})
    assert (options.qps, options.path_mtu, options.ecn, options.rate_bps) == (4, 1024, "ect1", 10**10)
    assert RoceOptions.parse({}) == RoceOptions()


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("qps", "0", "--qps 0: from 1 to 64"),
        ("qps", "many", "--qps 'many': a whole number is needed"),
        ("path_mtu", "1500", "--path-mtu 1500: there are 256, 512, 1024, 2048, 4096"),
        ("congestion", "hope", "--congestion hope: there are none, dcqcn"),
        ("dcqcn_preset", "nonesuch", "no DCQCN preset 'nonesuch'"),
        ("rate_bps", "10G", "--rate '10G'"),
        ("colour", "red", "no option 'colour'; it has qps"),
    ],
)
def test_what_cannot_be_is_named(name: str, text: str, problem: str) -> None:
    with pytest.raises(PlanError, match=problem.replace("(", r"\(")):
        RoceOptions.parse({name: text})


def test_effective_values_carry_units() -> None:
    described = RoceOptions.parse({"congestion": "dcqcn", "rate_bps": "25Gbit"}).described()
    assert described["path_mtu"] == (4096, "bytes")
    assert described["timeout_ns"] == (67_108_864, "ns")
    assert described["dcqcn.line_rate_bps"] == (25e9, "bit/s")
    assert not any(name.startswith("dcqcn.") for name in RoceOptions().described())
