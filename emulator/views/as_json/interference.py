"""What the jobs of a session do to each other, for JSON."""

from __future__ import annotations

from typing import Any

from emulator.results.comparison.interference import ClassInterference, Interference, JobInterference
from emulator.results.comparison.verdicts import Effect
from emulator.results.statistics.samples.classes import JCT
from emulator.results.verdict.session import JudgedSession
from emulator.views.as_json.summary import summary_to_json
from emulator.views.as_json.verdict import verdict_to_json


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
    return {"job": one.name} | counted | {"classes": [_class(each) for each in one.classes]}


def _class(one: ClassInterference) -> dict[str, Any]:
    key = one.key
    return {
        "collective": key.collective,
        "members": key.members,
        "size_bytes": None if key.collective == JCT else key.size_bytes,
        "algorithm": key.algorithm or None,
        "where": key.where or None,
        "solo_ns": one.solo_ns,
        "shared_ns": one.shared_ns,
        "solo_samples": one.solo_samples,
        "shared_samples": one.shared_samples,
        **effect_to_json(one.effect),
    }


def effect_to_json(effect: Effect | None) -> dict[str, Any]:
    """The factor and its interval."""
    interval = None if effect is None or effect.interval is None else list(effect.interval)
    return {"factor": None if effect is None else effect.ratio, "interval": interval}
