"""The result of a search for the highest load."""

from __future__ import annotations

from collections.abc import Sequence

from emulator.experiment.series.suite.document import Case
from emulator.experiment.series.suite.record import CaseRecord, RunRecord
from emulator.experiment.series.suite.search import Search
from emulator.experiment.series.suite.table import BITS_PER_S, BYTES, SHARE, load_text
from emulator.results.verdict.judge import Outcome, gravest

UNITS = {"rate": BITS_PER_S, "share": SHARE, "size": BYTES}
_NAMES = {"rate": "rate", "share": "share of the port's rate", "size": "size"}


def search_record(case: Case, search: Search, runs: Sequence[RunRecord]) -> CaseRecord:
    """The highest load that passed, and what the lowest load that failed shows.

    A load that the tester limits is not one that the device loses: the case is then TESTER-LIMITED, not FAIL.
    """
    outcomes = {load: gravest(run.outcome for run in runs if run.load == load) for load in _loads(runs)}
    tried = {load: outcome is Outcome.PASS for load, outcome in outcomes.items()}
    found, failed = search.found(tried), search.failed(tried)
    is_reached = found is not None and found >= search.at_least
    outcome = Outcome.PASS if is_reached or failed is None else outcomes[failed]
    return CaseRecord(
        name=case.name,
        about=case.about,
        clause=case.clause,
        outcome=outcome,
        text=_text(search, found, failed, runs),
        metric=f"highest_{search.quantity}",
        value=found,
        unit=UNITS[search.quantity],
        limit=f"at least {load_text(search.at_least, UNITS[search.quantity])}",
        runs=tuple(runs),
    )


def _text(search: Search, found: int | None, failed: int | None, runs: Sequence[RunRecord]) -> str:
    name, unit = _NAMES[search.quantity], UNITS[search.quantity]
    low, high = (load_text(load, unit) for load in (search.low, search.high))
    if found is None:
        text = f"no {name} from {low} to {high} passes"
    elif found == search.high:
        text = f"the highest {name} of the range, {high}, passes"
    else:
        text = f"highest {name} that passes is {load_text(found, unit)}"
    if failed is None:
        return text
    run = next(run for run in runs if run.load == failed and run.outcome is not Outcome.PASS)
    return f"{text} (at {load_text(failed, unit)}: {run.why})"


def _loads(runs: Sequence[RunRecord]) -> list[int]:
    return sorted({run.load for run in runs if run.load is not None})
