"""A session on disk: the run folders of jobs that were played at once, and `session.json` around them.

FOLDER/session.json
FOLDER/job=a/           a run folder as any other; readers of Parquet see its name as the column `job`
FOLDER/job=b/
FOLDER/solo/job=a/      the same job alone at the same places, where the user asked for it

A run is a session of one job: FOLDER itself is its run folder.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from emulator.errors import ResultError
from emulator.host.files import read_bounded, write_text, writing
from emulator.results.run_folder.manifest import COMPLETE, SESSION
from emulator.results.run_folder.reader import Run, read_run
from emulator.results.run_folder.store import is_run_folder
from emulator.schema import SchemaProblem, decode, parse_json

FORMAT_VERSION = 1
SOLO = "solo"
ONLY = "job"
"""Name of the job of a run whose spec names none."""
_JOB = "job="


@dataclass(frozen=True, slots=True)
class JobFacts:
    """A job of a session.

    Attributes:
        name: unique in the session; its run folder is `job=<name>`.
        run_id: of its run.
        offset_ns: when it was to begin, after the session began.
        start_ns: when its first iteration, usually a warm-up, was told to begin, on the clock of all time stamps of
            the session; None if it never was.
        pace: `barrier`, or `continuous` if iterations followed each other without the controller.
        until: `others` if it repeated its iterations until the other jobs had ended; None: it had a number of its own.
        solo_run_id: of the run of the job alone; None: it was not played alone.
    """

    name: str
    run_id: str
    offset_ns: int = 0
    start_ns: int | None = None
    pace: str = "barrier"
    until: str | None = None
    solo_run_id: str | None = None


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """What `session.json` holds.

    Attributes:
        created: start of the session, ISO 8601 with zone.
        spec: the run spec with all jobs, as plain values.
        jobs: in the order of the spec.
    """

    session_id: str
    created: str
    command_line: tuple[str, ...]
    spec: Mapping[str, Any]
    jobs: tuple[JobFacts, ...] = field(default_factory=tuple)
    format_version: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session that can be read.

    Attributes:
        folder: its path.
        facts: from `session.json`; of a run, from its manifest.
        jobs: name → run, in the order of the spec; a job whose folder is gone is missing.
        solo: name → run of the job alone, as far as there are any.
        starts_ns: name → when its first iteration, usually a warm-up, was told to begin. On the clock of all time
            stamps of all jobs (`post_ns`, `done_ns`, `start_ns` of iterations …): they can be compared across jobs.
            Solo runs are not on it: they were played before.
    """

    folder: Path
    facts: SessionFacts
    jobs: Mapping[str, Run]
    solo: Mapping[str, Run]
    starts_ns: Mapping[str, int]

    @property
    def is_run(self) -> bool:
        """Whether it is a run: its only job has no other folder than its own."""
        return [run.folder for run in self.jobs.values()] == [self.folder]

    @property
    def run(self) -> Run:
        """The run of its only job.

        Raises:
            ValueError: there is none, or several.
        """
        (run,) = self.jobs.values()
        return run

    @property
    def is_complete(self) -> bool:
        """Whether every job has a complete run."""
        is_whole = len(self.jobs) == len(self.facts.jobs)
        return is_whole and all(run.manifest.status == COMPLETE for run in self.jobs.values())


def session_of(run: Run) -> StoredSession:
    """A run as a session of one job."""
    manifest = run.manifest
    match manifest.spec:
        case {"jobs": [{"name": str(name)}]}:
            pass
        case _:
            name = ONLY
    jobs = (JobFacts(name, manifest.run_id),)
    facts = SessionFacts(manifest.run_id, manifest.created, manifest.command_line, manifest.spec or {}, jobs)
    return StoredSession(run.folder, facts, {name: run}, {}, {})


def job_folder(folder: Path, name: str) -> Path:
    """The run folder of a job."""
    return folder / f"{_JOB}{name}"


def solo_folder(folder: Path, name: str) -> Path:
    """The run folder of a job that was played alone."""
    return job_folder(folder / SOLO, name)


def is_session(folder: Path) -> bool:
    """Whether this is the folder of a session."""
    return (folder / SESSION).is_file()


def write_session(folder: Path, facts: SessionFacts) -> None:
    """Write `session.json`, in place of an earlier one.

    Raises:
        HostError: it cannot be written.
    """
    path = folder / SESSION
    with writing(path):
        folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(dataclasses.asdict(facts), indent=1, ensure_ascii=False, allow_nan=False)
    write_text(path, text + "\n", errors="backslashreplace")


def load_session(folder: Path) -> StoredSession:
    """Open the folder of a session, or of a run; runs are open as `read_run` opens them.

    Raises:
        ResultError: neither, a damaged one, or one of a newer format version.
    """
    if not is_session(folder):
        return session_of(read_run(folder))
    facts = _read_facts(folder / SESSION)
    names = [job.name for job in facts.jobs]
    return StoredSession(
        folder,
        facts,
        jobs={name: read_run(path) for name in names if is_run_folder(path := job_folder(folder, name))},
        solo={name: read_run(path) for name in names if is_run_folder(path := solo_folder(folder, name))},
        starts_ns={job.name: job.start_ns for job in facts.jobs if job.start_ns is not None},
    )


def found_session(folder: Path) -> StoredSession | None:
    """The session or the run in a folder; None if there is neither.

    Raises:
        ResultError: it is damaged, or one of a newer format version.
    """
    return load_session(folder) if is_session(folder) or is_run_folder(folder) else None


def _read_facts(path: Path) -> SessionFacts:
    try:
        document = parse_json(read_bounded(path))
    except OSError as error:
        raise ResultError(f"cannot be read ({error.strerror})", path=path) from error
    except SchemaProblem as error:
        raise ResultError(f"is not the description of a session ({error})", path=path) from error
    version = document.get("format_version") if isinstance(document, dict) else None
    if isinstance(version, int) and version > FORMAT_VERSION:
        problem = (
            f"has format version {version}, but this Charkha reads up to {FORMAT_VERSION}: use the one that wrote it"
        )
        raise ResultError(problem, path=path)
    try:
        return decode(document, SessionFacts)
    except SchemaProblem as problem:
        raise ResultError(f"is not the description of a session ({problem})", path=path) from problem
