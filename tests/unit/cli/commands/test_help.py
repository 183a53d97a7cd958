"""`charkha help`: pages of the documentation."""

from __future__ import annotations

import pytest

from emulator import exit_codes
from emulator.cli.main import main
from emulator.shipped import PAGES
from emulator.transports.registry import TRANSPORTS


def page(*words: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["help", *words]) == 0
    return capsys.readouterr().out


def test_without_a_topic_every_page_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    lines = page(capsys=capsys).splitlines()
    assert [line.split()[0] for line in lines] == list(PAGES.paths)
    assert "  glossary      Glossary" in lines


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
