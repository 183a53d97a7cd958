"""Several versions side by side in a terminal."""

from __future__ import annotations

import pytest

from emulator.comparison.comparability import check_comparability
from emulator.comparison.groups import RunGroup
from emulator.comparison.verdicts import Comparison, Rules, compare
from emulator.views.comparison_text import (
    ratio_text,
    trend_rows,
)
from emulator.views.terminal.trend_table import render_trend
from tests.support.recorded import recorded, slowed
from tests.support.terminal import rows_of, shown


def compared(*groups: RunGroup, rules: Rules | None = None) -> Comparison:
    return compare(groups, check_comparability(groups), rules or Rules(resamples=199))


@pytest.fixture(scope="module")
def versions() -> Comparison:
    runs = recorded("paced")
    return compared(*(RunGroup(f"v{n}", [slowed(run, 1 + 0.1 * n) for run in runs[n:15:3]]) for n in range(3)))


def test_a_trend_has_a_ratio_per_version(versions: Comparison) -> None:
    text = shown(render_trend(versions), width=140)
    jct = next(row for row in rows_of(text) if row[:1] == ["iteration"])
    (_, pairs), *_ = (row for row in trend_rows(versions) if str(row[0]) == "iteration (JCT)")
    ratios = [ratio_text(one.effect) for one in pairs if one is not None]
    assert jct[2:] == [*jct[2:4], ratios[0], "slower", ratios[1], "slower"]
    assert "Ratios to v0; = no difference shown, ? inconclusive." in text
    assert "every group is compared with the baseline separately" in " ".join(text.split())
