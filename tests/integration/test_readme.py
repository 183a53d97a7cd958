"""The README's output is what its first command prints, but for the measured numbers."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
# collective, ranks, size with unit, algorithm, count: what a class is; the rest of the line is measured
CLASS = re.compile(r"^(\w+ +\d+ +[\d.]+ \w+ +\S+ +\d+) ", re.MULTILINE)
# not the table of the worst flows, which a run has if a busy host made it lose packets
FACT = re.compile(r"^((?!Worst |Warning |Tester)[A-Z]\w+(?: (?:\(JCT\)|at|folder))?)[ :]", re.MULTILINE)


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the command prints here, its folder elsewhere."""
    words = shlex.split(blocks("console")[0].split("&&")[-1])
    assert words[0].endswith("/charkha")
    out = str(tmp_path_factory.mktemp("readme") / "run")
    command = [sys.executable, "-m", "emulator", *words[1:], "--out", out]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout


def test_the_classes_are_those_shown(printed: str) -> None:
    def classes(text: str) -> set[str]:
        return {" ".join(found.split()) for found in CLASS.findall(text)}

    assert len(classes(printed)) > 3
    assert classes(blocks("text")[0]) == classes(printed)


def test_the_facts_are_those_shown(printed: str) -> None:
    assert FACT.findall(blocks("text")[0]) == FACT.findall(printed)


def test_the_test_command_exists() -> None:
    assert (ROOT / blocks("console")[1].removeprefix("$ ").strip()).exists()


def test_every_linked_page_exists() -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", README):
        assert (ROOT / target).exists(), target
