"""Command lines in the documentation use options that the commands have."""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from emulator.cli.main import _parser
from emulator.cli.words import path_of, renamed
from emulator.plugins import BUILT_IN, PluginKind
from emulator.suggestions import OLD_WORDS
from tests.support.command import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMAND = re.compile(r"charkha (\w+(?: [a-z]+)?)((?: [^`\n#|]*)?)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def options_of(parser: argparse.ArgumentParser) -> set[str]:
    """Options of a command and of its actions."""
    found: set[str] = set()
    for action in parser._actions:
        found |= set(action.option_strings)
        if isinstance(action, argparse._SubParsersAction):
            found |= {option for inner in action.choices.values() for option in options_of(inner)}
    return found


def used_in(page: Path) -> Iterator[tuple[str, str]]:
    """(command, option) of every command line; words behind `lab exec HOST` or `--` belong to another."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    for command, rest in COMMAND.findall(text):
        if not rest.startswith(" exec "):
            yield from ((command, option) for option in OPTION.findall(rest.partition(" -- ")[0]))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_options_in_the_documentation_exist(page: Path) -> None:
    for words, option in used_in(page):
        path = path_of(renamed(words.split()))
        assert path in BUILT_IN[PluginKind.COMMANDS], (words, option)
        parser: argparse.ArgumentParser = _parser(path.split())
        for word in path.split():
            (subparsers,) = parser._subparsers._group_actions  # type: ignore[union-attr]
            parser = subparsers.choices[word]  # type: ignore[index, call-overload]
        assert option in options_of(parser), f"charkha {path} has no {option}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_use_no_old_word(page: Path) -> None:
    found = re.findall(rf"charkha\s+({'|'.join(OLD_WORDS)})\b", page.read_text(encoding="utf-8"))
    assert not found or page.name == "commands.md", found  # which lists them


def test_pages_have_command_lines() -> None:
    assert sum(1 for page in PAGES for _ in used_in(page)) > 30
