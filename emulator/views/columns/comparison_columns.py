"""Columns of the tables of a comparison, and of traffic beside a job: flows with peers, and background traffic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any, TypeAlias

from emulator.results.comparison.causes import Cause
from emulator.results.comparison.inference import MAX_RUNS
from emulator.results.comparison.verdicts import ClassComparison, ClassSide, ClassVerdict, ComparisonRules, Effect
from emulator.results.run_folder.flow_results import FlowResult
from emulator.results.statistics.metrics import METRICS
from emulator.results.statistics.samples.classes import JCT
from emulator.results.statistics.traffic.background import BackgroundFlow
from emulator.results.statistics.uncertainty import Budget, stated
from emulator.units import BITS_PER_BYTE, format_duration, format_size
from emulator.views.columns.columns import Column, bold, unshown
from emulator.views.columns.figures import (
    NONE,
    count_cell,
    duration_cell,
    gbps_cell,
    link_rate_cell,
    number_cell,
    percent_cell,
)

SIGNIFICANCE = (
    "p of the two-sided exact Mann-Whitney test with runs as units (for alternating runs: Wilcoxon's signed-rank "
    "test on pairs), corrected by Holm's method for all classes of the table"
)
DILUTED, BURST = "diluted by the tester", "diluted by a burst"
STYLES = {
    ClassVerdict.SLOWER: "bold red",
    ClassVerdict.FASTER: "bold green",
    ClassVerdict.NO_DIFFERENCE: "",
    ClassVerdict.INCONCLUSIVE: "yellow",
}
"""Of a verdict in a terminal."""
_Classes: TypeAlias = list[Column[ClassComparison]]
_TERMINAL = [
    "collective",
    "ranks",
    "size",
    "algorithm",
    "part",
    "baseline",
    "other",
    "ratio",
    "interval",
    "p",
    "tail",
    "finds",
    "verdict",
]
_PAGE = [
    "class",
    "outcome",
    "part",
    "baseline",
    "other",
    "ratio",
    "interval",
    "uncertainty",
    "variation",
    "p",
    "tail",
    "runs",
    "needs",
]
_MARKDOWN = ["class", "verdict", "part", "baseline", "other", "ratio", "interval", "p", "tail", "finds"]


def terminal_columns(rules: ComparisonRules, *, baseline: str, other: str) -> _Classes:
    """Columns of a terminal; arguments as of `class_columns`."""
    return _chosen(_TERMINAL, rules, baseline, other)


def page_columns(rules: ComparisonRules, *, baseline: str, other: str) -> _Classes:
    """Columns of the HTML page; arguments as of `class_columns`."""
    return _chosen(_PAGE, rules, baseline, other)


def markdown_columns(rules: ComparisonRules, *, baseline: str, other: str) -> _Classes:
    """Columns of Markdown; arguments as of `class_columns`."""
    return _chosen(_MARKDOWN, rules, baseline, other)


def _chosen(names: Iterable[str], rules: ComparisonRules, baseline: str, other: str) -> _Classes:
    columns = class_columns(rules, baseline=baseline, other=other)
    return [columns[name] for name in names]


def class_columns(rules: ComparisonRules, *, baseline: str, other: str) -> dict[str, Column[ClassComparison]]:
    """Every column with a row per class, by a short name; JSON has those with a key, in this order.

    Args:
        baseline, other: what the two groups are called in the headers.
    """
    statistic = statistic_name(rules)
    verdict: Column[ClassComparison] = Column(
        "verdict",
        "slower, faster, no difference shown (the interval lies within the margin; not a proof of equality) or"
        " inconclusive (n runs; how many would decide)",
        cell=verdict_text,
        is_number=False,
        folds=16,
        sacrifice=-1,
        style=lambda one: STYLES[one.verdict],
    )
    return {
        "class": Column(
            "class",
            "collective, ranks, size and algorithm, or the whole iteration (JCT)",
            cell=lambda one: str(one.key),
            is_number=False,
        ),
        "collective": Column(
            "collective",
            "kind of communication; JCT is the whole iteration",
            key="collective",
            value=lambda one: one.key.collective,
            show=lambda name: "JCT" if name == JCT else name,
            is_number=False,
        ),
        "ranks": Column(
            "ranks",
            "ranks in the process group; 1 for storage",
            key="members",
            value=lambda one: one.key.members,
        ),
        "size": Column(
            "size",
            "array size, counted as in nccl-tests",
            key="size_bytes",
            value=lambda one: one.key.size_bytes,
            cell=lambda one: NONE if one.key.collective == JCT else format_size(one.key.size_bytes),
        ),
        "algorithm": Column(
            "algorithm",
            "collective algorithm",
            key="algorithm",
            value=lambda one: one.key.algorithm,
            is_number=False,
            sacrifice=1,
        ),
        "where": unshown("where", lambda one: one.key.where),
        "part": Column(
            "of",
            "network: the times are the network's part of cct, which all runs know; a dash: the whole time",
            key="part",
            value=lambda one: "network" if one.is_network else None,
            is_number=False,
            is_optional=True,
            sacrifice=1,
        ),
        "baseline cct": unshown("baseline_cct_ns", lambda one: one.cct_ns[0]),
        "other cct": unshown("other_cct_ns", lambda one: one.cct_ns[1]),
        "baseline": Column(
            f"{baseline}\n{statistic}",
            f"baseline: median over the runs of their {statistic} of the network's part of cct where all runs know it, "
            "else of cct (JCT for the iteration)",
            key="baseline",
            value=lambda one: _side(one.baseline),
            cell=lambda one: duration_cell(one.baseline.median_ns),
            sacrifice=2,
        ),
        "other": Column(
            f"{other}\n{statistic}",
            "the same for the compared group",
            key="other",
            value=lambda one: _side(one.other),
            cell=lambda one: duration_cell(one.other.median_ns),
            sacrifice=2,
        ),
        "ratio": Column(
            f"ratio\n{other} / {baseline}",
            "ratio of the two; above 1: slower than the baseline",
            key="ratio",
            value=lambda one: _ratio(one.effect),
            cell=lambda one: ratio_text(one.effect),
            title="ratio",
        ),
        "interval": Column(
            "95 %\ninterval",
            "95 % interval of the ratio: bootstrap with runs as units, and what clocks, time stamps and steal add",
            cell=lambda one: interval_text(one.effect),
            sacrifice=1,
        ),
        "low": unshown("ratio_low", lambda one: _ends(one.effect)[0]),
        "high": unshown("ratio_high", lambda one: _ends(one.effect)[1]),
        "uncertainty": Column(
            "± U",
            "expanded uncertainty of the ratio (k = 2); a dash: not stated, see --explain",
            key="uncertainty",
            value=lambda one: _plain(one.uncertainty),
            cell=lambda one: number_cell(stated(one.uncertainty)),
        ),
        "variation": Column(
            "run-to-run CV",
            "coefficient of variation between runs: baseline / other",
            cell=lambda one: " / ".join(percent_cell(side.variation, digits=2) for side in (one.baseline, one.other)),
        ),
        "plain p": unshown("p"),
        "p": Column("Holm\np", SIGNIFICANCE, key="holm_p", cell=p_text, sacrifice=4),
        "tail": Column(
            "p99\nratio",
            "ratio of the 99th percentiles; affects the verdict only with --on p99",
            key="p99_ratio",
            value=lambda one: _ratio(one.tail),
            cell=lambda one: ratio_text(one.tail),
            sacrifice=5,
        ),
        "tail low": unshown("p99_ratio_low", lambda one: _ends(one.tail)[0]),
        "tail high": unshown("p99_ratio_high", lambda one: _ends(one.tail)[1]),
        "runs": Column(
            "runs", "runs with this class: baseline + other", cell=lambda one: f"{one.baseline.runs} + {one.other.runs}"
        ),
        "outcome": replace(verdict, folds=0, key="verdict", value=lambda one: one.verdict.value, cell=_outcome),
        "needs": Column(
            "needs",
            "runs per group that would decide, estimated from the spread so far",
            key="needs_runs",
            value=lambda one: one.needs,
            cell=needs_text,
        ),
        "finds": Column(
            "\nfinds",
            "the smallest slowdown of the device that 95 of 100 comparisons with this number and spread of runs find",
            key="finds_ratio",
            value=lambda one: one.finds,
            show=lambda ratio: NONE if ratio is None else f"{100 * (ratio - 1):.1f} %",
            sacrifice=3,
            title="finds",
        ),
        "tester": unshown("tester_percent"),
        "burst": unshown("burst_percent"),
        "needs to find": unshown("needs_runs_to_find", lambda one: one.needs_to_find),
        "verdict": verdict,
        "why": unshown("why", lambda one: one.why or None),
    }


def _outcome(one: ClassComparison) -> str:
    return one.verdict.value


def _side(side: ClassSide) -> dict[str, Any]:
    figures = {name: getattr(side, name) for name in ("runs", "samples", "median_ns", "variation")}
    return figures | {"values_ns": list(side.values_ns), "uncertainty": _plain(side.uncertainty)}


def _plain(budget: Budget | None) -> dict[str, Any] | None:
    return None if budget is None else asdict(budget)


def _ratio(effect: Effect | None) -> float | None:
    return None if effect is None else effect.ratio


def _ends(effect: Effect | None) -> Sequence[float | None]:
    return (None, None) if effect is None or effect.interval is None else effect.interval


def statistic_name(rules: ComparisonRules) -> str:
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


def p_text(one: ClassComparison) -> str:
    """Holm's p with two digits, or a dash."""
    return NONE if one.holm_p is None else f"{one.holm_p:.2g}"


def verdict_text(one: ClassComparison) -> str:
    """The verdict; an inconclusive one with the number of runs and how many would be needed; whether it is diluted."""
    notes = [note for note, applies in ((DILUTED, one.is_diluted), (BURST, one.is_burst)) if applies]
    return "; ".join([_verdict(one), *notes])


def _verdict(one: ClassComparison) -> str:
    verdict: str = one.verdict.value
    if one.verdict is not ClassVerdict.INCONCLUSIVE:
        return verdict
    if one.effect is None:
        return f"{verdict} ({_runs_text(one)})"
    return f"{verdict} ({_runs_text(one)}, needs {needs_text(one)})"


def needs_text(one: ClassComparison) -> str:
    """Runs per group that would decide, or a dash if it is decided or no number of runs would."""
    if one.verdict is not ClassVerdict.INCONCLUSIVE or one.effect is None:
        return NONE
    if one.needs is None:
        return f"> {MAX_RUNS}"
    # With too few runs the spread is hardly known: `needs` is then only the minimum of the rank test.
    return f"≥ {one.needs}" if one.is_too_few else str(one.needs)


def _runs_text(one: ClassComparison) -> str:
    """`n=6`, or `n=6 and 4` if the groups differ."""
    baseline, other = one.baseline.runs, one.other.runs
    return f"n={other}" if baseline == other else f"n={baseline} and {other}"


def cause_columns(*, baseline: str, other: str) -> list[Column[Cause]]:
    """Columns of the table of what was counted in two groups; arguments as of `class_columns`."""
    return [
        Column(
            "counted per run",
            "counters of whole runs, over all classes; a hint, not a test",
            cell=lambda one: METRICS[one.metric].title,
            is_number=False,
        ),
        Column(baseline, "baseline: median over its runs", cell=lambda one: cause_count(one.baseline)),
        Column(other, "the same for the compared group", cell=lambda one: cause_count(one.other)),
        Column(
            "groups",
            "apart: every run of one group counted more than every run of the other",
            cell=lambda one: "apart" if one.is_apart else "overlap",
            is_number=False,
        ),
    ]


def cause_count(value: float | None) -> str:
    """A count per run, or a dash."""
    return NONE if value is None else f"{value:,.0f}"


def _beside_ends(one: FlowResult) -> str:
    arrow = "→" if one.role == "client" else "←"
    return f"{one.flow}: {one.host} {arrow} {one.peer}"


def _counted(one: FlowResult) -> str:
    by = one.host if one.observer == "charkha" else f"{one.peer}, it says"
    return f"{one.direction if one.observer == 'charkha' else _SEEN_BY_PEER[one.direction]} by {by}"


def _rate(one: FlowResult) -> str:
    return gbps_cell(None if one.bytes_per_s is None else one.bytes_per_s * BITS_PER_BYTE)


_SEEN_BY_PEER = {"received": "sent", "served": "read", "sent": "received", "read": "served"}


FLOW_RESULT_COLUMNS: tuple[Column[FlowResult], ...] = (
    Column(
        "flow", "number of the flow in the run spec, and its ends; the arrow points from client to server",
        cell=_beside_ends, is_number=False,
    ),
    Column("test", "its verb and message size", cell=lambda one: f"{one.verb} {format_size(one.size_bytes)}",
           is_number=False, sacrifice=3),
    Column("counted", "what, and by which end", cell=_counted, is_number=False),
    Column("messages", "complete messages; for READ, requests", key="messages", show=count_cell),
    Column("time", "from the first post to the last completion; received: from the first to the last arrival",
           key="duration_ns", show=duration_cell, sacrifice=2),
    Column("Gbit/s", "payload per time", cell=_rate, style=bold),
    Column("re-\ntransmitted", "packets sent again", key="retransmits", show=count_cell,
           title="retransmitted", sacrifice=1),
    Column("latency", "median: half a round trip, for READs a whole one",
           key="latency_median_ns", show=duration_cell, is_optional=True),
    Column("complete", "whether both ends agreed that it is over", cell=lambda one: "yes" if one.is_complete else "no",
           is_number=False, sacrifice=4),
)  # fmt: skip


def _what(one: BackgroundFlow) -> str:
    sizes = format_size(one.size_bytes) if one.sizes == "fixed" else one.sizes
    return f"{one.transport} {one.pattern} {sizes}"


def _probe_outage(one: BackgroundFlow) -> str:
    found = one.longest_outage
    if found is None:
        return NONE
    least = "at least " if found.lost is None else ""
    return f"{least}{format_duration(found.outage_ns)} ± {format_duration(found.error_ns)}"


BACKGROUND_COLUMNS: tuple[Column[BackgroundFlow], ...] = (
    Column("flow", "name or number in the run spec, sender and receiver",
           cell=lambda one: f"{one.name or one.flow}: {one.sender} → {one.receiver}", is_number=False),
    Column("traffic", "transport, pattern and sizes", cell=_what, is_number=False, sacrifice=5),
    Column("offered\nGbit/s", "according to its schedule, on the wire: with all headers, preambles and gaps",
           key="offered_bps", show=gbps_cell),
    Column("sent\nGbit/s", "complete messages, on the wire; roce and tcp: acknowledged",
           key="sent_bps", show=gbps_cell, style=lambda one: "bold red" if one.is_behind else bold(one)),
    Column("received\nGbit/s", "complete messages, on the wire", key="received_bps", show=gbps_cell),
    Column("messages", "sent", key="sent_messages", show=count_cell, sacrifice=3),
    Column("lost", "packets that the receiver missed; roce and tcp retransmit them",
           key="lost_packets", show=count_cell, sacrifice=4),
    Column("outage", "over udp at equal intervals: longest time in which no datagram passed",
           cell=_probe_outage, is_optional=True),
    Column("completion\np50, p99", "time of a message from when it was due until it was complete",
           cell=lambda one: f"{duration_cell(one.completion_median_ns)}, {duration_cell(one.completion_p99_ns)}",
           sacrifice=2),
    Column("n", "messages whose completion is timed", key="completions", show=count_cell, sacrifice=6),
    Column("late\np99", "99th percentile: from when a message was due until it was offered: the tester's delay",
           key="lateness_p99_ns", show=duration_cell, sacrifice=1),
)  # fmt: skip


def describe_behind(flows: Sequence[BackgroundFlow]) -> str:
    """`Flow 1 offered 200 Mbit/s, sent 120 Mbit/s; 99 % of its messages were at most 40 ms late`, a line each."""
    lines = []
    for one in (one for one in flows if one.is_behind):
        line = f"Flow {one.flow} offered {link_rate_cell(one.offered_bps)}, sent {link_rate_cell(one.sent_bps)}"
        late = one.lateness_p99_ns
        lines.append(line if late is None else f"{line}; 99 % of its messages were at most {duration_cell(late)} late")
    return "\n".join(lines)
