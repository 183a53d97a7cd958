"""What several runs of the same job say of a metric: each figure over all of them, with runs as units of its chance.

Only medians and what follows from them have such a figure. Everything else, such as counts, is judged run by run.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from emulator.results.comparison.uncertainty import over_runs
from emulator.results.statistics.metric import Metric, Reading, Subject
from emulator.results.statistics.summary import RunSummary

_BOUNDS = ("perfect", "without_waits", "network_perfect")
_FIGURES = {"value": "budget", "network": "network_budget", "network_at_best": "at_best_budget"}


def readings_over(metric: Metric, runs: Sequence[RunSummary]) -> list[Reading] | None:
    """What the metric is over these runs; of one run, what it is there. None: it is judged run by run.

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
