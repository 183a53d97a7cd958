import pytest

from agents.transports.roce_channel import Ends, first_psn, folded_port, qpn, source_ports
from agents.transports.roce_options import RoceOptions
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


def test_both_ends_agree_on_numbers_without_telling() -> None:
    here = Ends(3, "127.0.0.3", 900, "127.0.3.132", index=2, qps=4)
    there = Ends(900, "127.0.3.132", 3, "127.0.0.3", index=2, qps=4)
    assert (here.own_qpn, here.peer_qpn) == (there.peer_qpn, there.own_qpn)
    numbers = {qpn(peer, index, qps=4) for peer in range(1024) for index in range(5)}
    assert len(numbers) == 1024 * 5
    assert max(numbers) < 1 << 24
    assert min(numbers) > 1  # 0 and 1 are special
    assert first_psn(3, 900, index=2, seed=1) != first_psn(900, 3, index=2, seed=1)
    assert first_psn(3, 900, index=2, seed=1) != first_psn(3, 900, index=2, seed=2)


def test_source_ports() -> None:
    ends = Ends(3, "127.0.0.3", 4, "127.0.0.4", index=1, qps=4)
    assert (
        folded_port(0x10001, 0x10001)
        == 0xC000 | (0x10001**2 ^ 0x10001**2 >> 20) & 0x3FFF ^ ((0x10001**2 ^ 0x10001**2 >> 20) & 0xFFFFF) >> 14
    )
    for policy, count in (("fold", 1), ("fixed", 1), ("random", 1), ("message", 16)):
        ports = source_ports(policy, ends, seed=5)
        assert ports == source_ports(policy, ends, seed=5)
        assert len(ports) == count
        assert all(0xC000 <= port <= 0xFFFF for port in ports)
    assert source_ports("random", ends, seed=5) != source_ports("random", ends, seed=6)
