"""Several versions side by side in a terminal."""

from __future__ import annotations

from emulator.views.terminal.trend_table import render_trend
from emulator.views.text.comparison_text import (
    ratio_text,
    trend_rows,
)
from tests.support.recorded import three_versions
from tests.support.terminal import rows_of, shown


def test_a_trend_has_a_ratio_per_version() -> None:
    text = shown(render_trend(three_versions()), width=140)
    jct = next(row for row in rows_of(text) if row[:1] == ["iteration"])
    (_, pairs), *_ = (row for row in trend_rows(three_versions()) if str(row[0]) == "iteration (JCT)")
    ratios = [ratio_text(one.effect) for one in pairs if one is not None]
    assert jct[2:] == [*jct[2:4], ratios[0], "slower", ratios[1], "slower"]
    assert "Ratios to v0; = no difference shown, ? inconclusive." in text
    assert "every group is compared with the baseline separately" in " ".join(text.split())
