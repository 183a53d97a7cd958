"""What a run or a session came to, for machines: what `run --json` and `report --json` print.

A folder may also hold a suite or a sweep: its page, and the same facts for machines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from emulator.experiment.settle.workload import planned_pair_sweep, planned_sweep
from emulator.experiment.spec.document import stored_spec
from emulator.plugins import PluginKind, load
from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.session import StoredSession, load_session
from emulator.results.statistics.pair_sweep import PairTable, pair_table
from emulator.results.statistics.sweep import SweepTable, sweep_table
from emulator.results.verdict.session import JudgedRun, JudgedSession, judge_run, judge_session
from emulator.views.as_json import interference_to_json, summary_to_json, sweep_to_json, verdict_to_json

if TYPE_CHECKING:
    from emulator.views.html.page.document import Page


def bench_table(run: Run) -> SweepTable | PairTable | None:
    """The sizes or the pairs that a run swept; None if it did not sweep any.

    Raises:
        ResultError: a table of the run is missing or damaged.
        InputError: its run spec cannot be read.
    """
    job = None if run.manifest.spec is None else stored_spec(run).job
    if job is not None and job.sweep is not None:
        planned = planned_sweep(job.sweep)
        return sweep_table(run, kind=planned.kind, ranks=planned.ranks, sizes=planned.sizes)
    if job is not None and job.pair_sweep is not None:
        return pair_table(run, size_bytes=planned_pair_sweep(job.pair_sweep).size_bytes)
    return None


def session_to_json(judged: JudgedSession) -> dict[str, Any]:
    """A session; of one job, it is the document of the run.

    Raises:
        ResultError: a run is missing or damaged.
        InputError: its run spec or its rules cannot be read.
    """
    session = judged.session
    if session.is_run:
        return _run_to_json(judged.jobs[judged.decisive])
    verdict = judged.verdict
    jobs = [
        {"job": name, "start_ns": session.starts_ns.get(name), **_run_to_json(one)} for name, one in judged.jobs.items()
    ]
    return {
        "session_id": session.facts.session_id,
        "session_folder": str(session.folder),
        "verdict": {"outcome": None if verdict.rules is None else verdict.outcome.value, "job": judged.decisive},
        "jobs": jobs,
        "solo": [{"job": name, **_run_to_json(judge_run(run))} for name, run in session.solo.items()],
        "interference": interference_to_json(judged.interference),
    }


def report_to_json(session: StoredSession) -> dict[str, Any]:
    """The facts of the report of a run, or of a session.

    Raises:
        ResultError: a run is missing or damaged.
        InputError: its run spec or its rules cannot be read.
    """
    from emulator.views.html.facts import read_facts
    from emulator.views.html.run_page import facts_to_json

    if session.is_run:
        return facts_to_json(read_facts(session.run)) | {"run_folder": str(session.folder)}
    return session_to_json(judge_session(session))


def _run_to_json(judged: JudgedRun) -> dict[str, Any]:
    table = bench_table(judged.run)
    if table is None:
        facts = summary_to_json(judged.summary)
    else:
        facts = table.to_json() if isinstance(table, PairTable) else sweep_to_json(table)
    for name in ("flow_results", "background"):
        if rows := [asdict(one) for one in getattr(judged.summary, name)]:
            facts |= {name: rows}
    return facts | {"run_folder": str(judged.run.folder), "verdict": verdict_to_json(judged.verdict)}


class StoredResult(NamedTuple):
    """A result; each half is made when it is asked for, which raises ResultError if a run is missing or damaged.

    Attributes:
        page: in a folder.
    """

    page: Callable[[Path], Page]
    to_json: Callable[[], dict[str, Any]]


def stored_result(folder: Path) -> StoredResult:
    """The result in a folder.

    Raises:
        ResultError: it has none, or a damaged one, or several, as `suite run --profiles` leaves.
        InputError: the file of its suite or sweep is damaged.
    """
    from emulator.views.html.writing import report_page

    series: StoredResult | None = load(PluginKind.HOOKS, "series_result")(folder)
    if series is not None:
        return series
    session = load_session(folder)
    return StoredResult(lambda place: report_page(session, place), lambda: report_to_json(session))
