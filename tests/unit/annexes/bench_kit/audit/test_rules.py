"""Rules have a title that scripts can rely on, and docs/audit.md explains each of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.annexes.bench_kit.audit.rules import FrameRule

DOCS = (Path(__file__).parents[5] / "docs" / "audit.md").read_text()


@pytest.mark.parametrize("rule", FrameRule)
def test_every_rule_is_documented(rule: FrameRule) -> None:
    (row,) = (line for line in DOCS.splitlines() if line.startswith(f"| `{rule.title}` |"))
    documented = row.split("|")[2].strip()
    assert documented.startswith(rule.meaning) or rule is FrameRule.PATH_MTU


def test_titles_are_unique() -> None:
    assert len({rule.title for rule in FrameRule}) == len(FrameRule)
