"""docs/commands.md is what the parser says."""

from __future__ import annotations

from emulator.plugins import BUILT_IN, PluginKind
from lab.commands import page
from tests.support.command import ROOT


def test_the_page_is_current_and_has_every_command() -> None:
    shown = (ROOT / "docs/commands.md").read_text(encoding="utf-8")
    assert shown == page(), "python -m lab.commands > docs/commands.md"
    for words in set(BUILT_IN[PluginKind.COMMANDS]) - {"box"}:
        assert f"| `charkha {words}" in shown
