"""Every command line of README and docs is one that the parser takes, as it is written."""

import re

import pytest

from emulator.cli.main import _parser
from emulator.cli.words import renamed
from tests.support.blocks import PAGES, blocks, charkha_words
from tests.support.command import ROOT

BLOCKS = [block for page in PAGES for block in blocks(page)]
HOW_TO = re.findall(r"`(charkha [^`]+)`", (ROOT / "docs" / "how-to.md").read_text(encoding="utf-8"))


def parse(line: str) -> None:
    found = list(charkha_words(line))
    assert found, line
    for words in found:
        today = renamed(words)
        assert today == words, f"{line}: an old word"
        _parser(today).parse_args(today)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.name)
def test_blocks_parse(block) -> None:
    for line in block.lines:
        if "charkha " in line and " lab exec " not in line:  # its last words are another command's
            parse(line)


@pytest.mark.parametrize("line", HOW_TO)
def test_how_tos_parse(line: str) -> None:
    parse(line)


def test_there_are_many_of_both() -> None:
    assert len(BLOCKS) > 50
    assert len(HOW_TO) >= 30
