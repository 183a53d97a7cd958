"""A comparison in words and figures, the same in a terminal, in a report and in JUnit XML.

As Markdown it is for the summary of a CI job or a comment on a change: the verdict first, then a table.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from emulator.host.files import write_text
from emulator.results.comparison.causes import causes, most_telling
from emulator.results.comparison.groups import RunGroup
from emulator.results.comparison.inference import MAX_RUNS
from emulator.results.comparison.verdicts import (
    TAIL,
    ClassComparison,
    ClassVerdict,
    GroupComparison,
    PairComparison,
)
from emulator.results.run_folder.store import firmware_of
from emulator.results.statistics.metrics import METRICS
from emulator.results.statistics.samples.classes import ClassKey
from emulator.views.columns.columns import Column
from emulator.views.columns.comparison_columns import cause_count, markdown_columns, ratio_text, statistic_name
from emulator.views.columns.figures import count_of
from emulator.visible import visible


def runs_text(pair: PairComparison) -> str:
    """`6 runs against 6 runs`, or `10 pairs of alternating runs, so a drift of the host cancels out`."""
    if pair.is_paired:
        return f"{len(pair.other.runs)} pairs of alternating runs, so a drift of the host cancels out"
    return f"{count_of(len(pair.other.runs), 'run')} against {count_of(len(pair.baseline.runs), 'run')}"


def largest_effect(pair: PairComparison) -> ClassComparison | None:
    """Of the classes with a verdict of faster or slower, the one farthest from equality; None if there is none."""
    found = [one for one in pair.classes if one.effect and one.verdict in (ClassVerdict.SLOWER, ClassVerdict.FASTER)]
    return max(found, key=lambda one: abs(math.log(one.effect.ratio)) if one.effect else 0.0, default=None)


def gravest_verdict(comparison: GroupComparison) -> ClassVerdict:
    """What a comparison says in one word: slower before inconclusive before faster; no difference is the last."""
    order = (ClassVerdict.SLOWER, ClassVerdict.INCONCLUSIVE, ClassVerdict.FASTER)
    return next(filter(comparison.has, order), ClassVerdict.NO_DIFFERENCE)


def answer_words(comparison: GroupComparison) -> tuple[str, str]:
    """The verdict above everything else, and the counts behind it."""
    word = "UNDECIDED" if comparison.is_undecided else gravest_verdict(comparison).value.upper()
    return word, _counts(comparison)


def pair_sentence(pair: PairComparison) -> str:
    """The largest difference of two groups, how many classes have which verdict, and the counter that explains it."""
    counts = [f"{count} {verdict.value}" for verdict in ClassVerdict if (count := pair.count(verdict))]
    classes = count_of(len(pair.classes), "class", "classes")
    most = largest_effect(pair)
    largest = f"{most.key} is {most.verdict.value}, ratio {ratio_text(most.effect)}; " if most is not None else ""
    listed = f"{largest}{classes}, {', '.join(counts) or 'none measured in both'}"
    cause = cause_text(pair)
    told = f"; {cause}" if cause else ""
    return f"{pair.other.name} against {pair.baseline.name} ({runs_text(pair)}): {listed}{told}."


def cause_text(pair: PairComparison) -> str:
    """`retransmissions 0 -> 1,204 a run`: the first counter that tells the groups apart; "" if none does."""
    one = most_telling(causes(pair.baseline, pair.other))
    if one is None:
        return ""
    return f"{METRICS[one.metric].title}: {cause_count(one.baseline)} → {cause_count(one.other)} a run"


def undecided_text(comparison: GroupComparison) -> str:
    """Why a gate has decided nothing."""
    needs = [one.needs for pair in comparison.pairs for one in pair.classes if one.needs is not None]
    hint = f": play {max(needs)} runs of each group" if needs else ""
    classes = sum(len(pair.classes) for pair in comparison.pairs)
    which = f"no class of {classes} has a verdict" if classes else "no class was measured in both groups"
    return f"UNDECIDED: the gate decided nothing, {which}{hint}"


def trend_rows(comparison: GroupComparison) -> Iterator[tuple[ClassKey, Sequence[ClassComparison | None]]]:
    """(class, its comparison in every pair, None if the pair does not have it), in the order of the first pair."""
    found = [{one.key: one for one in pair.classes} for pair in comparison.pairs]
    for key in dict.fromkeys(key for pair in found for key in pair):
        yield key, [pair.get(key) for pair in found]


def fact_lines(comparison: GroupComparison) -> Iterator[tuple[str, str]]:
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


def _counts(comparison: GroupComparison) -> str:
    counts = [(verdict.value, sum(pair.count(verdict) for pair in comparison.pairs)) for verdict in ClassVerdict]
    return ", ".join(f"{count} {name}" for name, count in counts if count) or "none"


def _reasons(comparison: GroupComparison) -> Iterator[str]:
    reasons = Counter(one.why for pair in comparison.pairs for one in pair.classes if one.why)
    for why, count in reasons.most_common():
        yield f"{count_of(count, 'class', 'classes')}: {why}"


def _diluted(comparison: GroupComparison) -> Iterator[str]:
    """What hides a part of a difference, and in which classes."""
    classes = [one for pair in comparison.pairs for one in pair.classes]
    shares = [f"{one.tester_percent:.0f} % of {one.key}" for one in classes if one.is_diluted]
    if shares:
        yield (
            f"the tester adds {_each_once(shares)}, whatever the device does: the ratio of the device's own times is "
            'farther from 1. "finds" is about the device'
        )
    bursts = [f"{one.key} is {one.burst_percent:.0f} % faster" for one in classes if one.is_burst]
    if bursts:
        yield (
            f"{_each_once(bursts)} than the rates of its ports allow: a burst passes at once. A device of a lower rate "
            "passes it as well, and shows less of the difference: compare larger sizes"
        )


def _each_once(texts: Sequence[str]) -> str:
    return "; ".join(dict.fromkeys(texts))


def _power(comparison: GroupComparison) -> Iterator[str]:
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


def _rules_text(comparison: GroupComparison) -> str:
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


R = TypeVar("R")
_MARKS = str.maketrans({mark: f"\\{mark}" for mark in "\\`*_[]<>|#"})


def comparison_to_markdown(comparison: GroupComparison) -> str:
    """The comparison in GitHub's Markdown, which GitLab and Jenkins read too."""
    return "\n".join(_lines(comparison)) + "\n"


def _lines(comparison: GroupComparison) -> Iterator[str]:
    word, counts = answer_words(comparison)
    yield f"### {escaped(word)}"
    yield ""
    yield escaped(counts)
    if comparison.is_forced:
        yield ""
        yield "**Forced: these runs are not comparable. Do not rely on these verdicts.**"
    for pair in comparison.pairs:
        yield ""
        yield escaped(pair_sentence(pair))
        yield ""
        yield from _table(pair, comparison)
    yield ""
    yield from (f"- {escaped(name)}: {escaped(fact)}" for name, fact in fact_lines(comparison))


def _table(pair: PairComparison, comparison: GroupComparison) -> Iterator[str]:
    names = {"baseline": visible(pair.baseline.name), "other": visible(pair.other.name)}
    yield from markdown_table(markdown_columns(comparison.rules, **names), pair.classes)


def markdown_table(columns: Sequence[Column[R]], rows: Sequence[R]) -> Iterator[str]:
    """The lines of a table; numbers are aligned to the right."""
    yield _row(column.name for column in columns)
    yield _row(("---:" if column.is_number else "---" for column in columns), is_text=False)
    for row in rows:
        yield _row(column.cell(row) for column in columns)


def _row(cells: Iterator[str], *, is_text: bool = True) -> str:
    return f"| {' | '.join(escaped(cell) if is_text else cell for cell in cells)} |"


def escaped(text: str) -> str:
    """Text that stands as it is in Markdown."""
    return visible(text).translate(_MARKS).replace("\n", " ")


def write_comparison(
    comparison: GroupComparison, *, html: Path | None, junit: Path | None, is_strict: bool, is_trend: bool = False
) -> None:
    """Write the files that are requested.

    Args:
        html, junit: the files; None: not written.
        is_strict: an inconclusive class is a failure in the XML.
        is_trend: the page shows the runs over time.

    Raises:
        HostError: a file cannot be written.
    """
    # Imported where they are needed: pages take a tenth of a second.
    if html is not None:
        from emulator.views.html.comparison_page import comparison_page
        from emulator.views.html.page.document import render

        write_text(html, render(comparison_page(comparison, is_trend=is_trend)))
    if junit is not None:
        from emulator.views.junit import comparison_to_xml

        write_text(junit, comparison_to_xml(comparison, is_strict=is_strict))
