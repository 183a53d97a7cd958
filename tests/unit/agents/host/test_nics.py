"""Which interfaces carry the addresses of ranks."""

from __future__ import annotations

import pytest

from agents.host import nics
from agents.host.nics import nics_of
from emulator.errors import HostError


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nics, "nic_facts", lambda name: name)
    monkeypatch.setattr("emulator.host.iproute.holders", lambda: {"192.0.2.1": "eth0", "192.0.2.2": "eth0"})


def test_each_interface_is_listed_once_and_by_name() -> None:
    assert nics_of(["192.0.2.2", "127.0.0.1", "192.0.2.1", "192.0.2.7"], {"192.0.2.7": "eth1"}) == [
        "eth0",
        "eth1",
        "lo",
    ]


def test_known_interfaces_come_before_those_that_hold_the_address() -> None:
    assert nics_of(["192.0.2.1", "127.0.0.1"], {"192.0.2.1": "eth5", "127.0.0.1": "eth6"}) == ["eth5", "eth6"]


def test_an_address_of_no_interface_is_left_out() -> None:
    assert nics_of(["198.51.100.1"], {}) == []


def test_without_the_ip_command_only_known_interfaces_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing() -> None:
        raise HostError("ip is missing on this host: apt-get install iproute2")

    monkeypatch.setattr("emulator.host.iproute.holders", refusing)
    assert nics_of(["192.0.2.1", "::1", "192.0.2.7"], {"192.0.2.7": "eth1"}) == ["eth1", "lo"]
