"""Sessions of made-up jobs: written as folders, without traffic."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.session import (
    JobFacts,
    SessionFacts,
    StoredSession,
    job_folder,
    load_session,
    solo_folder,
    write_session,
)
from tests.support.runs import collective, ranks, write_run

COMPUTE_NS = 600_000
"""Of every iteration, before its all-reduce."""


@dataclass(frozen=True, slots=True)
class PlayedJob:
    """A job of a session: when it begins, and how long its iterations take, the first one warm-up; ns."""

    start_ns: int
    iterations: Sequence[int]
    solo: Sequence[int] = ()


def write_job(folder: Path, *, start_ns: int, iterations: Sequence[int], run_id: str, **facts: Any) -> Run:
    """A run whose iterations follow each other: compute, then an all-reduce; `facts` are of its manifest."""
    rows, spans, now = [], {}, start_ns
    for number, took in enumerate(iterations, -1):
        rows += collective([now + COMPUTE_NS] * 2, [now + took] * 2, iteration=number)
        spans[number] = ranks(*[(now, now + took)] * 2, compute=COMPUTE_NS, communication=took - COMPUTE_NS)
        now += took
    return write_run(folder, rows, iterations=spans, run_id=run_id, **facts)


def write_jobs(folder: Path, jobs: Mapping[str, PlayedJob], *, spec: Mapping[str, Any] | None = None) -> StoredSession:
    """The folder of a session, read back."""
    facts = []
    for name, job in jobs.items():
        write_job(job_folder(folder, name), start_ns=job.start_ns, iterations=job.iterations, run_id=f"{name}-shared")
        if job.solo:
            write_job(solo_folder(folder, name), start_ns=0, iterations=job.solo, run_id=f"{name}-solo")
        solo_id = f"{name}-solo" if job.solo else None
        facts.append(JobFacts(name, f"{name}-shared", start_ns=job.start_ns, pace="continuous", solo_run_id=solo_id))
    spec = spec or {"charkha": 1, "jobs": [{"name": name} for name in jobs]}
    head = ("20260102T030405-s", "2026-01-02T03:04:05+00:00", ("charkha", "run", "-f", "session.yaml"))
    write_session(folder, SessionFacts(*head, spec=spec, jobs=tuple(facts)))
    return load_session(folder)
