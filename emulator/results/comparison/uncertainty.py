"""The uncertainty of what several runs say: of a figure of runs that repeat each other, and of a ratio of two groups.

Chance is in the spread of the runs, whose iterations are not independent. What is the same in all runs, known by a
bound, does not shrink with their number; in a ratio it cancels as far as both groups have it. docs/uncertainty.md has
the formulas.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from emulator.results.comparison import inference
from emulator.results.comparison.inference import Floats
from emulator.results.statistics.method.bootstrap import Interval
from emulator.results.statistics.metric import Metric, Reading, Subject
from emulator.results.statistics.summary import RunSummary
from emulator.results.statistics.uncertainty import (
    CLOCK,
    COVERAGE_FACTOR,
    REFERENCE,
    REPEAT,
    STAMP,
    STEAL,
    Budget,
    Component,
    widened,
)

FEWEST_RUNS = 4
"""With three, half of all U are more than 5 times the error (Student's t), or cover in 89 % of cases (bootstrap)."""
_SAME_PORTS = "cancels: both groups have the same ports"
_BOUNDS = ("perfect", "without_waits", "network_perfect")
_FIGURES = {"value": "budget", "network": "network_budget", "network_at_best": "at_best_budget"}
NO_STAMPS = "error of time stamps not known: the runs have none of the kernel, and no calibration"


def over_runs(values: Floats, budgets: Sequence[Budget]) -> Budget:
    """A figure of runs that repeat each other: the Hodges-Lehmann estimate of their numbers.

    Args:
        values: one number per run, above 0, at least one.
        budgets: what is known of the figure in each of these runs; empty: nothing.
    """
    count, value, chance = len(values), inference.location(values), None
    if count >= FEWEST_RUNS:  # a bootstrap of so few covers less than it says
        chance = widened(count) / 2 * float(np.std(np.log(values), ddof=1)) / math.sqrt(count) * value
    parts = [Component(REPEAT, chance, "A", _few(count) or f"{count} runs, Student's t")]
    for one in budgets[0].components if budgets else (Component(STAMP, None, "B", NO_STAMPS),):
        if one.name != REPEAT:
            share = _share(one.name, budgets)
            parts.append(Component(one.name, None if share is None else share * value, one.kind, one.source))
    bias = [one.bias / one.value for one in budgets if one.bias is not None]
    found = Budget.of(value, parts, bias=float(np.median(bias)) * value if bias else None)
    return replace(found, runs=count)


def of_ratio(
    ratio: float,
    interval: Interval | None,
    sides: tuple[Sequence[Budget], Sequence[Budget]],
    *,
    count: int,
    runs: str,
    why: str = "",
    other_ports: str = "",
) -> Budget:
    """The ratio of a time in two groups.

    Args:
        interval: of the ratio, from the spread of the runs; None: there is one run a side.
        count: runs of the group that has fewer.
        sides: what is known of the time in each run of the baseline, and of the other group.
        runs: how many, in words.
        why: what keeps errors of the tester from being the same in both groups; "": nothing does.
        other_ports: what keeps those of the rates of ports from it; "": nothing does.
    """
    few, chance = _few(count), None
    if interval is not None and not few:
        chance, few = (interval.high - interval.low) / 4, f"{runs}: a quarter of the 95 % interval of the bootstrap"
    parts = [Component(REPEAT, chance, "A", few)]
    for name in (CLOCK, STAMP, STEAL):
        found = [one for side in sides for each in side if (one := each.part(name)) is not None]
        of = next((one.source for one in sorted(found, key=lambda one: one.standard is not None)), "")
        shares = [_share(name, side) for side in sides]
        if all(one is not None for one in shares):
            apart = abs((shares[1] or 0.0) - (shares[0] or 0.0))
            parts.append(Component(name, apart * ratio, "B", f"what does not cancel: {of}"))
        elif name == STAMP:
            parts.append(Component(name, None, "B", of or NO_STAMPS))
    parts.append(Component(REFERENCE, None if other_ports else 0.0, "B", other_ports or _SAME_PORTS))
    return Budget.of(ratio, parts, why=why)


def reaching(interval: Interval, budget: Budget) -> Interval:
    """An interval of a ratio from the spread of the runs, widened by the other parts of its budget.

    Stamps that are late make a ratio look closer to 1, and never farther from it: they widen it only away from 1.
    """
    shares = {one.name: (one.standard or 0.0) / budget.value for one in budget.components if one.name != REPEAT}
    away = COVERAGE_FACTOR * math.hypot(*shares.values())
    towards = COVERAGE_FACTOR * math.hypot(*(one for name, one in shares.items() if name != STAMP))
    below, above = (towards, away) if budget.value > 1 else (away, towards)
    low = math.hypot(math.log(budget.value / interval.low), below)
    high = math.hypot(math.log(interval.high / budget.value), above)
    return Interval(budget.value * math.exp(-low), budget.value * math.exp(high))


def _few(count: int) -> str:
    """That there are too few runs; "" if not."""
    if count >= FEWEST_RUNS:
        return ""
    return "one run" if count == 1 else f"{count} runs, and {FEWEST_RUNS} are the fewest"


def _share(name: str, budgets: Sequence[Budget]) -> float | None:
    """Of the value, the standard uncertainty by one part: median over the runs; None: not known of all."""
    found = [(one.part(name), one.value) for one in budgets]
    known = [part.standard / value for part, value in found if part is not None and part.standard is not None]
    return float(np.median(known)) if known and len(known) == len(budgets) else None


def readings_over(metric: Metric, runs: Sequence[RunSummary]) -> list[Reading] | None:
    """What the metric is over these runs; of one run, what it is there. None: it is judged run by run.

    Only medians and what follows from them have a figure over runs. Everything else, such as counts, has not.

    Args:
        runs: at least one, of the same job.
    """
    found = [list(metric.read(one)) for one in runs]
    if len(runs) == 1:
        return found[0]
    subjects: dict[Subject, list[Reading]] = {}
    for one in chain.from_iterable(found):
        subjects.setdefault(one.subject, []).append(one)
    has_budgets = any(one.budget for one in chain.from_iterable(found))
    return [_over(each, len(runs)) for each in subjects.values()] if has_budgets else None


def _over(each: Sequence[Reading], runs: int) -> Reading:
    """What makes a run doubtful makes all of them so."""
    why = [one.why or "not measured" for one in each if one.value is None] + ["not measured"] * (runs - len(each))
    if why:
        return Reading(each[0].subject, None, why=f"{why[0]} in {len(why)} of {runs} runs")
    waits = [one.core_wait_fraction for one in each if one.core_wait_fraction is not None]
    found: dict[str, Any] = {
        "is_tester_limited": any(one.is_tester_limited for one in each),
        "shares_ports": any(one.shares_ports for one in each),
        "is_network_whole": all(one.is_network_whole for one in each),
        "core_wait_fraction": max(waits, default=None),
    }
    for name in (*_BOUNDS, *_FIGURES):
        values = [getattr(one, name) for one in each]
        found[name] = None if None in values else float(np.median(values))
        if of := _FIGURES.get(name):
            budgets, is_above_0 = [getattr(one, of) for one in each], found[name] is not None and min(values) > 0
            found[of] = over_runs(np.array(values), budgets if all(budgets) else ()) if is_above_0 else None
            found[name] = found[of].value if found[of] else found[name]
    return each[0]._replace(**found)
