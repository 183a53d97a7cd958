"""A comparison in words and figures, the same in a terminal, in a report and in JUnit XML."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from emulator.results.comparison.causes import Cause, causes, most_telling
from emulator.results.comparison.groups import RunGroup
from emulator.results.comparison.inference import MAX_RUNS
from emulator.results.comparison.verdicts import (
    TAIL,
    ClassComparison,
    Comparison,
    Effect,
    PairComparison,
    Rules,
    Verdict,
)
from emulator.results.run_folder.store import firmware_of
from emulator.results.statistics.metrics import METRICS
from emulator.results.statistics.samples.classes import ClassKey
from emulator.views.columns.columns import Column
from emulator.views.columns.figures import NONE, count_of, duration_cell

SIGNIFICANCE = (
    "p of the two-sided exact Mann-Whitney test with runs as units (for alternating runs: Wilcoxon's signed-rank "
    "test on pairs), corrected by Holm's method for all classes of the table"
)


DILUTED = "diluted by the tester"


def statistic_name(rules: Rules) -> str:
    """The percentile that represents a run in a class: `p50`, `p99`."""
    return f"p{100 * rules.quantile:g}"


def ratio_text(effect: Effect | None) -> str:
    """A ratio with three decimals, so that a difference of 0.1 % is visible."""
    return NONE if effect is None else f"{effect.ratio:.3f}"


def interval_text(effect: Effect | None) -> str:
    """`1.081-1.124`, or a dash."""
    if effect is None or effect.interval is None:
        return NONE
    return f"{effect.interval.low:.3f}-{effect.interval.high:.3f}"


def runs_text(pair: PairComparison) -> str:
    """`6 runs against 6 runs`, or `10 pairs of alternating runs, so a drift of the host cancels out`."""
    if pair.is_paired:
        return f"{len(pair.other.runs)} pairs of alternating runs, so a drift of the host cancels out"
    return f"{count_of(len(pair.other.runs), 'run')} against {count_of(len(pair.baseline.runs), 'run')}"


def largest_effect(pair: PairComparison) -> ClassComparison | None:
    """Of the classes with a verdict of faster or slower, the one farthest from equality; None if there is none."""
    found = [one for one in pair.classes if one.effect and one.verdict in (Verdict.SLOWER, Verdict.FASTER)]
    return max(found, key=lambda one: abs(math.log(one.effect.ratio)) if one.effect else 0.0, default=None)


CLASS: Column[ClassComparison] = Column(
    "class", "collective, ranks, size and algorithm, or the whole iteration (JCT)", key="key", is_number=False
)


def gravest_verdict(comparison: Comparison) -> Verdict:
    """What a comparison says in one word: slower before inconclusive before faster; no difference is the last."""
    order = (Verdict.SLOWER, Verdict.INCONCLUSIVE, Verdict.FASTER)
    return next(filter(comparison.has, order), Verdict.NO_DIFFERENCE)


def answer_words(comparison: Comparison) -> tuple[str, str]:
    """The verdict above everything else, and the counts behind it."""
    word = "UNDECIDED" if comparison.is_undecided else gravest_verdict(comparison).value.upper()
    return word, _counts(comparison)


def pair_sentence(pair: PairComparison) -> str:
    """The largest difference of two groups, how many classes have which verdict, and the counter that explains it."""
    counts = [f"{count} {verdict.value}" for verdict in Verdict if (count := pair.count(verdict))]
    classes = count_of(len(pair.classes), "class", "classes")
    most = largest_effect(pair)
    largest = f"{most.key} is {most.verdict.value}, ratio {ratio_text(most.effect)}; " if most is not None else ""
    listed = f"{largest}{classes}, {', '.join(counts) or 'none measured in both'}"
    cause = cause_text(pair)
    told = f"; {cause}" if cause else ""
    return f"{pair.other.name} against {pair.baseline.name} ({runs_text(pair)}): {listed}{told}."


def cause_columns(*, baseline: str, other: str) -> list[Column[Cause]]:
    """Columns of the table of what was counted in two groups; arguments as for `pair_columns`."""
    return [
        Column(
            "counted per run",
            "counters of whole runs, over all classes; a hint, not a test",
            cell=lambda one: METRICS[one.metric].title,
            is_number=False,
        ),
        Column(baseline, "baseline: median over its runs", cell=lambda one: _count_text(one.baseline)),
        Column(other, "the same for the compared group", cell=lambda one: _count_text(one.other)),
        Column(
            "groups",
            "apart: every run of one group counted more than every run of the other",
            cell=lambda one: "apart" if one.is_apart else "overlap",
            is_number=False,
        ),
    ]


def cause_text(pair: PairComparison) -> str:
    """`retransmissions 0 -> 1,204 a run`: the first counter that tells the groups apart; "" if none does."""
    one = most_telling(causes(pair.baseline, pair.other))
    if one is None:
        return ""
    return f"{METRICS[one.metric].title}: {_count_text(one.baseline)} → {_count_text(one.other)} a run"


def _count_text(value: float | None) -> str:
    return NONE if value is None else f"{value:,.0f}"


def undecided_text(comparison: Comparison) -> str:
    """Why a gate has decided nothing."""
    needs = [one.needs for pair in comparison.pairs for one in pair.classes if one.needs is not None]
    hint = f": play {max(needs)} runs of each group" if needs else ""
    classes = sum(len(pair.classes) for pair in comparison.pairs)
    which = f"no class of {classes} has a verdict" if classes else "no class was measured in both groups"
    return f"UNDECIDED: the gate decided nothing, {which}{hint}"


def p_text(one: ClassComparison) -> str:
    """Holm's p with two digits, or a dash."""
    return NONE if one.holm_p is None else f"{one.holm_p:.2g}"


def verdict_text(one: ClassComparison) -> str:
    """The verdict; an inconclusive one with the number of runs and how many would be needed; whether it is diluted."""
    return f"{_verdict(one)}; {DILUTED}" if one.is_diluted else _verdict(one)


def _verdict(one: ClassComparison) -> str:
    verdict: str = one.verdict.value
    if one.verdict is not Verdict.INCONCLUSIVE:
        return verdict
    if one.effect is None:
        return f"{verdict} ({_runs_text(one)})"
    return f"{verdict} ({_runs_text(one)}, needs {needs_text(one)})"


def needs_text(one: ClassComparison) -> str:
    """Runs per group that would decide, or a dash if it is decided or no number of runs would."""
    if one.verdict is not Verdict.INCONCLUSIVE or one.effect is None:
        return NONE
    if one.needs is None:
        return f"> {MAX_RUNS}"
    # With too few runs the spread is hardly known: `needs` is then only the minimum of the rank test.
    return f"≥ {one.needs}" if one.is_too_few else str(one.needs)


def _runs_text(one: ClassComparison) -> str:
    """`n=6`, or `n=6 and 4` if the groups differ."""
    baseline, other = one.baseline.runs, one.other.runs
    return f"n={other}" if baseline == other else f"n={baseline} and {other}"


def pair_columns(rules: Rules, *, baseline: str, other: str) -> dict[str, Column[ClassComparison]]:
    """Columns of the tables with a row per class of two groups, by a short name.

    Args:
        baseline, other: what the two groups are called in the headers.
    """
    statistic = statistic_name(rules)
    median = f"median over the runs of their {statistic} of cct"
    return {
        "baseline": Column(
            f"{baseline}\n{statistic}",
            f"baseline: {median} (JCT for the iteration)",
            cell=lambda one: duration_cell(one.baseline.median_ns),
            sacrifice=2,
        ),
        "other": Column(
            f"{other}\n{statistic}",
            "the same for the compared group",
            cell=lambda one: duration_cell(one.other.median_ns),
            sacrifice=2,
        ),
        "ratio": Column(
            f"ratio\n{other} / {baseline}",
            "ratio of the two; above 1: slower than the baseline",
            cell=lambda one: ratio_text(one.effect),
            title="ratio",
        ),
        "interval": Column(
            "95 %\ninterval",
            "95 % bootstrap interval of the ratio, with runs as units",
            cell=lambda one: interval_text(one.effect),
            sacrifice=1,
        ),
        "p": Column("Holm\np", SIGNIFICANCE, cell=p_text, sacrifice=4),
        "tail": Column(
            "p99\nratio",
            "ratio of the 99th percentiles; affects the verdict only with --on p99",
            cell=lambda one: ratio_text(one.tail),
            sacrifice=5,
        ),
        "finds": Column(
            "\nfinds",
            "the smallest slowdown of the device that 95 of 100 comparisons with this number and spread of runs find",
            cell=lambda one: NONE if one.finds is None else f"{100 * (one.finds - 1):.1f} %",
            sacrifice=3,
            title="finds",
        ),
        "verdict": Column(
            "verdict",
            "slower, faster, no difference shown (the interval lies within the margin; not a proof of equality) or"
            " inconclusive (n runs; how many would decide)",
            cell=verdict_text,
            is_number=False,
            sacrifice=-1,
        ),
    }


def trend_rows(comparison: Comparison) -> Iterator[tuple[ClassKey, Sequence[ClassComparison | None]]]:
    """(class, its comparison in every pair, None if the pair does not have it), in the order of the first pair."""
    found = [{one.key: one for one in pair.classes} for pair in comparison.pairs]
    for key in dict.fromkeys(key for pair in found for key in pair):
        yield key, [pair.get(key) for pair in found]


def fact_lines(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """(name, fact): groups, counts of verdicts, rules, runs left out, notes."""
    for number, group in enumerate(comparison.groups):
        yield "B" if number else "A, the baseline", _group_text(group)
    yield "Verdicts", _counts(comparison)
    yield from (("Inconclusive", text) for text in _reasons(comparison))
    yield from (("To find", text) for text in _power(comparison))
    yield from (("Diluted", text) for text in _diluted(comparison))
    yield "Rules", _rules_text(comparison)
    for group in comparison.groups:
        for one in group.excluded:
            yield "Left out", f"{one.folder}: {one.reason}"
    for note in comparison.comparability.notes:
        yield "Note", note


def _group_text(group: RunGroup) -> str:
    """Name, firmware, number of runs that count, dates."""
    firmware = firmware_of(group.runs[0].manifest)
    created = [run.manifest.created[:16].replace("T", " ") for run in group.runs]
    when = created[0] if created[0] == created[-1] else f"{created[0]} to {created[-1]}"
    runs = count_of(len(group.runs), "run")
    counted = f"{len(group.runs)} of {group.attempted} runs count" if group.excluded else runs
    return ", ".join(filter(None, [group.name, firmware and f"firmware {firmware}", counted, when]))


def _counts(comparison: Comparison) -> str:
    counts = [(verdict.value, sum(pair.count(verdict) for pair in comparison.pairs)) for verdict in Verdict]
    return ", ".join(f"{count} {name}" for name, count in counts if count) or "none"


def _reasons(comparison: Comparison) -> Iterator[str]:
    reasons = Counter(one.why for pair in comparison.pairs for one in pair.classes if one.why)
    for why, count in reasons.most_common():
        yield f"{count_of(count, 'class', 'classes')}: {why}"


def _diluted(comparison: Comparison) -> Iterator[str]:
    shares = {one.key: one.tester_percent for pair in comparison.pairs for one in pair.classes if one.is_diluted}
    if shares:
        named = "; ".join(f"{percent:.0f} % of {key}" for key, percent in shares.items())
        yield (
            f"the calibrated tester adds {named}, whatever the device does: the ratio of the device's own times is "
            'farther from 1. "finds" is about the device'
        )


def _power(comparison: Comparison) -> Iterator[str]:
    """`+3 % is found in 95 of 100 comparisons with this many runs per side: 10 (4 classes)`; empty without `--find`."""
    find = comparison.rules.find
    if find is None:
        return
    known = [one for pair in comparison.pairs for one in pair.classes if one.finds is not None]
    counts = Counter(one.needs_to_find for one in known)
    needs = sorted(counts, key=lambda one: (one is None, one))
    words = [f"{one or f'over {MAX_RUNS}'} ({count_of(counts[one], 'class', 'classes')})" for one in needs]
    if words:
        yield f"+{100 * find:g} % is found in 95 of 100 comparisons with this many runs per side: {', '.join(words)}"


def _rules_text(comparison: Comparison) -> str:
    """How verdicts are reached, in a sentence."""
    rules = comparison.rules
    text = (
        f"a run is represented by its {statistic_name(rules)} of the class; slower or faster: Holm's p < 0.05 and the "
        f"interval outside the margin of {100 * rules.margin:g} %; no difference shown: the interval inside the margin"
    )
    if len(comparison.pairs) > 1:
        text += "; every group is compared with the baseline separately, each with 5 % false alarms"
    if rules.quantile != TAIL:
        text += "; the p99 ratio does not affect verdicts"
    return text
