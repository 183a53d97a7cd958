"""What is said of interfaces is what the kernel says, in the namespace that the agent is in."""

import json
import subprocess
import sys

import pytest

from agents.host.ports import nics_of
from emulator.host import iproute
from emulator.host.nic import nic_facts
from emulator.host.nic_facts import NicFacts
from tests.support.skips import need

PREPARE = (
    "ip link add fresh type veth peer name other && ip link set fresh mtu 4321 up && ip link set other up"
    " && ip address add 198.18.7.1/24 dev fresh && ip address add 198.18.7.2/24 dev fresh"
)
ASK = """
import json, dataclasses
from agents.host.ports import nics_of
found = nics_of(["198.18.7.1", "198.18.7.2", "198.18.9.9", "127.0.0.1"], {})
print(json.dumps([dataclasses.asdict(nic) for nic in found]))
"""


def test_loopback_has_an_mtu_and_neither_driver_nor_speed() -> None:
    lo = nic_facts("lo")
    assert (lo.interface, lo.driver, lo.firmware, lo.speed_bps) == ("lo", None, None, None)
    assert lo.mtu
    assert lo.mtu >= 1500


def test_an_interface_that_is_not_there_has_no_facts() -> None:
    assert nic_facts("nonesuch0") == NicFacts("nonesuch0")
    assert nic_facts("a-name-that-is-too-long-for-linux") == NicFacts("a-name-that-is-too-long-for-linux")


def test_loopback_addresses_are_known_without_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iproute, "holders", lambda: pytest.fail("asked"))
    assert [nic.interface for nic in nics_of(["127.3.2.1", "127.3.2.2", "::1"], {})] == ["lo"]


def test_what_an_agent_was_given_is_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iproute, "holders", lambda: pytest.fail("asked"))
    assert [nic.interface for nic in nics_of(["198.18.0.1"], {"198.18.0.1": "nonesuch0"})] == ["nonesuch0"]


def test_a_driver_says_its_name_and_speed_in_the_namespace_of_the_agent() -> None:
    need("ip", "ethtool")
    unshare = ["unshare", "-rn", "sh", "-c"]
    try:
        subprocess.run([*unshare, PREPARE], check=True, capture_output=True, timeout=60)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no network namespace can be prepared here: {type(error).__name__}")
    asked = subprocess.run(
        [*unshare, f'{PREPARE} && exec "$0" -c "$1"', sys.executable, ASK],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    fresh, loopback = (NicFacts(**facts) for facts in json.loads(asked.stdout))
    assert fresh == NicFacts("fresh", driver="veth", firmware=None, speed_bps=10**10, mtu=4321)
    assert loopback.interface == "lo"
