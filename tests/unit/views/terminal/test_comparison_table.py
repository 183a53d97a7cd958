"""Comparisons in the terminal."""

from dataclasses import replace

import pytest

from emulator.results.comparison.groups import RunGroup
from emulator.results.run_folder.manifest import Scaling
from emulator.views.columns.comparison_columns import interval_text, ratio_text
from emulator.views.columns.figures import NONE
from emulator.views.comparison_text import trend_rows
from emulator.views.terminal.comparison_table import render, render_trend
from tests.support.recorded import compared, recorded, slower_firmware, three_versions, too_few_runs
from tests.support.terminal import rows_of, shown


def test_a_class_has_effect_interval_and_verdict() -> None:
    text = shown(render(slower_firmware()))
    assert text.splitlines()[0] == "fw-b against fw-a: 6 runs against 6 runs"
    found = {tuple(row[:1]): row for row in rows_of(text) if row}
    jct = found[("JCT",)]
    one = next(one for one in slower_firmware().pairs[0].classes if str(one.key) == "iteration (JCT)")
    assert jct[2] == NONE
    assert ratio_text(one.effect) in jct
    assert interval_text(one.effect) in jct
    assert jct[-1] == "slower"


def test_what_happened_to_packets_is_below_the_verdicts() -> None:
    groups = [
        RunGroup(group.name, [replace(run, counted={"timeouts": count}) for run in group.runs])
        for group, count in zip(slower_firmware().groups, (0, 21), strict=True)
    ]
    assert "timeouts" not in shown(render(slower_firmware()))
    assert ["timeouts", "0", "21", "apart"] in rows_of(shown(render(compared(*groups))))


def test_groups_named_a_and_b_keep_their_names() -> None:
    runs = recorded("paced")
    text = shown(render(compared(RunGroup("B", runs[0:4]), RunGroup("A", runs[4:8]))))
    header = next(line for line in text.splitlines() if "A / B" in line)
    assert header.split()[:2] == ["B", "A"] or "A / B" in header


def test_groups_without_a_common_class_have_no_table() -> None:
    empty = replace(slower_firmware(), pairs=[replace(slower_firmware().pairs[0], classes=[])])
    assert "No class was measured in both groups." in shown(render(empty))


def test_a_forced_comparison_says_so_first() -> None:
    runs = recorded("paced")
    other = [replace(run, manifest=replace(run.manifest, scaling=Scaling(bytes=0.5))) for run in runs[4:8]]
    forced = compared(RunGroup("a", runs[0:4]), RunGroup("b", other))
    for text in (shown(render(forced)), shown(render_trend(forced))):
        first, second, *_ = text.splitlines()
        assert first == "FORCED: these runs are not comparable; do not rely on any verdict below."
        assert second == "  scaling of sizes: 1.0 in a; 0.5 in b"


@pytest.mark.parametrize("width", [70, 80, 100, 140])
def test_tables_fit_the_width(width: int) -> None:
    for text in (shown(render(slower_firmware()), width=width), shown(render_trend(three_versions()), width=width)):
        assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize("width", [30, 40, 60, 80])
def test_the_verdict_is_the_last_column_to_go(width: int) -> None:
    text = shown(render(too_few_runs()), width=width)
    assert "inconclusive" in text.split("Omitted at this width")[0]


def test_a_trend_has_a_ratio_per_version() -> None:
    text = shown(render_trend(three_versions()), width=140)
    jct = next(row for row in rows_of(text) if row[:1] == ["iteration"])
    (_, pairs), *_ = (row for row in trend_rows(three_versions()) if str(row[0]) == "iteration (JCT)")
    ratios = [ratio_text(one.effect) for one in pairs if one is not None]
    assert jct[2:] == [*jct[2:4], ratios[0], "slower", ratios[1], "slower"]
    assert "Ratios to v0; = no difference shown, ? inconclusive." in text
    assert "every group is compared with the baseline separately" in " ".join(text.split())
