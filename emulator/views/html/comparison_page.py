"""The report of a comparison: verdicts with their intervals, and all runs side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from emulator.results.comparison.causes import causes
from emulator.results.comparison.groups import RunGroup
from emulator.results.comparison.verdicts import ClassComparison, ClassVerdict, GroupComparison, PairComparison
from emulator.results.run_folder.store import firmware_of
from emulator.results.statistics.method.distribution import distribution
from emulator.results.statistics.samples.classes import ClassKey
from emulator.views.columns.columns import Header, texts
from emulator.views.columns.comparison_columns import cause_columns, page_columns, ratio_text, statistic_name
from emulator.views.columns.figures import NONE, count_of
from emulator.views.columns.uncertainty_columns import UNCERTAINTY_COLUMNS, compared_figures, sources
from emulator.views.comparison_text import (
    answer_words,
    fact_lines,
    gravest_verdict,
    pair_sentence,
    trend_rows,
)
from emulator.views.html.page.document import Answer, Block, Chart, Facts, Page, PageSection, Table, table_of
from emulator.views.html.page.pictures import Picture, Rows
from emulator.views.html.page.reduction import distribution_curve
from emulator.views.html.sections.over_time import TimedMedian, over_time

CHOICES = 24
"""Classes that the reader can select: those that take most time."""
TREND_LINES = 8
_CURVE_POINTS = 60
_TONES = {ClassVerdict.SLOWER: "bad", ClassVerdict.FASTER: "good", ClassVerdict.NO_DIFFERENCE: "good"}


def comparison_page(comparison: GroupComparison, *, is_trend: bool = False) -> Page:
    """The page of a comparison; a trend has a section of its own, as more than two groups always have."""
    baseline, others = comparison.groups[0], comparison.groups[1:]
    heading = f"{', '.join(group.name for group in others)} against {baseline.name}"
    sections = [_trend(comparison)] if is_trend or len(others) > 1 else []
    sections += [_pair(pair, comparison, number) for number, pair in enumerate(comparison.pairs)]
    return Page(
        title=f"{heading} · charkha compare",
        heading=heading,
        sentence=" ".join(map(pair_sentence, comparison.pairs)),
        answer=Answer(*answer_words(comparison), _TONES.get(gravest_verdict(comparison), "open")),
        labels=[f"{group.name}: {count_of(len(group.runs), 'run')}" for group in comparison.groups]
        + [f"margin {100 * comparison.rules.margin:g} %"],
        warnings=list(_warnings(comparison)),
        sections=[*sections, _side_by_side(comparison), _method(comparison)],
        footer="Written by charkha compare from the run folders listed above.",
    )


def _warnings(comparison: GroupComparison) -> Iterator[str]:
    if comparison.is_forced:
        yield "Forced: these runs are not comparable. Do not rely on these verdicts."
        yield from map(str, comparison.comparability.refused)


def _pair(pair: PairComparison, comparison: GroupComparison, number: int) -> PageSection:
    blocks: list[Block] = [_ratios(pair, comparison, number), _verdicts(pair, comparison, number)]
    if found := causes(pair.baseline, pair.other):
        columns = cause_columns(baseline=pair.baseline.name, other=pair.other.name)
        blocks.append(table_of(f"causes-{number}", "What happened to packets", columns, found))
    title = "Verdicts" if len(comparison.pairs) == 1 else f"{pair.other.name} against {pair.baseline.name}"
    return PageSection(f"pair-{number}", title, blocks)


def _ratios(pair: PairComparison, comparison: GroupComparison, number: int) -> Chart:
    drawn, margin = Rows(), comparison.rules.margin
    for one in pair.classes:
        if one.effect is not None:
            low, high = one.effect.interval or (one.effect.ratio, one.effect.ratio)
            row = {"ratio": one.effect.ratio, "low": low, "high": high, "verdict": one.verdict.value}
            drawn.add(**{"class": str(one.key)}, **row)
    band = Rows()
    band.add(low=1 / (1 + margin), high=1 + margin)
    return Chart(
        f"ratios-{number}",
        f"Ratio of times, {pair.other.name} / {pair.baseline.name}",
        f"Point: ratio of the {statistic_name(comparison.rules)} of the runs. Line: its 95 % interval. Band: the "
        f"margin of {100 * margin:g} % within which a difference does not matter.",
        "One line per class: ratio of times with its interval; the numbers are in the table below.",
        Picture("compare_ratio", {"classes": drawn.columns, "margin": band.columns}),
        is_wide=True,
    )


def _verdicts(pair: PairComparison, comparison: GroupComparison, number: int) -> Table:
    columns = page_columns(comparison.rules, baseline=pair.baseline.name, other=pair.other.name)
    return table_of(f"verdicts-{number}", "Verdicts", columns, pair.classes)


def _side_by_side(comparison: GroupComparison) -> PageSection:
    """Charts of all groups for the class that the reader selects."""
    keys = [key for key, _ in trend_rows(comparison)][:CHOICES]
    choices = [(str(key), str(key)) for key in keys]
    runs, curves = Rows(), Rows()
    for group in comparison.groups:
        for name, key in zip(map(str, keys), keys, strict=True):
            _add_runs(runs, name, key, group, comparison.rules.quantile)
            _add_curves(curves, name, key, group)
    statistic = statistic_name(comparison.rules)
    blocks: list[Block] = [
        Chart(
            "runs-side-by-side",
            f"{statistic} of every run",
            "One point per run; the stroke is the median of the group.",
            "Times of the runs of each group, side by side.",
            Picture("compare_runs", {"runs": runs.columns}, choice="class", choices=choices),
            choice_title="Class",
        ),
        Chart(
            "curves-side-by-side",
            "Distribution of all measurements",
            "One line per run: share of its measurements that took at most this time. Every point is a measured value.",
            "Cumulative distribution of times, one line per run, coloured by group.",
            Picture("compare_cdf", {"curve": curves.columns}, choice="class", choices=choices),
            choice_title="Class",
        ),
    ]
    about = "If groups overlap, only enough runs can distinguish them, whatever their medians; see the verdict."
    return PageSection("side-by-side", "Runs side by side", blocks, about)


def _add_runs(rows: Rows, name: str, key: ClassKey, group: RunGroup, quantile: float) -> None:
    for run in group.runs:
        times = run.measurements.classes.get(key)
        value = times.percentile_ns(quantile) if times is not None else None
        if value:
            rows.add(**{"class": name}, group=group.name, run=run.folder.name, value_ns=value)


def _add_curves(rows: Rows, name: str, key: ClassKey, group: RunGroup) -> None:
    for run in group.runs:
        times = run.measurements.classes.get(key)
        if times is not None and len(times):
            curve = distribution_curve(times.time_ns, points=_CURVE_POINTS)
            fixed = {"class": name, "group": group.name, "run": f"{group.name} {run.folder.name}"}
            rows.extend(len(curve.value), **fixed, time_ns=curve.value, share=curve.share)


def _trend(comparison: GroupComparison) -> PageSection:
    points, listed = Rows(), list(trend_rows(comparison))
    for key, pairs in listed[:TREND_LINES]:
        fixed = {"class": str(key)}
        points.add(**fixed, group=comparison.groups[0].name, ratio=1.0, low=1.0, high=1.0, verdict="baseline")
        for group, one in zip(comparison.groups[1:], pairs, strict=True):
            if one is not None and one.effect is not None:
                low, high = one.effect.interval or (one.effect.ratio, one.effect.ratio)
                effect = {"ratio": one.effect.ratio, "low": low, "high": high}
                points.add(**fixed, group=group.name, **effect, verdict=one.verdict.value)
    more = f" ({len(listed) - TREND_LINES} more classes take less time)" if len(listed) > TREND_LINES else ""
    chart = Chart(
        "trend",
        "Ratio to the baseline, version by version",
        f"Each version against {comparison.groups[0].name}, with its 95 % interval{more}. "
        "Click a class in the legend to highlight it.",
        "One line per class: its ratio to the first version, over the versions in the order of the command line.",
        Picture("compare_trend", {"points": points.columns}),
        _trend_table(comparison, listed),
    )
    return PageSection("over-versions", "Trend", [chart, _over_time(comparison, [key for key, _ in listed])])


def _over_time(comparison: GroupComparison, keys: Sequence[ClassKey]) -> Chart:
    runs = sorted(
        ((run, group.name) for group in comparison.groups for run in group.runs), key=lambda one: one[0].began_s
    )
    return over_time(
        [
            TimedMedian(
                str(run.folder),
                datetime.fromtimestamp(run.began_s, UTC),
                version,
                str(key),
                found.samples,
                p50_ns=found.p50_ns,
                low_ns=found.median_interval_ns and found.median_interval_ns.low,
                high_ns=found.median_interval_ns and found.median_interval_ns.high,
            )
            for run, version in runs
            for key in keys[:TREND_LINES]
            if (times := run.measurements.classes.get(key)) is not None
            for found in [distribution(key, times)]
        ],
        margin=comparison.rules.margin,
    )


def _trend_table(
    comparison: GroupComparison, listed: Sequence[tuple[ClassKey, Sequence[ClassComparison | None]]]
) -> Table:
    columns = [Header("class", is_number=False), *(Header(group.name) for group in comparison.groups[1:])]
    rows = [[str(key), *(_trend_cell(one) for one in pairs)] for key, pairs in listed]
    return Table("trend-numbers", f"Ratios to {comparison.groups[0].name}", columns, rows)


def _trend_cell(one: ClassComparison | None) -> str:
    return NONE if one is None else f"{ratio_text(one.effect)} ({one.verdict.value})"


def _method(comparison: GroupComparison) -> PageSection:
    columns = [*texts("group", "run", "began", "firmware"), Header("iterations"), Header("excluded")]
    rows = [_run_cells(group, number) for group in comparison.groups for number in range(len(group.runs))]
    stated = [one for pair in comparison.pairs for one in compared_figures(pair)]
    budgets = table_of("uncertainty", "Uncertainty", UNCERTAINTY_COLUMNS, stated, sources(stated), is_folded=True)
    facts = Facts("method-facts", "Method", list(fact_lines(comparison)))
    table = Table("runs", "Runs compared", columns, rows, is_folded=len(rows) > CHOICES)
    return PageSection("method", "Method and runs", [facts, budgets, table])


def _run_cells(group: RunGroup, number: int) -> list[str]:
    run = group.runs[number]
    trials = run.manifest.trials
    began = run.manifest.created[:19].replace("T", " ")
    return [
        group.name,
        str(run.folder),
        began,
        firmware_of(run.manifest) or NONE,
        str(trials.included),
        str(len(trials.excluded)),
    ]
