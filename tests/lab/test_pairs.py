"""`charkha bench pairs` at a switch: a slow port is named with its direction, and no other."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.star_lab import Lab, raised, star

pytestmark = [pytest.mark.usefixtures("lab_host"), pytest.mark.slow]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with raised(tmp_path, star(4, rate="100Mbit", mtu=1500)) as one:
        yield one


def pairs(lab: Lab, *words: object, out: str) -> Any:
    shown = lab.play("bench", "pairs", "-b", "200K", "--iterations", 7, "--json", *words, out=out)
    assert shown.code == 0, shown.stderr
    return json.loads(shown.stdout)


def test_a_slow_port_is_named_with_its_direction(lab: Lab) -> None:
    table = pairs(lab, out="clean")
    assert table["ports"] == ["h0:eth0", "h1:eth0", "h2:eth0", "h3:eth0"]
    assert (len(table["pairs"]), table["transfers"], table["is_one_host"]) == (12, 84, False)
    assert all(pair["bits_per_s"] < 100e6 for pair in table["pairs"]), "payload below the line rate"
    assert (table["slow_ports"], table["slow_pairs"]) == ([], [])
    (lab.folder / "slow.yaml").write_text('rules:\n  - {shape: {rate: 15%}, port: "sw0:p2"}\n')
    table = pairs(lab, "--profile", "slow.yaml", out="slow")
    assert [(one["port"], one["direction"]) for one in table["slow_ports"]] == [("h2:eth0", "receive")]
    assert table["slow_pairs"] == []
    assert table["slow_ports"][0]["bits_per_s"] < 15e6


def test_fewer_rounds_cover_every_port(lab: Lab) -> None:
    table = pairs(lab, "--rounds", 1, out="one")
    assert len(table["pairs"]) == 4
    assert {pair["source"] for pair in table["pairs"]} == {pair["destination"] for pair in table["pairs"]}
