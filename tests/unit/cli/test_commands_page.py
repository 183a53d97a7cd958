"""docs/commands.md is what the parser says, docs/settings.md what is declared of settings."""

import re
import tomllib

from emulator.plugins import BUILT_IN, PluginKind
from lab.commands import manual, page, settings_page
from tests.support.command import ROOT


def test_the_page_is_current_and_has_every_command() -> None:
    shown = (ROOT / "docs/commands.md").read_text(encoding="utf-8")
    assert shown == page(), "python -m lab.commands > docs/commands.md"
    for words in set(BUILT_IN[PluginKind.COMMANDS]) - {"box"}:
        assert f"| `charkha {words}" in shown


def test_the_page_of_settings_is_current() -> None:
    shown = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
    assert shown == settings_page(), "python -m lab.commands settings > docs/settings.md"


def words_of(text: str) -> list[str]:
    """Without what versions of argparse lay out in their own way: lines, and the value of a short option."""
    return re.sub(r"(\\-\w) [^ ,]+, (?=\\-\\-)", r"\1, ", " ".join(text.split())).split()


def test_the_manual_page_is_current_and_is_installed() -> None:
    shown = (ROOT / "packaging/charkha.1").read_text(encoding="utf-8")
    assert words_of(shown) == words_of(manual()), "python -m lab.commands man > packaging/charkha.1"
    for words in BUILT_IN[PluginKind.COMMANDS]:
        assert words in ("box", "agent", "trace") or f"\n.SS charkha {words}" in shown, words
    files = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["data-files"]
    assert files["share/man/man1"] == ["packaging/charkha.1"]
