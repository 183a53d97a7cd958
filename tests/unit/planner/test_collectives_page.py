"""docs/collectives.md is kept true: its tables, and its example, which is installed and run."""

import re
import sys
import tomllib
from functools import partial
from pathlib import Path

import pytest

from emulator.planner.algorithms import (
    ENTRY_POINT_GROUP,
    default_table,
    installed_algorithms,
    parse_overrides,
    schedule,
)
from emulator.planner.built_in import BUILT_IN
from emulator.planner.schedule import Collective
from emulator.trace.meaning.model import CommKind
from tests.support.collective_simulator import members_of, play, unroll
from tests.support.installed import install
from tests.support.schedules import bytes_by_member

PAGE = (Path(__file__).parents[3] / "docs" / "collectives.md").read_text(encoding="utf-8")


def rows_of(heading: str) -> list[list[str]]:
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]


def code_of(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return found[1]


def test_the_page_lists_every_algorithm() -> None:
    assert [row[:2] for row in rows_of("Algorithms")] == [[k.label, name] for k in BUILT_IN for name in BUILT_IN[k]]


def test_the_page_has_the_default_table() -> None:
    assert rows_of("Default algorithms") == list(map(list, default_table()))


def test_the_example_is_an_all_reduce(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tomllib.loads(code_of("toml"))["project"]
    points = project["entry-points"][ENTRY_POINT_GROUP]
    install(tmp_path, monkeypatch, modules={"my_collectives": code_of("python")}, points=points)
    try:
        (name,) = parse_overrides(["all_reduce=through_first"]).values()
        for members in (1, 2, 5, 8):
            views = members_of(Collective(CommKind.ALL_REDUCE, members=members, member=0, size_bytes=1000))
            outcome = play(views, unroll(partial(schedule, name), views), seed=members)
            assert outcome.moved == bytes_by_member(name, views)
    finally:
        installed_algorithms.cache_clear()
        sys.modules.pop("my_collectives", None)
