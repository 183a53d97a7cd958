"""Ranks are on the hosts that a configuration names, in its order, or it is refused."""

from pathlib import Path

import pytest

from emulator.annexes.service.otg.driving import check_places
from emulator.annexes.service.otg.model import Config
from emulator.annexes.service.otg.translation import arrived, stage_runs
from emulator.errors import InputError
from tests.support.otg import COMMUNICATOR, STAGE, changed

TOPOLOGY = """hosts:
- {name: h0, addresses: [10.0.0.1]}
- {name: h1, addresses: [10.0.0.2]}
"""


def check(topology: Path | None, path: str, value: object, *names: str) -> None:
    document = changed(path, value) | ({"devices": [{"name": name} for name in names]} if names else {})
    (run,) = stage_runs(arrived(document, Config), topology=None if topology is None else str(topology))
    check_places(run, run.experiment, STAGE)


@pytest.fixture
def topology(tmp_path: Path) -> Path:
    path = tmp_path / "rack.yaml"
    path.write_text(TOPOLOGY)
    return path


def test_hosts_in_their_order(topology: Path) -> None:
    check(topology, f"{COMMUNICATOR}.device_names", ["h0", "h1"])
    with pytest.raises(InputError, match=r"device_names: the topology puts the ranks on h0, h1, in this order"):
        check(topology, f"{COMMUNICATOR}.device_names", ["h1", "h0"])
    with pytest.raises(InputError, match="hosts: h9, but there are only h0, h1"):
        check(topology, f"{COMMUNICATOR}.device_names", ["h0", "h9"], "h0", "h9")


def test_the_family_of_addresses(topology: Path) -> None:
    check(topology, f"{COMMUNICATOR}.rocev2.encapsulation", "ipv4")
    for place in (topology, None):
        with pytest.raises(InputError, match=r"encapsulation: the addresses of the ranks are ipv4"):
            check(place, f"{COMMUNICATOR}.rocev2.encapsulation", "ipv6")


def test_over_loopback_names_are_free() -> None:
    check(None, f"{COMMUNICATOR}.device_names", ["gpu1", "gpu0"], "gpu0", "gpu1")
