"""The verdict on a run: each rule against what was measured, and one answer with its reason.

The tester itself may have set the times: steal, late posts, agents that waited for a core, kernel drops.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np

from emulator import exit_codes
from emulator.results.comparison.uncertainty import readings_over
from emulator.results.run_folder.manifest import COMPLETE, RunFigures
from emulator.results.statistics.method.descriptive import median
from emulator.results.statistics.metric import MetricKind, Reading, Scope, Subject, TesterEffect, Unit
from emulator.results.statistics.port_rates import NO_TIMELINE
from emulator.results.statistics.samples.classes import ClassKey
from emulator.results.statistics.summary import RunSummary
from emulator.results.statistics.tester_model import MOST_CORE_WAIT
from emulator.results.statistics.uncertainty import Budget, stated
from emulator.results.verdict.rules import Rule, Rules
from emulator.units import format_duration

MOST_STEAL = 0.02
"""Share of the cores' time that went to other virtual machines, above which times describe the host."""
MOST_LATENESS_OF_CCT = 0.1
"""Median lateness of posts, relative to the shortest median cct."""


@dataclass(frozen=True, slots=True)
class TesterState:
    """What is known about the tester. Texts are empty where nothing was found.

    Attributes:
        is_calibrated: a calibration of this host applies to the run.
        core_wait: agents waited for a core, over the whole run.
        steal: the hypervisor took too much of the cores' time.
        lateness: communications were posted late.
        drops: receiving hosts dropped datagrams, which counts of loss and repair then contain.
        has_loss: packets were lost, so that the tester's part of a time can contain repairs.
        expired: the calibration was too old.
    """

    is_calibrated: bool
    core_wait: str = ""
    steal: str = ""
    lateness: str = ""
    drops: str = ""
    has_loss: bool = False
    expired: str = ""

    @property
    def problems(self) -> tuple[str, ...]:
        """Why times of the run describe the tester rather than the device; empty: nothing was found."""
        return tuple(filter(None, (self.core_wait, self.steal, self.lateness, self.drops)))

    def doubt(self, reading: Reading | None = None) -> str:
        """Why a time describes the tester rather than the device; "" if nothing speaks for it.

        A class is judged by the waits during its own collectives, where these are known. A late post does not lengthen
        them: they begin with the last one.

        Args:
            reading: the time; None: times of the whole run.
        """
        if reading is None or reading.core_wait_fraction is None:
            return next(iter(self.problems), "")
        return _core_wait(reading.core_wait_fraction) or self.steal or self.drops


def judge_tester(summary: RunSummary) -> TesterState:
    """Judge the tester by what its agents reported."""
    drops, tester = summary.totals.receiver_drops, summary.tester
    return TesterState(
        is_calibrated=any(one.tester_percent is not None for one in summary.classes),
        core_wait=_core_wait(tester.core_wait_fraction),
        steal=_steal(tester.steal_fraction),
        lateness=_lateness(summary),
        has_loss=bool(summary.totals.lost),
        expired=tester.calibration_expired,
        drops=f"the receiving hosts dropped datagrams {drops:,} times: their buffers were full" if drops else "",
    )


def _core_wait(fraction: float | None) -> str:
    if fraction is None or fraction <= MOST_CORE_WAIT:
        return ""
    return f"an agent waited for a core {100 * fraction:.0f} % of the time"


def _steal(fraction: float | None) -> str:
    if fraction is None or fraction <= MOST_STEAL:
        return ""
    return f"the hypervisor took {100 * fraction:.1f} % of the cores' time (steal)"


def _lateness(summary: RunSummary) -> str:
    shortest = min((one.cct_p50_ns for one in summary.classes if one.cct_p50_ns), default=None)
    late = summary.tester.post_lateness_median_ns
    if late is None or shortest is None or late <= MOST_LATENESS_OF_CCT * shortest:
        return ""
    return f"posts were {format_duration(late)} late at the median, the shortest cct is {format_duration(shortest)}"


class Outcome(Enum):
    """What a rule, or the whole verdict, says."""

    FAIL = "FAIL"
    TESTER_LIMITED = "TESTER-LIMITED"
    UNDECIDED = "UNDECIDED"
    PASS = "PASS"

    @property
    def exit_code(self) -> int:
        """Exit code of a command whose answer this is."""
        return _EXIT_CODES[self]


_GRAVITY = (Outcome.FAIL, Outcome.TESTER_LIMITED, Outcome.UNDECIDED, Outcome.PASS)
"""The gravest outcome of the rules is that of the run."""
_EXIT_CODES = {
    Outcome.PASS: exit_codes.DONE,
    Outcome.FAIL: exit_codes.EXPECTATION_FAILED,
    Outcome.TESTER_LIMITED: exit_codes.TESTER_LIMITED,
    Outcome.UNDECIDED: exit_codes.UNDECIDED,
}

_DEVICE_ALONE = frozenset({"jct_to_ideal", "busbw_to_ideal", "slowest_to_mean"})
"""Timings whose usual bounds are about the device, as if the tester took no time."""
_NO_IDEAL = "it is not known what a perfect device would show: a port has no rate, or a class no calibrated time"
_SHARED = "other collectives crossed its ports at the same time, and the ideal is that of one alone: judge the JCT"
_WAY_OUT = "take a larger size, fewer ranks an agent, or rates scaled down"
_STALL = "the tester may have made this time: without its waits for a core it would meet the bound"
_WITHIN_ERROR = "the network's part of it misses the bound, but by no more than the tester may have added to that"
_AROUND = "transfers inside hosts decided how long it took, so that its part in the network does not measure the ports"
_REPAIRS = "the network's part of it meets the bound, but packets were lost: the rest can be their repair"
_UNKNOWN_LIMIT = "the device or the tester may be the reason: `charkha agent calibrate` finds out"


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule applied to one value.

    Attributes:
        subject: the class, the iteration, the flow, the event, or the name of the device; None: the run. Of iterations
            and flows it is the worst.
        value: in the unit of the metric; None: not measured.
        reason: why the outcome is not that of the comparison alone; "" if it is.
        perfect: what a perfect device would have shown with this tester; None: not known.
        network: the same of the part of the time that the network had; None: not measured.
        budget: the uncertainty of `value`; None: it has none.
        broken, of: how many of how many iterations or flows do not meet the bound; 0 of 0 for other metrics.
        needs: if U reaches the bound, runs, or of one run iterations, that would decide, 0: none; None: it does not.
    """

    rule: Rule
    subject: Subject
    value: float | None
    outcome: Outcome
    reason: str = ""
    perfect: float | None = None
    broken: int = 0
    of: int = 0
    network: float | None = None
    budget: Budget | None = None
    needs: int | None = None

    @property
    def uncertainty(self) -> float | None:
        """U, in the unit of the metric; None: not stated, so that the value alone was compared."""
        return stated(self.budget)

    @property
    def no_uncertainty(self) -> str:
        """Why U is not stated; "" if it is."""
        metric = self.rule.metric
        if self.value is None or self.uncertainty is not None:
            return ""
        if metric.unit is Unit.COUNT:
            return "exact: a count"
        if self.budget is not None:
            return self.budget.why
        return "one iteration" if metric.scope is Scope.ITERATION else "only of medians and what follows from them"

    @property
    def distance(self) -> float:
        """How far the value is from its limit, relative to the limit; 0 if it was not measured.

        From a limit of 0 every other value is equally far: then the order of the rules decides, not the larger counter.
        """
        if self.value is None:
            return 0.0
        limit = self.rule.bound.limit
        if not limit:
            return math.inf if self.value else 0.0
        return abs(self.value - limit) / limit


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer for a run.

    Attributes:
        outcome: the gravest of the findings; UNDECIDED without rules.
        findings: of every rule, gravest first.
        rules: name of the rules; None: there were none.
        is_example: they are the shipped example.
        tester: state of the tester.
        summary: of the run; of several, the first.
        runs: how many were judged as one.
    """

    outcome: Outcome
    findings: Sequence[Finding]
    rules: str | None
    is_example: bool
    tester: TesterState
    summary: RunSummary = field(repr=False, compare=False)
    runs: int = 1

    @property
    def exit_code(self) -> int:
        """Exit code of a command whose answer this is."""
        return self.outcome.exit_code

    @property
    def decisive(self) -> Finding | None:
        """The finding that decides; None without rules."""
        return self.findings[0] if self.findings else None

    @property
    def figures(self) -> RunFigures:
        """What lists show of the run."""
        iteration = self.summary.iteration
        return RunFigures(
            verdict=None if self.rules is None else self.outcome.value,
            jct_ns=None if iteration is None else round(iteration.jct_ns),
            lost=self.summary.totals.lost,
        )

    def count(self, outcome: Outcome) -> int:
        """Number of findings with this outcome."""
        return sum(one.outcome is outcome for one in self.findings)


def _gravest_first(one: Finding) -> tuple[int, float]:
    return _GRAVITY.index(one.outcome), -one.distance


def gravest(outcomes: Iterable[Outcome]) -> Outcome:
    """The one that decides; PASS if there is none."""
    return min(outcomes, key=_GRAVITY.index, default=Outcome.PASS)


def judge(summary: RunSummary, rules: Rules | None, *, others: Sequence[RunSummary] = ()) -> Verdict:
    """Apply rules to a run, or to several that repeat each other.

    A run that did not complete never passes. A value passes if it meets its limit although the tester can only have
    made it worse. It fails only if a perfect device would have met the limit with this tester. A share of ideal or a
    ratio of times does not fail if the limits of the tester are unknown. Of several runs, medians and what follows from
    them are judged over all of them; everything else in each, and the gravest decides.

    Args:
        summary: of the run.
        rules: None: only the state of the tester is judged.
        others: of the other runs of the same job.
    """
    runs = (summary, *others)
    states = [judge_tester(one) for one in runs]
    verdict = Verdict(Outcome.UNDECIDED, (), None, False, _of_all(states), summary, len(runs))
    if rules is None:
        return verdict
    findings = [one for rule in rules.rules for one in _apply(rule, runs, states)]
    findings.sort(key=_gravest_first)
    outcome = findings[0].outcome
    if outcome is Outcome.PASS and any(one.status != COMPLETE for one in runs):
        outcome = Outcome.UNDECIDED
    return replace(verdict, outcome=outcome, findings=findings, rules=rules.name, is_example=rules.is_example)


def _of_all(states: Sequence[TesterState]) -> TesterState:
    """What one run has against the tester, all of them have."""
    if len(states) == 1:
        return states[0]
    names = ("core_wait", "steal", "lateness", "drops", "expired")
    texts = {name: [text for one in states if (text := getattr(one, name))] for name in names}
    told = {name: f"{found[0]} ({len(found)} of {len(states)} runs)" for name, found in texts.items() if found}
    return TesterState(all(one.is_calibrated for one in states), has_loss=any(one.has_loss for one in states), **told)


_NO_PORT = "nothing crossed a port, and the ideal follows from the rates of ports"
_NOTHING_TO_JUDGE = defaultdict(
    lambda: "not measured",
    {
        Scope.CLASS: "no class of the run matches",
        Scope.EVENT: "the run had no such event",
        Scope.PORT: f"no port received several flows, or {NO_TIMELINE}",
    },
)


def _apply(rule: Rule, runs: Sequence[RunSummary], states: Sequence[TesterState]) -> Iterator[Finding]:
    """The findings of a rule over all runs; or of those of each run the gravest, for every subject that is not many."""
    readings = readings_over(rule.metric, runs)
    if readings is not None:
        yield from _findings(rule, readings, runs[0], _of_all(states))
        return
    each: dict[Subject, list[Finding]] = {}
    for run, state in zip(runs, states, strict=True):
        for one in _findings(rule, list(rule.metric.read(run)), run, state):
            each.setdefault(None if rule.metric.scope.is_many else one.subject, []).append(one)
    for found in each.values():
        missed = [one for one in found if one.outcome is not Outcome.PASS]
        worst = min(missed, key=_gravest_first) if missed else min(found, key=lambda one: one.distance)
        where = f"in {len(missed)} of {len(runs)} runs" if missed else ""
        yield replace(worst, reason="; ".join(filter(None, (worst.reason, where))))


def _findings(rule: Rule, readings: Sequence[Reading], summary: RunSummary, state: TesterState) -> Iterator[Finding]:
    readings = [one for one in readings if not isinstance(one.subject, ClassKey) or rule.where.takes(one.subject)]
    if not readings:
        why = _NOTHING_TO_JUDGE[rule.metric.scope]
        if rule.metric.field == "ideal_percent" and not summary.crosses_ports:
            why = _NO_PORT
        yield Finding(rule, None, None, Outcome.UNDECIDED, why)
    elif rule.metric.scope.is_many:
        yield _judge_worst(rule, readings, state)
    else:
        yield from (_compare(rule, one, state) for one in readings)


def _judge_worst(rule: Rule, readings: Sequence[Reading], state: TesterState) -> Finding:
    """The worst iteration or flow stands for all: if it meets the bound, all do, unless one was not measured."""
    known = [(one.value, one) for one in readings if one.value is not None]
    if not known:
        why = next((one.why for one in readings if one.why), "not measured")
        return Finding(rule, None, None, Outcome.UNDECIDED, why)
    _, worst = (min if rule.bound.is_lower else max)(known, key=lambda one: one[0])
    broken = sum(not rule.bound.holds(value) for value, _ in known)
    if rule.metric.scope is Scope.ITERATION and rule.metric.kind is MetricKind.TIMING:
        worst = worst._replace(without_waits=median(np.array([value for value, _ in known])))
    found = replace(_compare(rule, worst, state), broken=broken, of=len(readings))
    if found.outcome is Outcome.PASS and len(known) < len(readings):
        missing = f"{len(readings) - len(known):,} of {len(readings):,} were not measured"
        return replace(found, outcome=Outcome.UNDECIDED, reason=missing)
    return found


def _compare(rule: Rule, reading: Reading, state: TesterState) -> Finding:
    subject, value, perfect = reading.subject, reading.value, reading.perfect
    if value is None:
        return Finding(rule, subject, None, Outcome.UNDECIDED, reading.why or "not measured")
    outcome, reason = _weigh(rule, reading, value, state)
    if reading.is_least and outcome in (Outcome.PASS, Outcome.FAIL) and not rule.bound.is_lower:
        outcome, reason = (Outcome.UNDECIDED if outcome is Outcome.PASS else outcome), reading.why
    found = Finding(rule, subject, value, outcome, reason, perfect, network=reading.network, budget=reading.budget)
    if outcome in (Outcome.PASS, Outcome.FAIL) and (
        across := _across(rule, reading, value, outcome, has_loss=state.has_loss)
    ):
        return replace(found, outcome=Outcome.UNDECIDED, reason=across[0], needs=across[1])
    return found


def _across(rule: Rule, reading: Reading, value: float, outcome: Outcome, *, has_loss: bool) -> tuple[str, int] | None:
    """Why the uncertainty of the figure that decided leaves it open, and `Finding.needs`; None if it does not."""
    bound, effect, is_met = rule.bound, rule.metric.effect, outcome is Outcome.PASS
    is_spoilt = effect is not TesterEffect.EITHER and bound.is_lower is (effect is TesterEffect.LOWER)
    deciding = [reading.budget]
    if is_spoilt and reading.network is not None:
        if not is_met:
            deciding = [reading.at_best_budget]
        elif not bound.holds(value):
            deciding = [reading.network_budget]
        elif bound.holds(reading.network) and reading.is_network_whole and not has_loss:
            deciding.append(reading.network_budget)  # a perfect tester would have shown that
    # Late stamps and steal lengthen times: they can have spoilt a value that meets its bound, not made it better.
    counts_all = effect is TesterEffect.EITHER or is_met is not is_spoilt
    doubts = [_reach(one, bound.limit, better=counts_all) for one in deciding]
    return doubts[0] if all(doubts) else None


def _reach(budget: Budget | None, limit: float, *, better: bool) -> tuple[str, int] | None:
    """That U reaches a limit, and what would help; None if it does not, or is not stated."""
    if budget is None or abs(budget.value - limit) >= budget.towards(better=better):
        return None
    share = 100 * budget.towards(better=better) / abs(budget.value)
    needed, what = budget.needs_to_decide(limit, better=better), "runs" if budget.runs else "iterations"
    told = f"about {needed:,} {what} would decide" if needed else f"more {what} would not decide"
    return f"the bound is within its uncertainty (U {share:.2g} %): {told}", needed or 0


def _weigh(rule: Rule, reading: Reading, value: float, state: TesterState) -> tuple[Outcome, str]:
    """The outcome for a value, and why it is not that of the comparison alone."""
    bound, metric = rule.bound, rule.metric
    holds = bound.holds(value)
    if metric.effect is TesterEffect.NOTHING:
        return (Outcome.PASS if holds else Outcome.FAIL), ""
    if metric.effect is not TesterEffect.EITHER and holds is (bound.is_lower is (metric.effect is TesterEffect.LOWER)):
        # Met although the tester can only have spoilt it, or missed although it can only have helped.
        return (Outcome.PASS if holds else Outcome.FAIL), ""
    if reading.network is not None and metric.effect is not TesterEffect.EITHER:
        return _weigh_network(rule, reading, reading.network, state)
    doubt = state.doubt(reading) if metric.kind is MetricKind.TIMING else state.drops
    if not doubt and reading.is_tester_limited:
        doubt = "the tester alone needs most of this time"
    if doubt:
        return Outcome.TESTER_LIMITED, doubt
    if holds:
        return Outcome.PASS, ""
    if reading.perfect is not None and not bound.holds(reading.perfect):
        return Outcome.TESTER_LIMITED, f"a perfect device would not meet it with this tester: {_WAY_OUT}"
    if reading.without_waits is not None and bound.holds(reading.without_waits):
        return Outcome.TESTER_LIMITED, _STALL
    if reading.perfect is None and metric.name in _DEVICE_ALONE:
        known = _SHARED if reading.shares_ports else _NO_IDEAL
        return Outcome.UNDECIDED, known if state.is_calibrated else _UNKNOWN_LIMIT
    return Outcome.FAIL, ""


def _weigh_network(rule: Rule, reading: Reading, network: float, state: TesterState) -> tuple[Outcome, str]:
    """The same for a time that misses its limit, of which the network's part is known: that part is judged."""
    bound, at_best, perfect = rule.bound, reading.network_at_best, reading.network_perfect
    if bound.holds(network):
        if not reading.is_network_whole:
            return Outcome.TESTER_LIMITED, _AROUND
        return (Outcome.TESTER_LIMITED, _REPAIRS) if state.has_loss else (Outcome.PASS, "")
    if at_best is None or bound.holds(at_best) or (perfect is not None and not bound.holds(perfect)):
        return Outcome.TESTER_LIMITED, f"{_WITHIN_ERROR}: {_WAY_OUT}"
    if reading.shares_ports and rule.metric.name in _DEVICE_ALONE:
        return Outcome.UNDECIDED, _SHARED
    doubt = state.steal or state.drops
    return (Outcome.TESTER_LIMITED, doubt) if doubt else (Outcome.FAIL, "")
