"""A plan in the terminal as somebody has read and approved it, and as JSON."""

import json
from pathlib import Path
from typing import Any

import pytest

from emulator.cli.main import main
from emulator.views.terminal import plan_table
from tests.support.approved import approved
from tests.support.command import ROOT

LEAF_SPINE = ("--topology", str(ROOT / "topologies" / "leaf-spine-2x2.yaml"))
ALL_TO_ALL = (*LEAF_SPINE, *("--collective", "all_to_all", "-n", "8", "-b", "8000"))
DOMAINS = ("--topology", "domain-2x4", "--collective", "all_reduce", "-n", "8", "-b", "8M")
MODEL = "layers=4,hidden=64,sequence=32,vocabulary=128,tensor=2,pipeline=2,data=2,micro-batches=2"


def planned(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["plan", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def document(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    return json.loads(planned(capsys, *arguments, "--json"))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("all-to-all", ALL_TO_ALL),  # 16 flows of 1,000 bytes over 2 uplinks of a leaf
        ("one-host", ("--collective", "all_reduce", "-n", "4", "-b", "1M")),
        ("domains", DOMAINS),
    ],
)
def test_a_plan_says_what_was_approved(
    capsys: pytest.CaptureFixture[str], name: str, arguments: tuple[str, ...]
) -> None:
    approved(f"terminal/plan-{name}", planned(capsys, *arguments))


def test_what_is_cut_is_counted_and_all_operations_are_in_the_document(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    most = {"SHOWN_OPERATIONS": 2, "WHOLE_LEVEL": 1, "SOME_SWITCHES": 1, "WHOLE_SWITCH": 3, "SOME_LINKS": 2}
    for name, count in most.items():
        monkeypatch.setattr(plan_table, name, count)
    out = planned(capsys, *LEAF_SPINE, "--transformer", MODEL)
    operations = document(capsys, *LEAF_SPINE, "--transformer", MODEL)["operations"]
    assert f"… {len(operations) - 2} more in --json" in out
    approved("terminal/plan-cut", out)


def test_few_links_are_listed_if_there_are_too_many(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("emulator.views.as_json.LISTED_LINKS", 4)
    found = document(capsys, *ALL_TO_ALL)
    assert (len(found["links"]), found["links_left_out"]) == (4, 20)
    assert all("leaf" in link["link"] and "spine" in link["link"] for link in found["links"])


def test_observed_loads_are_compared_with_the_hash(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "loads.json"
    path.write_text('{"leaf0:u0 > spine0:d0": 300, "leaf0:u1 > spine1:d0": 100}')
    out = planned(capsys, *ALL_TO_ALL, "--link-loads", path)
    assert "Link loads       given and hashed shares of equal-cost links differ by up to " in out


@pytest.mark.parametrize("columns", [60, 70, 80])
def test_a_narrow_terminal_hides_columns_and_cuts_lines(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("emulator.views.terminal.console.WIDTH", columns)
    out = planned(capsys, *ALL_TO_ALL)
    tables = out[: out.index("Payload  ")].splitlines()
    assert max(map(len, tables[1:])) <= columns
    assert "Omitted at this width: all at once" in out


def test_bytes_through_domains_have_a_time_and_a_sum(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, *DOMAINS)
    assert (found["domain_bytes"], found["local_bytes"]) == (84 << 20, 84 << 20)
    assert found["operations"][0]["ideal_ns"]["domains"] == -(-(21 << 19) * 10**9 // 22_500_000)
