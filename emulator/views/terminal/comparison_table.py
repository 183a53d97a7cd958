"""A comparison as tables for people: effect and interval first, then the verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from emulator.comparison.groups import RunGroup
from emulator.comparison.inference import MOST_RUNS
from emulator.comparison.verdicts import (
    TAIL,
    ClassComparison,
    Comparison,
    Effect,
    PairComparison,
    Rules,
    Verdict,
)
from emulator.run_folder.store import firmware_of
from emulator.statistics.classes import JCT
from emulator.units import format_duration, format_size
from emulator.views.terminal.summary_table import NONE
from emulator.visible import visible

STYLES = {
    Verdict.SLOWER: "bold red",
    Verdict.FASTER: "bold green",
    Verdict.NO_DIFFERENCE: "",
    Verdict.INCONCLUSIVE: "yellow",
}
_LEFT = ("collective", "algorithm", "verdict")


def render(comparison: Comparison) -> RenderableType:
    """The comparison for a console."""
    parts: list[RenderableType] = []
    if comparison.is_forced:
        parts += [*forced_lines(comparison), Text()]
    for pair in comparison.pairs:
        parts += [_headline(pair), Text(), _table(pair, comparison.rules), Text()]
    return Group(*parts, facts_grid(fact_lines(comparison)))


def forced_lines(comparison: Comparison) -> Iterator[Text]:
    """What makes a forced comparison worthless, first of all."""
    yield Text("FORCED: these runs are not comparable, no verdict below can be relied on.", style="bold red")
    for one in comparison.comparability.refused:
        yield Text(visible(f"  {one}"), style="red")


def _headline(pair: PairComparison) -> Text:
    other, baseline = pair.other, pair.baseline
    counts = f"{_runs(other)} against {_runs(baseline)}"
    return Text.assemble((other.name, "bold"), " against ", (baseline.name, "bold"), f": {counts}")


def _runs(group: RunGroup) -> str:
    return f"{len(group.runs)} run{'s' * (len(group.runs) != 1)}"


def _table(pair: PairComparison, rules: Rules) -> RenderableType:
    if not pair.classes:
        return Text("No class was measured in both.")
    statistic = statistic_name(rules)
    names = ("A", "B") if {pair.baseline.name, pair.other.name} != {"A", "B"} else (pair.baseline.name, pair.other.name)
    titles = ["collective", "ranks", "size", "algorithm", *(f"{name}\n{statistic}" for name in names)]
    titles += ["ratio\nB / A", "95 %\ninterval", "Holm's\np", "p99\nratio", "verdict"]
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=0)
    for title in titles:
        is_left = title in _LEFT
        table.add_column(title, justify="left" if is_left else "right", no_wrap=title != "verdict", vertical="bottom")
    for one in pair.classes:
        table.add_row(*_cells(one), Text(verdict_text(one), style=STYLES[one.verdict]))
    return table


def _cells(one: ClassComparison) -> list[str]:
    key = one.key
    is_iteration = key.collective == JCT
    return [
        "JCT" if is_iteration else key.collective,
        str(key.members),
        NONE if is_iteration else format_size(key.size_bytes),
        key.algorithm or NONE,
        duration_text(one.baseline.median_ns),
        duration_text(one.other.median_ns),
        ratio_text(one.effect),
        interval_text(one.effect),
        NONE if one.holm_p is None else f"{one.holm_p:.2g}",
        ratio_text(one.tail),
    ]


def statistic_name(rules: Rules) -> str:
    """`p50`, `p99`: what stands for a run."""
    return f"p{100 * rules.quantile:g}"


def duration_text(value_ns: float | None) -> str:
    """A time with its unit, or a dash."""
    return NONE if value_ns is None else format_duration(value_ns)


def ratio_text(effect: Effect | None) -> str:
    """Three decimals: a difference of a permille is seen."""
    return NONE if effect is None else f"{effect.ratio:.3f}"


def interval_text(effect: Effect | None) -> str:
    """`1.081-1.124`, or a dash."""
    if effect is None or effect.interval is None:
        return NONE
    return f"{effect.interval.low:.3f}-{effect.interval.high:.3f}"


def verdict_text(one: ClassComparison) -> str:
    """The verdict; an inconclusive one says how many runs there are and how many are needed."""
    verdict: str = one.verdict.value
    if one.verdict is not Verdict.INCONCLUSIVE:
        return verdict
    if one.effect is None:
        return f"{verdict} ({runs_text(one)})"
    return f"{verdict} ({runs_text(one)}, needs {needs_text(one)})"


def needs_text(one: ClassComparison) -> str:
    """Runs a side that would decide, or a dash where it is decided, or no number of runs would."""
    if one.verdict is not Verdict.INCONCLUSIVE or one.effect is None:
        return NONE
    if one.needs is None:
        return f"> {MOST_RUNS}"
    # Of too few runs the spread is hardly known: so many are what the rank test wants in any case.
    return f"≥ {one.needs}" if one.is_too_few else str(one.needs)


def runs_text(one: ClassComparison) -> str:
    """`n=6`, or `n=6 and 4` where the sides differ."""
    baseline, other = one.baseline.runs, one.other.runs
    return f"n={other}" if baseline == other else f"n={baseline} and {other}"


def facts_grid(facts: Iterable[tuple[str, str]]) -> Table:
    """Names and facts in two columns."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column()
    for name, fact in facts:
        grid.add_row(name, Text(visible(fact)))
    return grid


def fact_lines(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """(name, fact) of what belongs to a comparison beside its tables."""
    for label, group in zip(_labels(comparison), comparison.groups, strict=True):
        yield label, group_text(group)
    yield "Verdicts", _counts(comparison)
    yield from (("Inconclusive", text) for text in _reasons(comparison))
    yield "Rules", rules_text(comparison)
    for group in comparison.groups:
        for one in group.left_out:
            yield "Left out", f"{one.folder}: {one.why}"
    for note in comparison.comparability.notes:
        yield "Note", note


def _labels(comparison: Comparison) -> Sequence[str]:
    if len(comparison.groups) == 2:
        return ["A, the baseline", "B"]
    return ["A, the baseline", *("B" for _ in comparison.groups[1:])]


def group_text(group: RunGroup) -> str:
    """Name, firmware, runs that count, when."""
    firmware = firmware_of(group.runs[0].manifest)
    created = [run.manifest.created[:16].replace("T", " ") for run in group.runs]
    when = created[0] if created[0] == created[-1] else f"{created[0]} to {created[-1]}"
    counted = f"{len(group.runs)} of {group.attempted} runs count" if group.left_out else _runs(group)
    return ", ".join(filter(None, [group.name, firmware and f"firmware {firmware}", counted, when]))


def _counts(comparison: Comparison) -> str:
    counts = [(verdict.value, sum(pair.count(verdict) for pair in comparison.pairs)) for verdict in Verdict]
    return ", ".join(f"{count} {name}" for name, count in counts if count) or "none"


def _reasons(comparison: Comparison) -> Iterator[str]:
    reasons = Counter(one.why for pair in comparison.pairs for one in pair.classes if one.why)
    for why, count in reasons.most_common():
        yield f"{count} class{'es' * (count != 1)}: {why}"


def rules_text(comparison: Comparison) -> str:
    """How verdicts are made, in a sentence."""
    rules = comparison.rules
    text = (
        f"a run stands for a class with its {statistic_name(rules)}; slower or faster: Holm's p < 0.05 and the "
        f"interval beyond the margin of {100 * rules.margin:g} %; no difference shown: the interval within it"
    )
    if len(comparison.pairs) > 1:
        text += "; each group is compared with the baseline on its own, 5 % of false alarms hold for each"
    if rules.quantile != TAIL:
        text += "; the p99 ratio takes no part in verdicts"
    return text
