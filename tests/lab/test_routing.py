"""Routers with BGP and BFD: traffic goes on over the other spine, whether a link is down or only delivers nothing."""

import json
import re
from pathlib import Path

import pytest

from emulator.results.run_folder.reader import read_run
from tests.support.command import wait_for
from tests.support.full import variant
from tests.support.machine import Machine
from tests.support.skips import need
from tests.support.star_lab import raised, sent_bytes

pytestmark = [pytest.mark.usefixtures("lab_host"), pytest.mark.slow]
LEAF_SPINE = Path(__file__).parents[2] / "topologies" / "leaf-spine-bgp.yaml"
SPEC = """charkha: 1
jobs: [{sweep: {collective: all_reduce, ranks: 2, sizes: [64M]}, iterations: 1, warmup: 0}]
events: [{at: 100ms, port: 'leaf1:u0', down: true}]
"""
DEAF = "table inet deaf {\nchain c {\ntype filter hook prerouting priority raw\niifname u0 drop\n}\n}\n"
OVER_BOTH, OVER_ONE = {"u0", "u1"}, {"u1"}


@pytest.fixture(autouse=True)
def frr() -> None:
    need("vtysh")


@pytest.mark.parametrize("family", ["IPv4", pytest.param("IPv6", marks=variant)])
def test_traffic_goes_on_over_the_other_spine_when_a_link_stays_down(tmp_path: Path, family: str) -> None:
    """At the far leaf: leaf0 does not see the link, and must learn that spine0 no longer leads to h1."""
    text = LEAF_SPINE.read_text()
    if family == "IPv6":
        text = re.sub(r"198\.18\.(\d)\.0/24", r'"fd00:18:\1::/64"', text)
    with raised(tmp_path, text) as lab:
        (tmp_path / "run.yaml").write_text(SPEC)
        finished = lab.play("run", "-f", "run.yaml", "--no-report", out="run")
    assert finished.code == 0, finished.stderr
    run = read_run(tmp_path / "run")
    assert run.manifest.topology["lab"]["versions"]["frr"]
    sent = sent_bytes(run)
    assert min(sent["leaf0:u0"], sent["leaf0:u1"]) > 1 << 20, "the event met no traffic, or it did not move"


@variant
def test_bfd_finds_a_link_that_only_delivers_nothing_and_nothing_is_left(host: Machine) -> None:
    before = host.traces()
    host.raise_lab(LEAF_SPINE)
    assert ways(host) == OVER_BOTH
    (host.folder / "deaf.nft").write_text(DEAF)
    host.succeed("lab", "exec", "leaf0", "nft", "-f", str(host.folder / "deaf.nft"))
    wait_for(lambda: ways(host) == OVER_ONE or None)
    host.succeed("lab", "exec", "leaf0", "nft", "delete", "table", "inet", "deaf")
    assert "has all its links and routes" in host.raise_lab(LEAF_SPINE)
    assert ways(host) == OVER_BOTH
    host.succeed("lab", "down")
    assert host.traces() == before


def ways(host: Machine) -> set[str]:
    """Ports by which leaf1 reaches h0."""
    shown = host.charkha("lab", "exec", "leaf1", "ip", "-json", "route", "show", "198.18.1.0/24").stdout
    [route] = json.loads(shown)
    return {hop["dev"] for hop in route.get("nexthops", [route])}
