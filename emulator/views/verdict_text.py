"""The verdict on a run in words: one line that answers first, then the findings behind it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from emulator.results.run_folder.manifest import COMPLETE
from emulator.results.statistics.metric import IterationKey, Subject, Unit
from emulator.results.statistics.summary import RunSummary
from emulator.results.statistics.traffic.flow_figures import FlowKey
from emulator.results.verdict.judge import Finding, Outcome, Verdict
from emulator.units import format_duration, format_size
from emulator.views.columns.figures import NONE, count_of, number_cell, percent_cell, rate_cell
from emulator.views.columns.worst_columns import place_cell
from emulator.visible import visible

NO_RULES = "No rules: --expect example"
"""Last line of a run that nothing judged."""


def headline(verdict: Verdict) -> str:
    """`FAIL: busbw_to_ideal of all_reduce 8 ranks 64 MiB is 71 % (at least 90 %); 1 of 6 checks failed`.

    Without rules there is no verdict: what happened.
    """
    word, text = words(verdict)
    return f"{word} {text}" if verdict.rules is None else f"{word}: {text}"


def words(verdict: Verdict) -> tuple[str, str]:
    """The headline in two parts: the outcome, or "Played" without rules, and the rest."""
    calibrated = "" if verdict.tester.is_calibrated else "; tester not calibrated"
    calibrated = f"; {verdict.tester.expired}" if verdict.tester.expired else calibrated
    if verdict.rules is None:
        return "Played", _what_happened(verdict.summary)
    example = " (the shipped example)" if verdict.is_example else ""
    over = f"; over {verdict.runs} runs" if verdict.runs > 1 else ""
    return verdict.outcome.value, f"{_reason(verdict)}{over}; {verdict.rules}{example}{calibrated}"


def _what_happened(summary: RunSummary) -> str:
    """`5 iterations of transformer-8r on 8 ranks: 188 ms each, 69 % exposed communication, nothing lost`."""
    iteration, lost = summary.iteration, summary.totals.lost
    played = count_of(summary.trials.included, "iteration")
    facts = [] if iteration is None else [f"{format_duration(iteration.jct_ns)} each"]
    if iteration is not None and iteration.exposed_fraction is not None:
        facts.append(f"{percent_cell(iteration.exposed_fraction, digits=0)} exposed communication")
    if lost is not None:
        facts.append(f"{lost:,} lost" if lost else "nothing lost")
    if summary.status != COMPLETE:
        facts.append("the run did not complete")
    name = visible(PurePath(summary.trace).name or summary.trace)
    told = f"{played} of {name} on {count_of(summary.ranks, 'rank')}"
    return f"{told}: {', '.join(facts)}" if facts else told


def _reason(verdict: Verdict) -> str:
    decisive, total = verdict.decisive, len(verdict.findings)
    assert decisive is not None
    if verdict.outcome is Outcome.PASS:
        return f"all {total} checks met" if total > 1 else "the one check is met"
    if decisive.outcome is Outcome.PASS:
        return "the run did not complete"
    return f"{describe_finding(decisive)}; {how_many(verdict.count(verdict.outcome), total, 'check', verdict.outcome)}"


def how_many(count: int, total: int, thing: str, outcome: Outcome) -> str:
    """`1 of 3 checks is FAIL`."""
    return f"{count:,} of {count_of(total, thing)} {'is' if count == 1 else 'are'} {outcome.value}"


def describe_finding(one: Finding) -> str:
    """`busbw_to_ideal of all_reduce 8 ranks 64 MiB ring is 71 % (at least 90 %)`, with the reason if there is one."""
    about = f"{one.rule.metric.name}{describe_subject(one.subject)}"
    if one.value is None:
        return f"{about}: {one.reason} ({one.rule.bound})"
    give_or_take = "" if one.uncertainty is None else f" ± {uncertainty_cell(one)}"
    text = f"{about} is {value_cell(one)}{give_or_take} ({one.rule.bound})"
    if one.network is not None and one.outcome is not Outcome.PASS:
        text += f", {network_cell(one)} in the network"
    elif one.perfect is not None and one.outcome is not Outcome.PASS:
        text += f", {perfect_cell(one)} with a perfect device"
    if one.broken > 1:
        text += f", as {one.broken:,} of {one.of:,} {one.rule.metric.scope.value}s do not meet"
    return f"{text}: {one.reason}" if one.reason else text


def describe_subject(subject: Subject) -> str:
    """` of all_reduce 8 ranks 64 MiB ring`, ` of sw0`, ` of iteration 3`, ` of flow 0 → 4 QP 17`; "" for the run."""
    if subject is None:
        return ""
    if isinstance(subject, str):
        return f" of {subject}"
    if isinstance(subject, IterationKey):
        return f" of iteration {subject.number}"
    if isinstance(subject, FlowKey):
        ends = place_cell(subject.src, subject.source), place_cell(subject.dst, subject.destination)
        queue_pair = "" if subject.qpn is None else f" QP {subject.qpn}"
        return f" of flow {' → '.join(ends)}{queue_pair}"
    size = format_size(subject.size_bytes)
    words = [subject.collective, f"{subject.members} ranks", size, subject.algorithm, subject.where]
    return f" of {' '.join(filter(None, words))}"


def value_cell(one: Finding) -> str:
    """What was measured, in percent if the bound of a ratio is."""
    return _cell(one, one.value)


def uncertainty_cell(one: Finding) -> str:
    """U, like the value."""
    if one.uncertainty is None and one.value is not None:
        return "exact" if one.rule.metric.unit is Unit.COUNT else "not stated"
    return _cell(one, one.uncertainty)


def perfect_cell(one: Finding) -> str:
    """What a perfect device would have shown with this tester, like the value."""
    return _cell(one, one.perfect)


def network_cell(one: Finding) -> str:
    """The same of the network's part of the time, like the value."""
    return _cell(one, one.network)


def _cell(one: Finding, value: float | None) -> str:
    unit = one.rule.metric.unit
    if value is not None and unit is Unit.RATIO and one.rule.bound.text.endswith("%"):
        value, unit = 100 * value, Unit.PERCENT
    return metric_cell(value, unit)


def metric_cell(value: float | None, unit: Unit) -> str:
    """A value with its unit."""
    if value is None:
        return NONE
    if unit is Unit.NS:
        return format_duration(value)
    if unit is Unit.BYTES_PER_S:
        return f"{rate_cell(value)} GB/s"
    if unit is Unit.BYTES:
        return format_size(round(value))
    if unit is Unit.PERCENT:
        return f"{number_cell(value)} %"
    return f"{value:,.0f}" if unit is Unit.COUNT else number_cell(value)


def lines(verdict: Verdict) -> Iterator[tuple[str, str]]:
    """(outcome, description) of every finding, gravest first."""
    for one in verdict.findings:
        yield one.outcome.value, describe_finding(one)
