"""`charkha help`: pages of the documentation."""

import json
from pathlib import Path

import pytest

from emulator import exit_codes
from emulator.cli.main import main
from emulator.shipped import PAGES, PROFILES, TOPOLOGIES, TRACES, shipped_suites
from emulator.transports.registry import TRANSPORTS


def page(*words: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["help", *words]) == 0
    return capsys.readouterr().out


def test_without_a_topic_every_page_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    lines = page(capsys=capsys).splitlines()
    assert [line.split()[0] for line in lines] == list(PAGES.paths)
    assert ["glossary", "Glossary"] in [line.split() for line in lines]


@pytest.mark.parametrize(
    ("words", "title"),
    [
        (["glossary"], "# Glossary"),
        (["topologies"], "# Topologies"),
        (["rules"], "# Expect"),
        (["exit", "codes"], "# Exit codes"),
        (["Exit-Codes"], "# Exit codes"),
        (["transports"], "# Transports"),
        (["lab"], "# Lab"),
    ],
)
def test_a_topic_is_a_page(words: list[str], title: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert page(*words, capsys=capsys).startswith(title)


def test_a_command_without_a_page_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["help", "run"])
    assert capsys.readouterr().out.startswith("usage: charkha run")


def test_the_page_has_every_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    text = page("exit", "codes", capsys=capsys)
    codes = {name: value for name, value in vars(exit_codes).items() if name.isupper()}
    assert all(f"| {value} | {name} |" in text for name, value in codes.items())


def test_the_page_has_every_transport(capsys: pytest.CaptureFixture[str]) -> None:
    text = page("transports", capsys=capsys)
    assert all(f"| `{name}`" in text for name in TRANSPORTS)


def test_every_file_is_listed_below_its_kind(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "examples"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if not line.startswith(" ")] == ["topologies", "traces", "profiles", "suites"]
    names = [line.split()[0] for line in lines if line.startswith(" ")]
    assert names == [*TOPOLOGIES.paths, *TRACES.paths, *PROFILES.paths, *shipped_suites()]
    assert "  two-hosts-switch    Two hosts through one switch, 1 Gbit/s a port: the smallest lab." in lines


def test_json_has_the_paths(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "examples", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {one["kind"] for one in found} == {"topologies", "traces", "profiles", "suites"}
    assert all(Path(one["path"]).exists() for one in found)
    assert {"kind", "name", "path", "description"} == set(found[0])


@pytest.mark.parametrize("name", ["rack-template", "transformer-8r", "fw-b", "smoke"])
def test_the_path_of_one_can_be_copied(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "examples", name]) == 0
    assert Path(capsys.readouterr().out.strip()).exists()


def test_a_name_works_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["trace", "check", "transformer-8r"]) == 0
    assert main(["trace", "check", "lab/examples/transformer-8r"]) == 0
    assert main(["plan", "transformer-8r", "--topology", "leaf-spine-2x2"]) == 0
    assert main(["plan", "transformer-8r", "--topology", "topologies/leaf-spine-2x2.yaml"]) == 0
    assert "leaf-spine" in capsys.readouterr().out
