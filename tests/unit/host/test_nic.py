"""Structures of the ethtool ioctl, read field by field."""

import struct
from typing import Any

import pytest

from emulator.host.nic import facts_in, nic_facts
from emulator.host.nic_facts import NicFacts


def settings(low: int, high: int) -> bytes:
    """struct ethtool_cmd with this speed, Mbit/s."""
    answer = bytearray(44)
    struct.pack_into("H", answer, 12, low)
    struct.pack_into("H", answer, 28, high)
    return bytes(answer)


def driver(name: bytes, firmware: bytes) -> bytes:
    """struct ethtool_drvinfo."""
    return struct.pack("I32s32s32s96x", 3, name, b"6.1", firmware)


def test_all_that_a_driver_reports() -> None:
    found = facts_in("eth0", settings=settings(25_000, 0), driver=driver(b"mlx5_core", b"16.35.2000 (MT_1)"), mtu=9000)
    assert found == NicFacts("eth0", "mlx5_core", "16.35.2000 (MT_1)", 25_000_000_000, 9000)


@pytest.mark.parametrize(
    ("low", "high", "speed_bps"),
    [
        (100, 0, 100_000_000),
        (0x86A0, 1, 100_000_000_000),  # 100,000 Mbit/s takes both halves
        (0x1A80, 6, 400_000_000_000),
        (0xFFFF, 0, None),
        (0xFFFF, 0xFFFF, None),
        (0, 0, None),
    ],
)
def test_a_speed_has_two_halves_and_may_be_unknown(low: int, high: int, speed_bps: int | None) -> None:
    assert facts_in("eth0", settings=settings(low, high), driver=None, mtu=None) == NicFacts(
        "eth0", speed_bps=speed_bps
    )


@pytest.mark.parametrize("text", [b"", b"N/A", b"   "])
def test_texts_that_say_nothing_are_none(text: bytes) -> None:
    found = facts_in("eth0", settings=None, driver=driver(b"veth", text), mtu=1500)
    assert (found.driver, found.firmware) == ("veth", None)


def test_texts_of_32_bytes_need_no_end() -> None:
    found = facts_in("eth0", settings=None, driver=driver(b"d" * 32, b"f\xff"), mtu=None)
    assert (found.driver, found.firmware) == ("d" * 32, "f\ufffd")


def test_without_answers_there_are_no_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(*_: Any) -> Any:
        raise OSError

    monkeypatch.setattr("fcntl.ioctl", refusing)
    assert nic_facts("eth0") == NicFacts("eth0")
