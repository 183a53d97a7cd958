"""The result of a session: a record of every job, with what the others did to it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from emulator.comparison.interference import measure_interference
from emulator.run_folder.session import Session, complete_session, job_folder, load_session
from emulator.run_folder.session import is_session as has_session
from emulator.statistics.metric import Kind, Metric, Reading, Scope, Unit
from emulator.suite.document import Case
from emulator.suite.record import RunRecord, run_record
from emulator.verdict.judge import Outcome
from emulator.verdict.rules import Bound, Rule, Selection


def session_records(case: Case, folder: Path, name: str, *, problem: str = "") -> list[RunRecord]:
    """The jobs of a session by the rules of its case, in their order.

    Args:
        case: what was played.
        folder: of the session; need not hold one if `problem` says why.
        name: of the folder, below that of the suite.
        problem: why the session failed.

    Raises:
        ResultError: a run cannot be read.
    """
    session = load_session(folder) if has_session(folder) else None
    factors = _factors(complete_session(folder)) if case.interference is not None else {}
    records = []
    for job in case.experiment.jobs:
        of_job = job_folder(Path(name), job.name).as_posix()
        run = None if session is None else session.jobs.get(job.name)
        if run is None:
            record = RunRecord(folder=of_job, run_id=None, outcome=Outcome.UNDECIDED, problem=problem, job=job.name)
            records.append(record)
            continue
        more = [] if case.interference is None else [_rule(case.interference, factors.get(job.name))]
        records.append(run_record(case, run, of_job, problem=problem, job=job.name, more=more))
    return records


def _factors(session: Session | None) -> Mapping[str, float]:
    """Job → interference factor of its JCT, of those that have one."""
    found = () if session is None else measure_interference([session]).jobs
    return {one.name: one.jct.effect.ratio for one in found if one.jct is not None and one.jct.effect is not None}


def _rule(bound: Bound, factor: float | None) -> Rule:
    """The bound as a rule for a run; the factor is a figure of the session, not of the summary of a run."""
    metric = Metric(
        name="interference",
        title="interference factor",
        unit=Unit.RATIO,
        scope=Scope.RUN,
        what="median JCT beside the other jobs / median JCT alone",
        key="interference",
        kind=Kind.TIMING,
        family="interference",
        statistic="",
        read=lambda summary: iter([Reading(None, factor)]),
    )
    return Rule(metric, bound, Selection())
