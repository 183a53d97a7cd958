"""Crafted frames through a real Linux bridge and a real router, both ends in namespaces of a lab."""

import json
import secrets
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import charkha, succeed

HOSTS = [{"name": f"h{number}", "per_rank": f"198.18.{number + 1}.0/24"} for number in range(2)]


class Lab:
    """A lab of two hosts and a switch."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.lab_id = folder, f"probe-{secrets.token_hex(3)}"

    def up(self, kind: str, *, rate: str | None = None) -> None:
        """Bring it up."""
        speed = {} if rate is None else {"rate": rate}
        links = [{"endpoints": [f"h{at}:eth0", f"sw:p{at}"], "mtu": 1500, **speed} for at in range(2)]
        document = {"hosts": HOSTS, "switches": [{"name": "sw", "kind": kind}], "links": links}
        (self.folder / "t.yaml").write_text(json.dumps(document))
        succeed("lab", "up", "t.yaml", "--id", self.lab_id, cwd=self.folder)

    def down(self) -> None:
        """Remove it."""
        charkha("lab", "down", self.lab_id, cwd=self.folder)

    def probe(self, *options: object) -> dict[str, dict[str, Any]]:
        """Verdicts by name."""
        where = ("--topology", "t.yaml", "--lab", self.lab_id, "--from", "h0", "--to", "h1")
        return {
            verdict["name"]: verdict
            for verdict in succeed(
                "lab", "probe", *where, "--rate", 1000, "--json", *options, cwd=self.folder
            ).document["probes"]
        }


@pytest.fixture
def lab(lab_host: None, tmp_path: Path) -> Iterator[Lab]:
    one = Lab(tmp_path)
    try:
        yield one
    finally:
        one.down()


def _outcomes(verdicts: dict[str, dict[str, Any]]) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for verdict in verdicts.values():
        found.setdefault(verdict["group"], Counter())[verdict["outcome"]] += 1
    return found


def test_a_bridge_passes_all_but_flow_control(lab: Lab) -> None:
    lab.up("bridge")
    verdicts = lab.probe("--raise-mtu")
    outcomes = _outcomes(verdicts)
    assert outcomes["DSCP"] == {"pass": 64}
    assert outcomes["ECN"] == {"pass": 4}
    assert outcomes["CNP"] == {"pass": 2}
    assert outcomes["VLAN"] == {"pass": 12}
    at_layer_4 = ("bad ICRC", "bad UDP checksum", "no UDP checksum", "TTL 1")
    assert {verdicts[name]["outcome"] for name in at_layer_4} == {"pass"}  # of IP's, br_netfilter may look at the sum
    assert outcomes["flow control"] == {"dropped": 5}
    assert verdicts["1,500 bytes (MTU)"]["outcome"] == "pass"
    assert verdicts["1,501 bytes (one over the MTU)"]["outcome"] == "pass"  # within the 4 bytes kept for a VLAN tag
    assert all(verdict["copies"] <= 1 for verdict in verdicts.values())
    # Without leave to raise its MTU the sender keeps the one frame, and says so.
    assert lab.probe()["1,501 bytes (one over the MTU)"]["outcome"] == "not sent"


def test_a_router_drops_what_it_must_and_changes_only_what_routers_do(lab: Lab) -> None:
    lab.up("router")
    verdicts = lab.probe()
    outcomes = _outcomes(verdicts)
    assert outcomes["DSCP"] == {"pass": 64}
    assert verdicts["DSCP 26"]["changes"] == ["routed"]
    assert verdicts["TTL 1"]["outcome"] == verdicts["bad IP checksum"]["outcome"] == "dropped"
    assert verdicts["bad UDP checksum"]["outcome"] == verdicts["bad ICRC"]["outcome"] == "pass"
    assert verdicts["VLAN 100"]["outcome"] == "dropped"
    assert outcomes["flow control"] == {"dropped": 5}


def test_a_bridge_that_remarks_and_drops_is_detected(lab: Lab) -> None:
    lab.up("bridge", rate="1Gbit")
    rules = """table bridge test { chain forward { type filter hook forward priority 0;
        ip dscp 26 ip ecn set ce
        ip dscp 10 ip dscp set 0
        ip dscp 48 drop
    }
    }
"""
    (lab.folder / "rules.nft").write_text(rules)
    succeed("lab", "exec", "--lab", lab.lab_id, "sw", "nft", "-f", lab.folder / "rules.nft", cwd=lab.folder)
    verdicts = lab.probe("--raise-mtu")
    assert verdicts["DSCP 10"]["changes"] == ["DSCP 10 to 0"]
    assert verdicts["ECT(0)"]["changes"] == ["ECN 2 to 3"]
    assert verdicts["CE"]["outcome"] == "pass"
    assert verdicts["DSCP 48"]["outcome"] == verdicts["CNP, DSCP 48"]["outcome"] == "dropped"
    assert verdicts["CNP, DSCP 0"]["outcome"] == "pass"
    assert verdicts["1,501 bytes (one over the MTU)"]["outcome"] == "dropped"  # by the bucket of the switch's port
