"""What the jobs of a session do to each other, for JSON."""

from __future__ import annotations

from typing import Any

from emulator.results.comparison.interference import Interference, JobInterference
from emulator.results.verdict.session import JudgedSession
from emulator.views.as_json.summary import summary_to_json
from emulator.views.as_json.verdict import verdict_to_json
from emulator.views.columns.columns import row_to_json
from emulator.views.columns.interference_columns import COLUMNS


def interference_to_json(found: Interference) -> dict[str, Any]:
    """Factors of every job and class; times in ns."""
    return {
        "sessions": found.sessions,
        "interval_units": "stretches of iterations" if found.sessions == 1 else "runs",
        "fairness": found.fairness,
        "fairness_of": "1 / interference factor of the JCT of each job",
        "jobs": [_job(one) for one in found.jobs],
    }


def session_to_json(judged: JudgedSession) -> dict[str, Any]:
    """A session: its jobs as `run --json` gives a run, and their interference."""
    jobs = [
        summary_to_json(one.summary)
        | {"job": name, "run_folder": str(judged.session.jobs[name].folder), "verdict": verdict_to_json(one.verdict)}
        for name, one in judged.jobs.items()
    ]
    return {
        "session_folder": str(judged.session.folder),
        "session_id": judged.session.facts.session_id,
        "verdict": {"outcome": judged.verdict.outcome.value, "job": judged.decisive},
        "jobs": jobs,
        "interference": interference_to_json(judged.interference),
    }


def _job(one: JobInterference) -> dict[str, Any]:
    counted = {"iterations": one.covered, "iterations_left_out": one.left_out, "played_alone": one.has_solo}
    return {"job": one.name} | counted | {"classes": [row_to_json(COLUMNS, (one.name, each)) for each in one.classes]}
