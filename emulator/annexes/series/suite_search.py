"""The highest load that passes, by bisection as in RFC 2544 (section 26.1), and what a search says of it.

The first trial is at the highest load. If it does not pass, the lowest is next, then always the middle between the
highest load that passed and the lowest that did not, until the two differ by the resolution or less. A load is passed,
failed, or undecided: then nobody knows yet, and the search goes on below it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from emulator.annexes.series.suite_document import Case, Search
from emulator.annexes.series.suite_record import BITS_PER_S, BYTES, SHARE, CaseRecord, RunRecord, SetRecord
from emulator.annexes.series.suite_table import load_text
from emulator.results.verdict.judge import Outcome, gravest

UNITS = {"rate": BITS_PER_S, "share": SHARE, "size": BYTES}
_NAMES = {"rate": "rate", "share": "share of the port's rate", "size": "size"}


def next_load(search: Search, tried: Mapping[int, bool]) -> int | None:
    """The load to try next; None if the search is over.

    Args:
        tried: load → whether it passed; one that is undecided did not.
    """
    if not tried:
        return search.high
    if found(tried) == search.high:
        return None
    if search.low not in tried:
        return search.low
    passed, stopped = found(tried), not_passed(tried)
    if passed is None or stopped is None or stopped - passed <= max(1, search.resolution * search.high):
        return None
    return (passed + stopped) // 2


def found(tried: Mapping[int, bool]) -> int | None:
    """The highest load that passed with none below it that did not; None if there is none."""
    stopped = not_passed(tried)
    return max((load for load, passes in tried.items() if passes and (stopped is None or load < stopped)), default=None)


def not_passed(tried: Mapping[int, bool]) -> int | None:
    """The lowest load that did not pass; None if all did."""
    return min((load for load, passes in tried.items() if not passes), default=None)


def outcomes_of(runs: Sequence[RunRecord], sets: Sequence[SetRecord]) -> Mapping[int, Outcome]:
    """Load → the outcome of its runs as one if they were judged so, else the gravest of them; by load."""
    as_one = {one.load: one.outcome for one in sets}
    loads = sorted({run.load for run in runs if run.load is not None})
    return {load: as_one.get(load) or gravest(run.outcome for run in runs if run.load == load) for load in loads}


def search_record(case: Case, search: Search, runs: Sequence[RunRecord], sets: Sequence[SetRecord] = ()) -> CaseRecord:
    """The highest load that passed, and what the lowest load that did not shows.

    A load that the tester limits is not one that the device loses: the case is then TESTER-LIMITED, not FAIL. Nor is
    one that is undecided, unless a load that is no higher than the required one failed.

    Args:
        sets: of the loads whose runs were judged as one.
    """
    outcomes = outcomes_of(runs, sets)
    tried = {load: outcome is Outcome.PASS for load, outcome in outcomes.items()}
    highest, stopped = found(tried), not_passed(tried)
    failed = next((load for load, outcome in outcomes.items() if outcome is Outcome.FAIL), None)
    outcome = Outcome.PASS
    if stopped is not None and (highest is None or highest < search.at_least):
        outcome = outcomes[stopped]
        if outcome is Outcome.UNDECIDED and failed is not None and failed <= search.at_least:
            outcome = Outcome.FAIL
    return CaseRecord(
        name=case.name,
        about=case.about,
        clause=case.clause,
        outcome=outcome,
        text=_text(search, highest, stopped, outcomes, [*sets, *runs]),
        metric=f"highest_{search.quantity}",
        value=highest,
        unit=UNITS[search.quantity],
        limit=f"at least {load_text(search.at_least, UNITS[search.quantity])}",
        runs=tuple(runs),
        sets=tuple(sets),
    )


def _text(
    search: Search,
    highest: int | None,
    stopped: int | None,
    outcomes: Mapping[int, Outcome],
    judged: Sequence[RunRecord | SetRecord],
) -> str:
    name, unit = _NAMES[search.quantity], UNITS[search.quantity]
    low, high = (load_text(load, unit) for load in (search.low, search.high))
    if highest is None:
        text = f"no {name} from {low} to {high} passes"
    elif highest == search.high:
        text = f"the highest {name} of the range, {high}, passes"
    else:
        text = f"highest {name} that passes is {load_text(highest, unit)}"
    if stopped is None:
        return text
    at = [one for one in judged if one.load == stopped]
    why = next(one.why for one in at if one.outcome is outcomes[stopped])
    if outcomes[stopped] is not Outcome.UNDECIDED or not any(one.is_open for one in at):
        return f"{text} (at {load_text(stopped, unit)}: {why})"
    failed = next((load for load, outcome in outcomes.items() if outcome is Outcome.FAIL), None)
    fails = "" if failed is None else f"; {load_text(failed, unit)} fails"
    return f"{text} (at {load_text(stopped, unit)} undecided: {why}{fails})"
