"""The result of a suite as a value, and its file: every table, report and history is made from it.

`suite.json` in the folder of a suite is written when the suite starts and after every case, so it tells what is done
even if the suite was killed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Literal

import msgspec
from msgspec.structs import replace

from emulator.annexes.series.record import SeriesRecord, check_below
from emulator.annexes.series.suite_document import Case, ClauseSection, Suite
from emulator.results.run_folder.manifest import Manifest, RunFigures
from emulator.results.run_folder.reader import Run
from emulator.results.statistics.metric import MetricKind, Unit
from emulator.results.statistics.summary import RunSummary, summarise
from emulator.results.statistics.uncertainty import Budget
from emulator.results.verdict.judge import Finding, Outcome, Verdict, gravest, judge
from emulator.results.verdict.rules import Rule, Rules
from emulator.views.columns.figures import count_of, link_rate_cell
from emulator.views.columns.result_columns import result_of
from emulator.views.verdict_text import describe_finding, describe_subject, how_many

BITS_PER_S, BYTES, SHARE = "bit/s", "By", "0.01 %"
"""Units of loads."""
OFFERED = 0.75
"""Share of a load, as payload at the busiest port over the median iteration, from which on the load was offered."""


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """A rule applied to a value; the value is in the unit of the metric, None if it was not measured.

    Attributes:
        uncertainty: of the value; None: it has no budget, or the record is of an earlier Charkha.
        uncertainty_why: why U is not stated; "" if it is.
        needs: as of Finding.
    """

    outcome: Outcome
    text: str
    metric: str
    about: str
    unit: str
    value: float | None
    bound: str
    uncertainty: Budget | None = None
    uncertainty_why: str = ""
    needs: int | None = None

    def __post_init__(self) -> None:
        Unit(self.unit)


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A run of a case.

    Attributes:
        folder: below that of the suite.
        job: of a session; None: the case is none.
        run_id: None if the run left no folder.
        load: in bit/s or bytes, of a search; None: the case is no search.
        problem: why the run failed, or did not offer its load; "" if neither.
        figures, firmware, topology: for lists; None if not known.
        checks: gravest first.
    """

    folder: str
    run_id: str | None
    outcome: Outcome
    job: str | None = None
    load: int | None = None
    problem: str = ""
    is_calibrated: bool = False
    firmware: str | None = None
    topology: str | None = None
    figures: RunFigures | None = None
    checks: tuple[Check, ...] = ()

    def __post_init__(self) -> None:
        check_below(self.folder)

    @property
    def why(self) -> str:
        """Why its outcome is what it is: the gravest check, or what went wrong although the checks are met."""
        first = self.checks[0] if self.checks else None
        is_met = first is None or first.outcome is Outcome.PASS
        return self.problem if first is None or (is_met and self.problem) else first.text

    @property
    def is_open(self) -> bool:
        """Whether more runs would decide: it is complete, and only within its uncertainty undecided."""
        return not self.problem and _is_open(self.outcome, self.checks)


def _is_open(outcome: Outcome, checks: Sequence[Check]) -> bool:
    return outcome is Outcome.UNDECIDED and all(one.needs for one in checks if one.outcome is Outcome.UNDECIDED)


class SetRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Runs of a case that were judged as one.

    Attributes:
        load: of a search, as of RunRecord; None: the case is repeated.
        runs: how many.
        why: the gravest check, over all runs.
        figures: for lists, over all runs.
        checks: gravest first.
    """

    load: int | None = None
    runs: int
    outcome: Outcome
    why: str
    figures: RunFigures | None = None
    checks: tuple[Check, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether more runs would decide."""
        return _is_open(self.outcome, self.checks)


class CaseRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a case.

    Attributes:
        text: why the outcome is what it is, with the figure that decides.
        metric, value, unit, limit: that figure and its bound; None if nothing was measured.
        runs: one, those of a case that is repeated, one for each job of a session, or those of a search in the order
            they were played.
        sets: runs that were judged as one: those of a case that is repeated, or of an undecided load of a search.
    """

    name: str
    about: str = ""
    clause: str | None = None
    outcome: Outcome
    text: str
    metric: str | None = None
    value: float | None = None
    unit: str | None = None
    limit: str | None = None
    runs: tuple[RunRecord, ...]
    sets: tuple[SetRecord, ...] = ()

    def __post_init__(self) -> None:
        check_below(self.name)
        if self.unit not in (None, BITS_PER_S, SHARE):
            Unit(self.unit)

    @property
    def jobs(self) -> tuple[str, ...]:
        """Names of the jobs of a session; empty: the case is none."""
        return tuple(run.job for run in self.runs if run.job is not None)

    @property
    def as_one(self) -> SetRecord | None:
        """Its runs, if it is repeated; None: it is not."""
        return next((one for one in self.sets if one.load is None), None)

    @property
    def checks(self) -> tuple[Check, ...]:
        """Of its runs as one, or of the first that decides; of a search none."""
        run = self.as_one or self.decisive
        return () if run is None or run.load is not None else run.checks

    @property
    def decisive(self) -> RunRecord | None:
        """The first run with the outcome of the case, of a search at the load that it found; None: there is none."""
        if self.as_one is not None:
            return next(iter(self.runs), None)
        alike = [run for run in self.runs if run.outcome is self.outcome]
        return next((run for run in alike if run.load is not None and run.load == self.value), next(iter(alike), None))


class SuiteRecord(SeriesRecord, frozen=True, kw_only=True):
    """The result of a suite, so far.

    Attributes:
        digest: of what is played, see `Suite.digest`.
        started: ISO 8601 with zone.
        planned: number of cases.
        clauses: of the document that the suite follows; of a Charkha that did not store them, none.
        cases: those that are done, in order.
    """

    FILE: ClassVar[str] = "suite.json"
    SERIES: ClassVar[str] = "suite"
    charkha_suite_result: Literal[1] = 1
    suite: str
    description: str = ""
    source: str = ""
    not_covered: tuple[str, ...] = ()
    digest: str
    started: str
    topology: str | None = None
    planned: int
    clauses: tuple[ClauseSection, ...] = ()
    cases: tuple[CaseRecord, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """The gravest of the cases; a suite that is not finished never passes."""
        found = gravest(one.outcome for one in self.cases)
        return Outcome.UNDECIDED if found is Outcome.PASS and self.left else found

    @property
    def left(self) -> int:
        """Number of cases that were not played."""
        return self.planned - len(self.cases)

    @property
    def text(self) -> str:
        """The answer on one line, after the outcome."""
        alike = [one for one in self.cases if one.outcome is self.outcome]
        if self.outcome is Outcome.PASS:
            reason = "its only case passed" if self.planned == 1 else f"all {self.planned} cases passed"
        elif not alike:
            reason = f"{self.left} of {count_of(self.planned, 'case')} not played"
        else:
            first = alike[0]
            reason = f"{first.name}: {first.text}; {how_many(len(alike), self.planned, 'case', self.outcome)}"
        is_calibrated = all(run.is_calibrated for case in self.cases for run in case.runs)
        return f"{reason}; {self.suite}{'' if is_calibrated else '; tester not calibrated'}"

    def with_case(self, case: CaseRecord) -> SuiteRecord:
        """The same with the result of one more case."""
        return replace(self, cases=(*self.cases, case))

    def to_plain(self) -> dict[str, Any]:
        """As plain values, for JSON; outcome and text first."""
        return {"outcome": self.outcome.value, "text": self.text, **SeriesRecord.to_plain(self)}


def new_record(suite: Suite, *, digest: str, started: str) -> SuiteRecord:
    """The result of a suite before its first case."""
    topologies = {one.experiment.network.topology for one in suite.cases}
    return SuiteRecord(
        suite=suite.name,
        description=suite.description,
        source=suite.source,
        not_covered=suite.not_covered,
        digest=digest,
        started=started,
        topology=topologies.pop() if len(topologies) == 1 else None,
        planned=len(suite.cases),
        clauses=suite.clauses,
    )


def run_record(
    case: Case,
    run: Run,
    folder: str,
    *,
    load: int | None = None,
    rate_bps: int | None = None,
    problem: str = "",
    job: str | None = None,
    more: Sequence[Rule] = (),
) -> RunRecord:
    """The result of a run by the rules of its case.

    Args:
        case, run: what was played.
        folder: of the run, below that of the suite.
        load: of a search.
        rate_bps: that load as the rate of a port; None if it is none.
        problem: why the run failed.
        job: of a session.
        more: rules beside those of the case.

    Raises:
        ResultError: the run cannot be read.
    """
    summary = summarise(run)
    verdict = judge(summary, Rules(case.rules.name, (*case.rules.rules, *more)))
    manifest: Manifest = run.manifest
    result = result_of(manifest)
    outcome = verdict.outcome
    short = "" if rate_bps is None else shortfall(summary, rate_bps)
    if short and outcome is Outcome.PASS:
        outcome = Outcome.TESTER_LIMITED if verdict.tester.doubt() else Outcome.UNDECIDED
        problem = ": ".join(filter(None, (short, verdict.tester.doubt())))
    return RunRecord(
        folder=folder,
        run_id=manifest.run_id,
        outcome=outcome,
        job=job,
        load=load,
        problem=problem or manifest.reason or "",
        is_calibrated=verdict.tester.is_calibrated,
        firmware=result.profile,
        topology=result.topology,
        figures=verdict.figures,
        checks=tuple(_check(one) for one in _decisive_first(verdict)),
    )


def shortfall(summary: RunSummary, rate_bps: int) -> str:
    """Why a load was not offered: no port came near it. "" if one did, or if nothing is known of the ports."""
    busiest = summary.totals.network.busiest if summary.totals.network is not None else None
    if busiest is None or busiest.bits_per_s >= OFFERED * rate_bps:
        return ""
    carried, wanted = (link_rate_cell(bps) for bps in (busiest.bits_per_s, rate_bps))
    return f"the load was not offered: {busiest.port} {busiest.direction} {carried} of payload, not {wanted}"


def case_record(case: Case, runs: Sequence[RunRecord]) -> CaseRecord:
    """The result of a case that is a run or a session: of its jobs, the first with the gravest outcome decides."""
    outcome = gravest(one.outcome for one in runs)
    run = next(one for one in runs if one.outcome is outcome)
    first = run.checks[0] if run.checks else None
    text = f"the run failed: {run.problem}" if run.problem or first is None else first.text
    if run.problem and run.outcome is Outcome.FAIL and first is not None:
        text = f"{first.text}; {text}"
    if run.job is not None:
        text = f"job {run.job}: {text}"
    return CaseRecord(
        name=case.name,
        about=case.about,
        clause=case.clause,
        outcome=run.outcome,
        text=text,
        metric=None if first is None else first.metric,
        value=None if first is None else first.value,
        unit=None if first is None else first.unit,
        limit=None if first is None else first.bound,
        runs=tuple(runs),
    )


def set_record(verdict: Verdict, shown: RunFigures, *, load: int | None = None) -> SetRecord:
    """The result of runs that were judged as one, of which lists show `shown`."""
    checks = tuple(_check(one) for one in _decisive_first(verdict))
    return SetRecord(
        load=load,
        runs=verdict.runs,
        outcome=verdict.outcome,
        why=f"{checks[0].text}; over {verdict.runs} runs",
        figures=dataclasses.replace(shown, verdict=verdict.outcome.value),
        checks=checks,
    )


def repeated_record(case: Case, runs: Sequence[RunRecord], as_one: SetRecord | None) -> CaseRecord:
    """The result of a case that is repeated: that of its runs as one, and no better than that of one that failed."""
    gravest_run = case_record(case, runs)
    if as_one is None:
        return gravest_run
    failed = [one for one in runs if one.problem or one.run_id is None]
    told = [as_one.why, *(f"{len(failed)} of {len(runs)} runs failed: {one.problem}" for one in failed[:1])]
    first = as_one.checks[0]
    return replace(
        gravest_run,
        outcome=gravest([as_one.outcome, *(one.outcome for one in failed)]),
        text="; ".join(told),
        metric=first.metric,
        value=first.value,
        unit=first.unit,
        limit=first.bound,
        sets=(as_one,),
    )


def _decisive_first(verdict: Verdict) -> Iterable[Finding]:
    """The findings; where all pass, the timing that is closest to its limit is first."""
    if verdict.outcome is not Outcome.PASS:
        return verdict.findings
    return sorted(verdict.findings, key=lambda one: (one.rule.metric.kind is not MetricKind.TIMING, one.distance))


def _check(one: Finding) -> Check:
    metric = one.rule.metric
    return Check(
        outcome=one.outcome,
        text=describe_finding(one),
        metric=metric.name,
        about=describe_subject(one.subject).removeprefix(" of "),
        unit=metric.unit.value,
        value=one.value,
        bound=str(one.rule.bound),
        uncertainty=one.budget,
        uncertainty_why=one.no_uncertainty,
        needs=one.needs,
    )
