"""A session: several jobs at once from one spec to a folder around their run folders."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

from emulator.controller.run_plan import RunOutcome
from emulator.errors import InputError, PlanError
from emulator.experiment.play.play import Notify, PreparedRun, notify_of_lab, play_together, words_of
from emulator.experiment.settle.settled import Identity, Settled, settle
from emulator.experiment.settle.testbed import enter_testbed
from emulator.experiment.settle.workload import LoadedJob, load_job
from emulator.experiment.spec.absolute_paths import with_absolute_paths
from emulator.experiment.spec.spec import Experiment, Job
from emulator.results.run_folder.observer import RunObserver
from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.session import (
    SOLO,
    JobFacts,
    SessionFacts,
    StoredSession,
    job_folder,
    load_session,
    solo_folder,
    write_session,
)
from emulator.topology.load import joining_hosts
from emulator.topology.model import Topology


def play_session(
    experiment: Experiment, folder: Path, *, solo: bool = False, notify: Notify = lambda _: None
) -> StoredSession:
    """Play a session, and return it.

    Args:
        experiment: with one job or several.
        folder: is created; it gets `session.json` and a run folder for each job.
        solo: play each job alone first, at the same places.
        notify: receives lines for the user.

    Raises:
        EmulatorError: bad input, a failed run, a host that lacks something. What was measured stays in the folder.
    """
    require_new(folder)
    with load_jobs(experiment) as jobs:
        check_session(experiment, jobs)
        alone: dict[str, Run] = {}
        for job, loaded in zip(experiment.jobs, jobs, strict=True) if solo else ():
            with prepare_solo(experiment, job, loaded, notify=notify) as prepared:
                alone[job.name] = prepared.play(solo_folder(folder, job.name))
        with prepare_session(experiment, jobs, notify=notify) as session:
            return session.play(folder, [()] * len(jobs), solo=alone)


@contextlib.contextmanager
def load_jobs(experiment: Experiment) -> Iterator[list[LoadedJob]]:
    """Read or generate what the jobs play; see `load_job`."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(load_job(job)) for job in experiment.jobs]


@contextlib.contextmanager
def prepare_solo(
    experiment: Experiment, job: Job, loaded: LoadedJob, *, notify: Notify = lambda _: None
) -> Iterator[PreparedRun]:
    """One job of a session alone, at the same places, without the flows."""
    from emulator.experiment.play.play import prepare

    with prepare(experiment.for_job(job.name), loaded, notify=notify) as prepared:
        yield prepared


@contextlib.contextmanager
def prepare_session(
    experiment: Experiment,
    jobs: Sequence[LoadedJob],
    *,
    notify: Notify = lambda _: None,
    command_line: Sequence[str] | None = None,
) -> Iterator[PreparedSession]:
    """Settle everything about a session before any traffic; its addresses stay reserved while the context is open.

    Args:
        experiment: what to play.
        jobs: what was loaded for each of its jobs.
        notify: receives lines for the user.
        command_line: for manifests; None: that of this process.

    Raises:
        EmulatorError: bad input, jobs that need the same address, or a host that lacks something.
    """
    words = words_of(command_line)
    parts = [experiment.for_job(job.name) for job in experiment.jobs]
    topology_file = experiment.network.topology
    if len(parts) > 1 and topology_file is not None and joining_hosts(Path(topology_file)) is not None:
        raise InputError(f"{topology_file}: its hosts come from agents, which works for one job only: list the hosts")
    with contextlib.ExitStack() as stack:
        beds = [
            stack.enter_context(enter_testbed(part, ranks=job.ranks)) for part, job in zip(parts, jobs, strict=True)
        ]
        notify_of_lab(beds[0], notify)
        topologies = [bed.topology for bed in beds]
        settled: list[Settled] = []
        for number, (part, job, bed) in enumerate(zip(parts, jobs, beds, strict=True)):
            beside = topologies[:number] + topologies[number + 1 :]
            session = part if number else experiment
            one = settle(part, job, bed, command_line=words, session=session, beside=beside)
            asked = experiment.jobs[number]
            settled.append(replace(one, offset_ns=asked.start_ns, until_others=asked.until == "others"))
        for one, other in combinations(settled, 2):
            _require_own_addresses(one, other)
        settled = [settled[0], *(replace(one, flows=settled[0].flows) for one in settled[1:])]
        silent: Notify = lambda _: None  # noqa: E731 (what is said about the host is said once)
        runs = [PreparedRun(one, notify=silent if number else notify) for number, one in enumerate(settled)]
        yield PreparedSession(experiment, runs, Identity.new(words), notify)


def require_new(folder: Path, *inside: str) -> None:
    """Refuse a folder that holds something besides the names `inside`.

    Raises:
        InputError: it does.
    """
    if folder.is_dir() and any(one.name not in inside for one in folder.iterdir()):
        raise InputError(f"{folder}: is not empty; choose a different --out")


def check_session(experiment: Experiment, jobs: Sequence[LoadedJob]) -> None:
    """Refuse a session that cannot be played before its jobs are played alone.

    Raises:
        EmulatorError: as `prepare_session`.
    """
    with prepare_session(experiment, jobs):
        pass


class PreparedSession:
    """A session that can begin. Made by `prepare_session`.

    Args:
        experiment: what to play.
        runs: of the jobs, in order.
        identity: of the session.
        notify: receives lines for the user.
    """

    def __init__(self, experiment: Experiment, runs: Sequence[PreparedRun], identity: Identity, notify: Notify) -> None:
        self.runs, self._experiment, self._identity, self._notify = runs, experiment, identity, notify

    @property
    def connecting(self) -> list[str]:
        """Agents that are started on other machines and connect."""
        return list(dict.fromkeys(name for run in self.runs for name in run.connecting))

    def play(
        self, folder: Path, observers: Sequence[Sequence[RunObserver]], *, solo: Mapping[str, Run] | None = None
    ) -> StoredSession:
        """Play the session into closed run folders with their reports, and `session.json` around them.

        Args:
            folder: of the session.
            observers: of each job.
            solo: name → run of the job alone, as far as it was played.

        Raises:
            RunError: a job failed, the session was interrupted, or an agent was lost; what was measured stays.
            HostError: a folder cannot be written, an agent cannot start.
            InputError: the folder is in use.
        """
        require_new(folder, *([SOLO] if solo else []))
        facts = self._facts(solo or {})
        write_session(folder, facts)

        def note_starts(outcomes: Sequence[RunOutcome]) -> None:
            jobs = [replace(job, start_ns=one.start_ns) for job, one in zip(facts.jobs, outcomes, strict=True)]
            write_session(folder, replace(facts, jobs=tuple(jobs)))

        play_together(
            self.runs,
            [job_folder(folder, job.name) for job in self._experiment.jobs],
            observers,
            session_id=self._identity.run_id,
            notify=self._notify,
            on_end=note_starts,
        )
        return load_session(folder)

    def _facts(self, solo: Mapping[str, Run]) -> SessionFacts:
        return SessionFacts(
            session_id=self._identity.run_id,
            created=self._identity.created,
            command_line=self._identity.command_line,
            spec=with_absolute_paths(self._experiment).to_plain(),
            jobs=tuple(
                JobFacts(
                    job.name,
                    run.settled.identity.run_id,
                    offset_ns=job.start_ns,
                    pace=job.pace or "barrier",
                    until=job.until,
                    solo_run_id=solo[job.name].manifest.run_id if job.name in solo else None,
                )
                for job, run in zip(self._experiment.jobs, self.runs, strict=True)
            ),
        )


def _require_own_addresses(one: Settled, other: Settled) -> None:
    """Refuse two jobs whose ranks would need the same port of an address: RoCEv2 has a single one."""
    if not (one.resolved.transport.is_rocev2 and other.resolved.transport.is_rocev2):
        return
    taken = _places(other.topology)
    for address, host in _places(one.topology).items():
        if address in taken:
            names = f"{one.experiment.job.name} and {other.experiment.job.name}"
            raise PlanError(
                f"jobs {names} both have ranks at {address} of host {host}, and RoCEv2 has one port per address: give"
                f" {host} more addresses in the topology (per_rank or addresses), or the jobs different hosts"
            )


def _places(topology: Topology) -> dict[str, str]:
    """Address → name of its host."""
    ends = range(topology.endpoints)
    return {topology.address_of(end): topology.host_of(end).name for end in ends}
