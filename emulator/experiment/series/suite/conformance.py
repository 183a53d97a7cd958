"""Which clauses of the document that a suite follows its result meets, and why: `conformance.json`.

A clause is met by cases that carry it out and pass, or by what Charkha always does; the suite says which. A clause that
Charkha cannot carry out is listed as not met, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from emulator.experiment.series.suite.document import ClauseSection
from emulator.experiment.series.suite.record import SuiteRecord
from emulator.results.verdict.judge import Outcome
from emulator.views.columns.figures import count_of

MET, NOT_MET = "met", "not met"


class Conformance(NamedTuple):
    """A clause, whether it is met, and why."""

    clause: str
    title: str
    status: str
    why: str


def conformance(clauses: Sequence[ClauseSection], record: SuiteRecord) -> list[Conformance]:
    """Every clause of a suite, in its order."""
    return [Conformance(one.clause, one.title, *_judge(one, record)) for one in clauses]


def conformance_to_json(clauses: Sequence[ClauseSection], record: SuiteRecord) -> dict[str, Any]:
    """The document: the source, and every clause."""
    return {
        "charkha_conformance": 1,
        "suite": record.suite,
        "source": record.source,
        "started": record.started,
        "clauses": [one._asdict() for one in conformance(clauses, record)],
    }


def _judge(one: ClauseSection, record: SuiteRecord) -> tuple[str, str]:
    if one.cases is None:
        return (MET, one.met) if one.met is not None else (NOT_MET, one.not_met or "")
    missing = "; ".join(_missing(one.cases, record))
    if missing:
        return NOT_MET, missing
    return MET, f"{count_of(len(one.cases), 'case')} passed: {', '.join(one.cases)}"


def _missing(names: Sequence[str], record: SuiteRecord) -> Iterator[str]:
    found = {case.name: case for case in record.cases}
    for name in names:
        if name not in found:
            yield f"{name} was not played"
        elif found[name].outcome is not Outcome.PASS:
            yield f"{name} is {found[name].outcome.value}: {found[name].text}"
