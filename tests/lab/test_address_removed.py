"""An address that is removed in mid-run is named: packets to it then take another way, on which they do not fit."""

from pathlib import Path

import pytest

from emulator.results.run_folder.manifest import PARTIAL_MANIFEST
from emulator.results.run_folder.reader import read_run
from emulator.results.run_folder.schema import RunTable
from tests.support.command import started, wait_for
from tests.support.namespaces import Namespace

HOSTS = ("10.9.0.1", "10.9.0.2")
TOPOLOGY = "\n".join(
    ["name: two", "hosts:", *(f"  - {{name: a{number}, address: {host}}}" for number, host in enumerate(HOSTS))]
)


@pytest.fixture
def hosts(place: Namespace) -> Namespace:
    """Two addresses on loopback, and a default route whose MTU is smaller."""
    for host in HOSTS:
        place.run("ip", "address", "add", f"{host}/32", "dev", "lo")
    place.run("ip", "link", "add", "out0", "type", "veth", "peer", "name", "out1")
    for name in ("out0", "out1"):
        place.run("ip", "link", "set", name, "up")
    place.run("ip", "address", "add", "192.168.7.1/24", "dev", "out0")
    place.run("ip", "route", "add", "default", "via", "192.168.7.9")
    return place


def _has_samples(folder: Path) -> bool | None:
    return ((folder / PARTIAL_MANIFEST).exists() and read_run(folder).table(RunTable.ITERATIONS).num_rows >= 2) or None


@pytest.mark.usefixtures("lab_host")
def test_a_run_names_the_address_that_was_removed(hosts: Namespace, tmp_path: Path) -> None:
    (tmp_path / "two.yaml").write_text(TOPOLOGY)
    what = ("bench", "all_reduce", "-n", 2, "-b", "64K", "-e", "64K", "--iterations", 100_000, "--agents", 2)
    with started(*what, "--topology", "two.yaml", "--out", "run", cwd=tmp_path, prefix=hosts.prefix) as command:
        wait_for(lambda: _has_samples(tmp_path / "run"))
        hosts.run("ip", "address", "del", f"{HOSTS[1]}/32", "dev", "lo")
        finished = command.finish()
    assert finished.code == 1
    said = finished.stderr
    assert f"{HOSTS[1]} is no longer an address of this host" in said or (
        f"packets to {HOSTS[1]} fitted and no longer do, as the MTU of the route there is 1500 now: its address" in said
    )
