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


TAKE = """
import asyncio
from agents.host.leased_addresses import leased
from agents.host.ports import Ports
from emulator.control.conversation import JobSetup, RankPlace, Setup

async def take(network):
    setup = Setup({0: JobSetup("r", [RankPlace(0, "198.18.8.1", 1, 1)], "roce", 1, 0, settings=None)}, [network])
    try:
        async with leased(Ports(["other"]), setup):
            return "added"
    except Exception as error:
        return str(error)

for network in ("198.18.7.0/24", "198.18.7.64/26", "198.18.8.0/24"):
    print(asyncio.run(take(network)))
"""


def test_a_run_takes_no_route_from_another_interface() -> None:
    need("ip")
    words = ["unshare", "-rn", "sh", "-c", f'{PREPARE} && "$0" -c "$1" && ip route', sys.executable, TAKE]
    asked = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    if asked.returncode:
        pytest.skip(f"no network namespace can be prepared here: {asked.stderr}")
    first, second, third, *routes = asked.stdout.splitlines()
    assert "a route to 198.18.7.0/24, which this machine reaches through fresh" in first
    assert "a route to 198.18.7.64/26, which this machine reaches through fresh" in second
    assert third == "added"
    assert len(routes) == 1
    assert routes[0].startswith("198.18.7.0/24 dev fresh proto kernel")
