"""A plan in the terminal and as JSON."""

import json
from pathlib import Path

import pytest

from emulator.cli.main import main
from emulator.views.terminal import plan_table
from tests.support.command import ROOT
from tests.support.terminal import rows_of

LEAF_SPINE = ROOT / "topologies" / "leaf-spine-2x2.yaml"


def planned(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["plan", "--topology", str(LEAF_SPINE), *map(str, arguments)]) == 0
    return capsys.readouterr().out


def document(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, object]:
    found = json.loads(planned(capsys, *arguments, "--json"))
    assert isinstance(found, dict)
    return found


def test_an_operation_has_its_flow_incast_and_times(capsys: pytest.CaptureFixture[str]) -> None:
    out = planned(capsys, "--collective", "all_to_all", "-n", 8, "-b", 8000)
    first, *_ = rows_of(out)
    assert first[:6] == ["all_to_all", "parallel", "7.81", "KiB", "1", "x"]
    assert first[6:11] == ["8", "1", "1000", "B", "7"]


def test_the_balance_of_links_is_shown_per_tier(capsys: pytest.CaptureFixture[str]) -> None:
    out = planned(capsys, "--collective", "all_to_all", "-n", 8, "-b", 8000)
    tier = next(line.split() for line in out.splitlines() if line.startswith("leaf > spine"))
    assert tier[:6] == ["leaf", ">", "spine", "4", "20", "Mbit/s"]
    assert tier[6:8] == ["7.81", "KiB"]  # 16 flows of 1,000 bytes over 2 uplinks per leaf


def test_equal_cost_choices_name_their_switch(capsys: pytest.CaptureFixture[str]) -> None:
    out = planned(capsys, "--collective", "all_to_all", "-n", 8, "-b", 8000)
    choices = out[out.index("ECMP at") :].splitlines()
    assert choices[2].split()[:3] in (["leaf0", "2", "16"], ["leaf1", "2", "16"])


def test_facts_follow_the_tables(capsys: pytest.CaptureFixture[str]) -> None:
    out = planned(capsys, "--collective", "all_to_all", "-n", 8, "-b", 8000)
    assert "Payload          54.69 KiB between hosts, 0 B within" in out
    assert "Oversubscription 2:1, rates of host ports to rates of uplinks, per switch" in out
    assert "Hash             a model" in out or "Hash             that of Linux" in out
    assert "Largest flows    rank 0 > rank 1: 1000 B" in out


def test_ranks_on_one_host_load_no_link(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--collective", "all_reduce", "-n", "4", "-b", "1M"]) == 0
    out = capsys.readouterr().out
    assert "links" not in out.replace("\nlinks", "").split("Payload")[0].splitlines()[0]
    assert "0 B between hosts" in out


def test_many_operations_are_cut_and_all_are_in_the_document(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("emulator.views.terminal.plan_table.SHOWN_OPERATIONS", 2)
    model = "layers=4,hidden=64,sequence=32,vocabulary=128,tensor=2,pipeline=2,data=2,micro-batches=2"
    found = document(capsys, "--transformer", model)
    operations = found["operations"]
    assert isinstance(operations, list)
    out = planned(capsys, "--transformer", model)
    assert f"… {len(operations) - 2} more in --json" in out
    assert "Ideal JCT" in out


def test_few_links_are_listed_if_there_are_too_many(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("emulator.views.as_json.LISTED_LINKS", 4)
    found = document(capsys, "--collective", "all_to_all", "-n", 8, "-b", 8000)
    links = found["links"]
    assert isinstance(links, list)
    assert len(links) == 4
    assert found["links_left_out"] == 20
    assert all("leaf" in link["link"] and "spine" in link["link"] for link in links)


def test_observed_loads_are_compared_with_the_hash(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "loads.json"
    path.write_text('{"leaf0:u0 > spine0:d0": 300, "leaf0:u1 > spine1:d0": 100}')
    out = planned(capsys, "--collective", "all_to_all", "-n", 8, "-b", 8000, "--link-loads", path)
    assert "Link loads       given and hashed shares of equal-cost links differ by up to " in out


@pytest.mark.parametrize("columns", [70, 80])
def test_a_narrow_terminal_hides_columns_and_names_them(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("emulator.views.terminal.console.WIDTH", columns)
    out = planned(capsys, "--collective", "all_to_all", "-n", 8, "-b", 8000)
    tables = out[: out.index("Payload  ")].splitlines()
    assert max(map(len, tables[1:])) <= columns
    assert "Omitted at this width: all at once" in out


def test_bytes_through_domains_have_a_time_and_a_sum(capsys: pytest.CaptureFixture[str]) -> None:
    domains = ("plan", "--topology", "domain-2x4", "--collective", "all_reduce", "-n", "8", "-b", "8M")
    assert main(domains) == 0
    out = capsys.readouterr().out
    assert "Payload          28 MiB between hosts, 84 MiB within, 84 MiB of it through scale-up domains" in out
    assert "domain" in out.splitlines()[3]
    assert main([*domains, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["domain_bytes"], found["local_bytes"]) == (84 << 20, 84 << 20)
    assert found["operations"][0]["ideal_ns"]["domains"] == -(-(21 << 19) * 10**9 // 22_500_000)
    assert "domain" not in planned(capsys, "--collective", "all_reduce", "-n", 8)


TWO_HOSTS = str(ROOT / "topologies" / "two-hosts-switch.yaml")


def picture(capsys: pytest.CaptureFixture[str], *arguments: str, topology: str = str(LEAF_SPINE)) -> list[str]:
    assert main(["plan", "--topology", topology, "--collective", "all_to_all", "-b", "8000", *arguments]) == 0
    lines = capsys.readouterr().out.splitlines()
    first = next(at for at, line in enumerate(lines) if line.startswith("  ├─")) - 1
    last = max(at for at, line in enumerate(lines) if line.startswith("  └─"))
    return lines[first : last + 1]


def test_the_highest_level_comes_first_and_every_link_is_once_below_its_switch(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = picture(capsys, "-n", "8")
    assert [line for line in lines if not line.startswith(" ")] == ["spine0", "spine1", "leaf0", "leaf1"]
    assert [line.split()[1] for line in lines if "─ leaf" in line] == ["d0", "d1", "d0", "d1"]
    assert len([line for line in lines if "─ h" in line]) == 8


def test_bars_are_relative_to_the_busiest_link(capsys: pytest.CaptureFixture[str]) -> None:
    bars = [word for line in picture(capsys, "-n", "8") for word in line.split() if set(word) <= {"█", "░"}]
    assert {len(bar) for bar in bars} == {12}
    assert "█" * 12 in bars


def test_a_load_is_the_payload_of_an_iteration(capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = (line for line in picture(capsys, "-n", "8") if "─ h0:" in line)
    assert line.count("6.84 KiB") == 2  # 1,000 bytes to each of 7 ranks, and from each of them


def test_of_many_switches_and_links_some_are_shown_and_the_rest_is_counted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_table, "WHOLE_LEVEL", 1)
    monkeypatch.setattr(plan_table, "SOME_SWITCHES", 1)
    monkeypatch.setattr(plan_table, "WHOLE_SWITCH", 3)
    monkeypatch.setattr(plan_table, "SOME_LINKS", 2)
    lines = picture(capsys, "-n", "8")
    assert "… 1 more of spine" in lines
    assert "… 1 more of leaf" in lines or lines[-1] == "  └─ … 2 more with less load"
    assert "  └─ … 2 more with less load" in lines


@pytest.mark.parametrize("width", [60, 80])
def test_long_lines_are_cut(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setattr("emulator.views.terminal.console.WIDTH", width)
    assert max(map(len, picture(capsys, "-n", "8"))) <= width
