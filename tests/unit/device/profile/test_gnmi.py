"""Counters in the response to a gNMI Get. tests/integration/test_gnmi.py has the client."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.device.counters.counters import CounterReading
from emulator.device.counters.gnmi import GnmiCounters, readings
from emulator.errors import HostError
from emulator.topology.network import GnmiTarget

PATH = "interfaces/interface[name=Ethernet4]/state/counters"


def answer(path: str | None, value: Any, *, prefix: str | None = None) -> dict[str, Any]:
    return {"notification": [{"prefix": prefix, "update": [{"path": path, "val": value}]}]}


def test_known_leaves_become_counters_of_their_interface() -> None:
    values = {"in-pkts": "7", "out-octets": 9000, "carrier-transitions": "1"}
    assert list(readings("leaf0", answer(PATH, values))) == [
        CounterReading("leaf0", "Ethernet4", "rx_packets", 7),
        CounterReading("leaf0", "Ethernet4", "tx_bytes", 9000),
    ]


def test_leaves_may_have_the_name_of_their_module() -> None:
    values = {"openconfig-interfaces:in-discards": "3"}
    assert list(readings("leaf0", answer(PATH, values))) == [CounterReading("leaf0", "Ethernet4", "rx_dropped", 3)]


def test_the_interface_may_be_in_the_prefix() -> None:
    found = readings("leaf0", answer("state/counters", {"in-errors": 1}, prefix="interfaces/interface[name=eth 1/2]"))
    assert list(found) == [CounterReading("leaf0", "eth 1/2", "rx_errors", 1)]


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"notification": [{}]},
        answer("system/state", {"in-pkts": 1}),
        answer(PATH, None),
        answer(PATH, "7"),
        answer(None, {"in-pkts": 1}),
    ],
)
def test_everything_else_in_the_response_is_ignored(document: dict[str, Any]) -> None:
    assert list(readings("leaf0", document)) == []


def test_a_password_that_is_not_in_the_environment_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pygnmi")
    monkeypatch.delenv("LEAF_PASSWORD", raising=False)
    target = GnmiTarget("leaf0", "192.0.2.1:9339", password_env="LEAF_PASSWORD", insecure=True)
    with pytest.raises(HostError, match=r"^environment variable LEAF_PASSWORD is not set"):
        GnmiCounters(target).open()


def test_closing_without_a_connection_does_nothing() -> None:
    GnmiCounters(GnmiTarget("leaf0", "192.0.2.1:9339")).close()
