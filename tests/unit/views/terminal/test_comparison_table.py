"""Comparisons in the terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from emulator.comparison.comparability import check_comparability
from emulator.comparison.groups import ExcludedRun, RunGroup
from emulator.comparison.verdicts import Comparison, Rules, compare
from emulator.run_folder.manifest import Scaling
from emulator.views.comparison_text import (
    interval_text,
    ratio_text,
)
from emulator.views.figures import NONE
from emulator.views.terminal.comparison_table import render
from emulator.views.terminal.trend_table import render_trend
from tests.support.recorded import recorded, slowed
from tests.support.terminal import rows_of, shown


def compared(*groups: RunGroup, rules: Rules | None = None) -> Comparison:
    return compare(groups, check_comparability(groups), rules or Rules(resamples=199))


@pytest.fixture(scope="module")
def slower() -> Comparison:
    runs = recorded("paced")
    return compared(
        RunGroup("fw-a", runs[0:12:2]),
        RunGroup("fw-b", [slowed(run, 1.2) for run in runs[1:12:2]], [ExcludedRun(runs[20].folder, "aborted: lost")]),
    )


@pytest.fixture(scope="module")
def versions() -> Comparison:
    runs = recorded("paced")
    return compared(*(RunGroup(f"v{n}", [slowed(run, 1 + 0.1 * n) for run in runs[n:15:3]]) for n in range(3)))


def test_a_class_has_effect_interval_and_verdict(slower: Comparison) -> None:
    text = shown(render(slower))
    assert text.splitlines()[0] == "fw-b against fw-a: 6 runs against 6 runs"
    found = {tuple(row[:1]): row for row in rows_of(text) if row}
    jct = found[("JCT",)]
    one = next(one for one in slower.pairs[0].classes if str(one.key) == "iteration (JCT)")
    assert jct[2] == NONE
    assert ratio_text(one.effect) in jct
    assert interval_text(one.effect) in jct
    assert jct[-1] == "slower"


def test_what_happened_to_packets_is_below_the_verdicts(slower: Comparison) -> None:
    groups = [
        RunGroup(group.name, [replace(run, counted={"timeouts": count}) for run in group.runs])
        for group, count in zip(slower.groups, (0, 21), strict=True)
    ]
    assert "timeouts" not in shown(render(slower))
    assert ["timeouts", "0", "21", "apart"] in rows_of(shown(render(compared(*groups))))


def test_groups_named_a_and_b_keep_their_names() -> None:
    runs = recorded("paced")
    text = shown(render(compared(RunGroup("B", runs[0:4]), RunGroup("A", runs[4:8]))))
    header = next(line for line in text.splitlines() if "A / B" in line)
    assert header.split()[:2] == ["B", "A"] or "A / B" in header


def test_groups_without_a_common_class_have_no_table(slower: Comparison) -> None:
    empty = replace(slower, pairs=[replace(slower.pairs[0], classes=[])])
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
def test_tables_fit_the_width(slower: Comparison, versions: Comparison, width: int) -> None:
    for text in (shown(render(slower), width=width), shown(render_trend(versions), width=width)):
        assert max(map(len, text.splitlines())) <= width
