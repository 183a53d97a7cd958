"""A session after its end: every job summarised and judged by its own rules, and what the jobs did to each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from emulator.errors import ResultError
from emulator.results.comparison.interference import Interference, measure_interference
from emulator.results.run_folder.session import StoredSession
from emulator.results.statistics.summary import RunSummary, summarise
from emulator.results.verdict.judge import Verdict, gravest, judge
from emulator.results.verdict.rules import rules_of


@dataclass(frozen=True, slots=True)
class JudgedJob:
    """A job, and its verdict."""

    summary: RunSummary
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class JudgedSession:
    """A session, its jobs by name, and their interference."""

    session: StoredSession
    jobs: Mapping[str, JudgedJob]
    interference: Interference

    @property
    def decisive(self) -> str:
        """Name of the first job with the gravest verdict."""
        outcome = gravest(one.verdict.outcome for one in self.jobs.values())
        return next(name for name, one in self.jobs.items() if one.verdict.outcome is outcome)

    @property
    def verdict(self) -> Verdict:
        """The gravest of the jobs."""
        return self.jobs[self.decisive].verdict


def judge_session(session: StoredSession) -> JudgedSession:
    """Summarise and judge every job of a session.

    Raises:
        ResultError: the session has no run, or one cannot be read.
        InputError: rules of a job cannot be read.
    """
    if not session.jobs:
        raise ResultError("none of its jobs has a run folder", path=session.folder)
    jobs = {}
    for name, run in session.jobs.items():
        summary = summarise(run)
        jobs[name] = JudgedJob(summary, judge(summary, rules_of(run)))
    return JudgedSession(session, jobs, measure_interference([session]))
