"""Where agents of other machines dial in: what is refused before anything listens."""

from dataclasses import replace

import pytest

from emulator.controller.roster.listen_address import ListenAddress
from emulator.errors import PlanError
from emulator.topology.model import default_loopback

TOPOLOGY = default_loopback(4)


@pytest.mark.parametrize("target", ["4790", "host", ":4790", "192.0.2.1:", "192.0.2.1:http", "192.0.2.1:65536"])
def test_an_address_without_host_or_port_is_refused(target: str) -> None:
    with pytest.raises(PlanError, match="give HOST:PORT"):
        ListenAddress(target, "secret").check(TOPOLOGY)


def test_a_network_address_needs_a_token_and_a_socket_in_the_file_system_does_not() -> None:
    with pytest.raises(PlanError, match="--token-file FILE, or CHARKHA_TOKEN"):
        ListenAddress("192.0.2.1:4790", None).check(TOPOLOGY)
    ListenAddress("unix:/run/x", None).check(TOPOLOGY)
    assert ListenAddress("unix:/run/x", None).is_unix


def test_control_must_not_cross_the_device() -> None:
    taken = TOPOLOGY.addresses[0]
    with pytest.raises(PlanError, match="control must not cross the DUT"):
        ListenAddress(f"{taken}:4790", "secret").check(TOPOLOGY)
    ListenAddress("[2001:db8::1]:4790", "secret").check(TOPOLOGY)
    ListenAddress("controller.example:4790", "secret").check(TOPOLOGY)


def test_control_must_not_cross_the_device_to_a_second_address() -> None:
    topology = replace(TOPOLOGY, alternates=("", "", "", "198.18.0.9"))
    with pytest.raises(PlanError, match="control must not cross the DUT"):
        ListenAddress("198.18.0.9:4790", "secret").check(topology)


def test_the_token_does_not_appear_in_logs() -> None:
    assert "secret" not in repr(ListenAddress("192.0.2.1:4790", "secret"))
