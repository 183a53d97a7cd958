"""The report of a session, with what its jobs do to each other; writes it, or that of a run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from emulator.host.files import write_text
from emulator.plugins import PluginKind, load
from emulator.results.comparison.interference import covered_iterations, window_of
from emulator.results.run_folder.manifest import COMPLETE, REPORT
from emulator.results.run_folder.schema import RunTable
from emulator.results.run_folder.session import StoredSession
from emulator.results.statistics.samples.iterations import iteration_spans
from emulator.results.verdict.session import JudgedRun, JudgedSession, judge_session
from emulator.views.columns.columns import Column
from emulator.views.columns.figures import NONE, count_of, describe_scaling, duration_cell
from emulator.views.columns.interference_columns import (
    INTERFERENCE_COLUMNS,
    interference_facts,
    interference_rows,
    interference_text,
    session_words,
    tester_problems,
)
from emulator.views.html.facts import read_facts
from emulator.views.html.page.document import Answer, Block, Chart, Facts, Page, PageSection, link_to, render, table_of
from emulator.views.html.page.pictures import Picture, Rows
from emulator.views.html.run_page import run_page
from emulator.views.html.sections.overview import TONES
from emulator.views.verdict_text import words


def report_page(session: StoredSession, place: Path) -> Page:
    """The report of a session, in the folder `place`; of one job, it is that of the run.

    Raises:
        ResultError: a table of a run is missing or damaged, or there is no run.
    """
    return run_page(read_facts(session.run)) if session.is_run else session_page(judge_session(session), place)


def write_report(session: StoredSession, path: Path | None = None) -> Path:
    """Write the report of a session and return its path.

    Args:
        session: complete or aborted.
        path: of the file; None = report.html in its folder. An existing file is replaced.

    Raises:
        ResultError: a table of a run is missing or damaged, or there is no run.
        HostError: the file cannot be written.
    """
    target = session.folder / REPORT if path is None else path
    write_text(target, render(report_page(session, target.parent)))
    return target


DRAWN = 400
"""Iterations of a job in the time line."""
_JobRow = tuple[str, JudgedRun, str]
_JOBS: tuple[Column[_JobRow], ...] = (
    Column("job", cell=lambda row: row[0], is_number=False),
    Column("plays", cell=lambda row: row[1].summary.trace, is_number=False),
    Column("ranks", cell=lambda row: str(row[1].summary.ranks)),
    Column("began", "after the first job began", cell=lambda row: row[2]),
    Column("iterations", "measured", cell=lambda row: str(row[1].summary.trials.included)),
    Column(
        "JCT",
        "median time of all measured iterations, covered by others or not",
        cell=lambda row: duration_cell(row[1].summary.iteration.jct_ns if row[1].summary.iteration else None),
    ),
    Column(
        "verdict",
        "by the rules that it was played with; and if it did not complete",
        cell=lambda row: _outcome(row[1]),
        is_number=False,
    ),
)


def session_page(judged: JudgedSession, place: Path) -> Page:
    """The page, in the folder `place`."""
    facts, names = judged.session.facts, " and ".join(judged.jobs)
    word, text = session_words(judged)
    return Page(
        title=f"{names} · {facts.session_id} · charkha",
        heading=f"{names} at once",
        sentence=_sentence(judged),
        labels=[count_of(len(judged.jobs), "job"), facts.created.replace("T", " ")[:19]],
        warnings=list(_warnings(judged)),
        sections=[_jobs(judged, place), _interference(judged), _time_line(judged)],
        footer=f"Session {facts.session_id}. The folder of each job has its run with its own report.",
        answer=Answer(word, text, TONES.get(judged.verdict.outcome, "open")),
    )


def _sentence(judged: JudgedSession) -> str:
    found = judged.interference
    factors = interference_text(found)
    if factors:
        return f"{factors}." if found.fairness is None else f"{factors}; fairness {found.fairness:.4f}."
    if any(job.has_solo for job in found.jobs):
        return "No iteration of a job with a solo run counts, so there is no interference factor."
    return "No job was played alone (--solo), so there is no interference factor."


def _warnings(judged: JudgedSession) -> Iterator[str]:
    for problem in tester_problems(judged):
        yield f"The tester limited the session: {problem}."
    for name, one in judged.jobs.items():
        if one.summary.scaling.is_scaled:
            yield f"Job {name} was scaled: {describe_scaling(one.summary.scaling)}."
    if missing := [one.name for one in judged.session.facts.jobs if one.name not in judged.jobs]:
        yield f"Without a run folder: {', '.join(missing)}."


def _jobs(judged: JudgedSession, place: Path) -> PageSection:
    starts = judged.session.starts_ns
    first = min(starts.values(), default=0)
    rows = [
        (name, one, duration_cell(starts[name] - first) if name in starts else NONE)
        for name, one in judged.jobs.items()
    ]
    links = [link_to(one.run.folder / REPORT, place) for one in judged.jobs.values()]
    return PageSection("jobs", "Jobs", [table_of("job-table", "Jobs", _JOBS, rows, links=links)], is_wide=True)


def _outcome(one: JudgedRun) -> str:
    """`FAIL`, `Played`, `Played, aborted`."""
    word, _ = words(one.verdict)
    return word if one.summary.status == COMPLETE else f"{word}, {one.summary.status}"


def _interference(judged: JudgedSession) -> PageSection:
    found = judged.interference
    table = table_of("factors", "Interference factors", INTERFERENCE_COLUMNS, interference_rows(found))
    about = (
        "The interference factor is the time of a class in the session over its time alone. Only iterations that all "
        "other jobs cover count."
    )
    blocks: list[Block] = [table, Facts("interference-facts", "What counts", list(interference_facts(found)))]
    return PageSection("interference", "Interference", blocks, about, is_wide=True)


def _time_line(judged: JudgedSession) -> PageSection:
    bars, session = Rows(), judged.session
    windows = {name: window_of(run) for name, run in session.jobs.items()}
    first = min((one.start_ns for one in windows.values() if one is not None), default=0)
    for name, run in session.jobs.items():
        spans = iteration_spans(run.table(RunTable.ITERATIONS), run.manifest)
        others = [window for other, window in windows.items() if other != name]
        counted = set(covered_iterations(spans, others).tolist())
        for number, span in list(spans.items())[:DRAWN]:
            begin_ns, end_ns = span.start_ns - first, span.end_ns - first
            bars.add(job=name, iteration=number, what=_what(number, counted), begin_ns=begin_ns, end_ns=end_ns)
    chart = Chart(
        "session-line",
        "Iterations of the jobs",
        f"Each bar is an iteration. Not covered: another job had not started or had ended. At most {DRAWN} per job.",
        "One lane per job with a bar for every iteration, over time.",
        Picture("session_line", {"bars": bars.columns}),
        is_wide=True,
    )
    blocks: list[Block] = [chart] if bars.columns else []
    blocks += load(PluginKind.HOOKS, "job_rates")(session.jobs)
    return PageSection("time-line", "Time line", blocks, is_wide=True)


def _what(number: int, counted: set[int]) -> str:
    if number < 0:
        return "warm-up"
    return "counts" if number in counted else "not covered"
