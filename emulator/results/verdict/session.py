"""A session after its end: every job summarised and judged by its own rules, and what the jobs did to each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from emulator.errors import ResultError
from emulator.results.comparison.interference import Interference, measure_interference
from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.session import StoredSession
from emulator.results.statistics.summary import RunSummary, summarise
from emulator.results.verdict.judge import Verdict, gravest, judge
from emulator.results.verdict.rules import rules_of


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """A run, its summary, and its verdict by the rules that it was played with."""

    run: Run
    summary: RunSummary
    verdict: Verdict


@dataclass(frozen=True)
class JudgedSession:
    """A session, and its jobs by name."""

    session: StoredSession
    jobs: Mapping[str, JudgedRun]

    @cached_property
    def interference(self) -> Interference:
        """Of its jobs.

        Raises:
            ResultError: a run cannot be read.
        """
        return measure_interference([self.session])

    @property
    def decisive(self) -> str:
        """Name of the first job with the gravest verdict."""
        outcome = gravest(one.verdict.outcome for one in self.jobs.values())
        return next(name for name, one in self.jobs.items() if one.verdict.outcome is outcome)

    @property
    def verdict(self) -> Verdict:
        """The gravest of the jobs."""
        return self.jobs[self.decisive].verdict


def judge_run(run: Run) -> JudgedRun:
    """Summarise and judge a run.

    Raises:
        ResultError: a table of the run is missing or damaged.
        InputError: its rules cannot be read.
    """
    summary = summarise(run)
    return JudgedRun(run, summary, judge(summary, rules_of(run)))


def judge_session(session: StoredSession) -> JudgedSession:
    """Summarise and judge every job of a session.

    Raises:
        ResultError: the session has no run, or one cannot be read.
        InputError: rules of a job cannot be read.
    """
    if not session.jobs:
        raise ResultError("none of its jobs has a run folder", path=session.folder)
    return JudgedSession(session, {name: judge_run(run) for name, run in session.jobs.items()})
