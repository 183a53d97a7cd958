"""Columns of the tables of a session: its jobs, and what they do to each other; and the same in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from emulator.results.comparison.interference import ClassInterference, Interference
from emulator.results.comparison.verdicts import Effect
from emulator.results.statistics.samples.classes import JCT
from emulator.results.verdict.session import JudgedSession
from emulator.views.columns.columns import Column, bold, unshown
from emulator.views.columns.comparison_columns import ratio_text
from emulator.views.columns.figures import NONE, count_of, duration_cell
from emulator.views.verdict_text import words

_Row = tuple[str, ClassInterference]
"""A job, and a class of it."""
INTERFERENCE_COLUMNS: tuple[Column[_Row], ...] = (
    Column("job", "name of the job", cell=lambda row: row[0], is_number=False),
    Column(
        "class",
        "collective, ranks, size and algorithm, or the whole iteration (JCT)",
        cell=lambda row: "JCT" if row[1].key.collective == JCT else str(row[1].key),
        is_number=False,
        folds=24,
    ),
    unshown("collective", lambda row: row[1].key.collective),
    unshown("members", lambda row: row[1].key.members),
    unshown("size_bytes", lambda row: None if row[1].key.collective == JCT else row[1].key.size_bytes),
    unshown("algorithm", lambda row: row[1].key.algorithm or None),
    unshown("where", lambda row: row[1].key.where or None),
    Column(
        "alone",
        "median time when the job was played alone",
        key="solo_ns",
        value=lambda row: row[1].solo_ns,
        show=duration_cell,
    ),
    Column(
        "shared",
        "median time in iterations covered by all other jobs",
        key="shared_ns",
        value=lambda row: row[1].shared_ns,
        show=duration_cell,
    ),
    unshown("solo_samples", lambda row: row[1].solo_samples),
    unshown("shared_samples", lambda row: row[1].shared_samples),
    Column(
        "factor",
        "interference factor: shared / alone, the Hodges-Lehmann estimate; 1: no effect",
        key="factor",
        value=lambda row: None if row[1].effect is None else row[1].effect.ratio,
        cell=lambda row: ratio_text(row[1].effect),
        style=bold,
    ),
    Column(
        "95 % interval",
        "of the factor; units are runs, or stretches of consecutive iterations of one session",
        key="interval",
        value=lambda row: _interval(row[1].effect),
        cell=lambda row: interval_cell(row[1].effect),
    ),
    Column(
        "n",
        "measurements: alone / shared",
        cell=lambda row: f"{row[1].solo_samples} / {row[1].shared_samples}",
        sacrifice=1,
    ),
)


def interference_rows(found: Interference) -> list[_Row]:
    """A row per class and job, job by job."""
    return [(job.name, one) for job in found.jobs for one in job.classes]


def _interval(effect: Effect | None) -> list[float] | None:
    return None if effect is None or effect.interval is None else list(effect.interval)


def interval_cell(effect: Effect | None) -> str:
    """`1.990 to 2.006`."""
    if effect is None or effect.interval is None:
        return NONE
    return f"{effect.interval.low:.3f} to {effect.interval.high:.3f}"


def interference_facts(found: Interference) -> Iterator[tuple[str, str]]:
    """(name, fact): what counts, how fair it is, what the intervals mean."""
    for job in found.jobs:
        text = f"{count_of(job.covered, 'iteration')} covered by the other jobs"
        if job.left_out:
            text += f"; {job.left_out} excluded, in which another job had not started or had ended"
        yield f"Job {job.name}", text if job.has_solo else f"{text}; it was not played alone (--solo)"
    if found.fairness is not None:
        about = "Jain's index of the rates that the jobs keep: 1 / factor of the JCT of each"
        yield "Fairness", f"{found.fairness:.4f}; {about}; 1 = all lose equally"
    if found.sessions == 1:
        yield "Intervals", "of this session, with stretches of consecutive iterations as units; not of the next session"
    else:
        yield "Intervals", f"over {found.sessions} sessions, with runs as units"


def interference_text(found: Interference) -> str:
    """`a takes 2.00 times as long as alone (1.99 to 2.01), b 1.98 times`; "" if no job was played alone."""
    parts = []
    for job in found.jobs:
        if job.jct is not None and job.jct.effect is not None:
            interval = job.jct.effect.interval
            known = "" if interval is None else f" ({interval.low:.3f} to {interval.high:.3f})"
            parts.append(f"{job.name} takes {job.jct.effect.ratio:.3f} times as long as alone{known}")
    return ", ".join(parts)


def session_words(judged: JudgedSession) -> tuple[str, str]:
    """The verdict of the job that decides, or what happened to it, in two parts, as of a run."""
    word, text = words(judged.verdict)
    return word, f"job {judged.decisive}: {text}"


def tester_problems(judged: JudgedSession) -> Sequence[str]:
    """Why times of a job describe the tester."""
    return [f"job {name}: {problem}" for name, one in judged.jobs.items() if (problem := one.verdict.tester.doubt())]
