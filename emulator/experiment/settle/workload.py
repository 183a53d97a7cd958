"""From a job to a workload that is proven to finish: a trace from files, or a generated one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from emulator.errors import TraceError
from emulator.experiment.spec.spec import Job, PairSweep, Sweep, Trace
from emulator.host.files import scratch_folder
from emulator.plugins import PluginKind, load
from emulator.shipped import TRACES
from emulator.trace.files.files import find_trace, has_et_files, is_master, lone_rank
from emulator.trace.files.load import LoadedTrace, digest, load_trace
from emulator.trace.files.write_workload import write_workload
from emulator.trace.meaning.imported import ImportedFiles, refuse_guesses
from emulator.trace.meaning.meaning import TraceOptions
from emulator.trace.meaning.model import Workload
from emulator.trace.meaning.workload import build_workload
from emulator.trace.synthetic.sweep import (
    PairSweepWorkload,
    PairsWorkload,
    SweepWorkload,
    listed_sizes,
    pair_sweep_workload,
    pairs_workload,
    sweep_sizes,
    sweep_workload,
)
from emulator.trace.synthetic.synthetic import NodeStreams

OnStep = Callable[[str], None]
"""Receives the current step, for a status line."""


@dataclass(frozen=True, slots=True)
class Alone:
    """A trace is read to be looked at: it may be that of one rank of many.

    Attributes:
        rank: the one to read of those that were recorded; None: all, or the only one.
    """

    rank: int | None = None


@dataclass(frozen=True, slots=True)
class LoadedJob:
    """The trace of a job as read, its workload, and how the trace was taken."""

    loaded: LoadedTrace
    workload: Workload
    options: TraceOptions | None = None

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return len(self.workload.programs)


@contextlib.contextmanager
def load_job(job: Job, *, on_step: OnStep = lambda _: None, alone: Alone | None = None) -> Iterator[LoadedJob]:
    """Read or generate what a job plays. Generated files are deleted on exit.

    Args:
        alone: what may be read of a trace instead of all ranks, to look at it; None: it must be complete.

    Raises:
        TraceError: the trace cannot be read or played.
        InputError: the group file cannot be read.
        PlanError: the sweep has no sizes, or an odd number of ranks should form pairs.
    """
    if job.trace is not None:
        with _trace_files(job.trace, on_step=on_step, alone=alone) as (path, ranks, only):
            yield prove_files(job.trace, path, ranks, on_step=on_step, only=only)
        return
    with scratch_folder() as scratch:
        if job.pair_sweep is not None:
            name, generated = "pairs", pair_sweep_workload(planned_pair_sweep(job.pair_sweep))
        elif job.sweep is not None:
            name, generated = f"bench {job.sweep.collective}", sweep_workload(planned_sweep(job.sweep))
        else:
            assert job.pairs is not None
            name, generated = "calibrate", pairs_workload(PairsWorkload(job.pairs.ranks, job.pairs.counts))
        yield _load_generated(generated, scratch / "trace", name=name)


class LatestJobs:
    """Loads jobs, and keeps the latest ones: the next run often has the same. A context manager, which lets them go."""

    def __init__(self) -> None:
        self._open = contextlib.ExitStack()
        self._latest: tuple[Sequence[Job], Sequence[LoadedJob]] | None = None

    def __enter__(self) -> LatestJobs:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def load(self, jobs: Sequence[Job], *, on_step: OnStep = lambda _: None) -> Sequence[LoadedJob]:
        """The jobs as `load_job` gives them."""
        if self._latest is None or self._latest[0] != jobs:
            self._open.close()
            self._latest = None
            self._latest = jobs, [self._open.enter_context(load_job(job, on_step=on_step)) for job in jobs]
        return self._latest[1]


def load_from_files(trace: Trace, *, on_step: OnStep = lambda _: None) -> LoadedJob:
    """Read a trace set, and prove that playing it ends. The files of an imported one are gone afterwards.

    Raises:
        TraceError: it cannot be read or played.
        InputError: the group file cannot be read.
    """
    with _trace_files(trace, on_step=on_step) as (path, ranks, _):
        return prove_files(trace, path, ranks, on_step=on_step)


def trace_digest(trace: Trace) -> str:
    """SHA-256 over the files of a trace in the order of the ranks, in hex; of an imported one, over what it becomes.

    Raises:
        TraceError: it cannot be read.
    """
    with _trace_files(trace, on_step=lambda _: None) as (path, ranks, _):
        return digest(find_trace(path, ranks=ranks))


@contextlib.contextmanager
def _trace_files(
    trace: Trace, *, on_step: OnStep, alone: Alone | None = None
) -> Iterator[tuple[Path, int | None, int | None]]:
    """A trace of Chakra, its number of ranks, and the only rank to read.

    It is what the user named, or a temporary folder with what was imported.
    """
    chosen = None if alone is None else alone.rank
    path = TRACES.find(Path(trace.path))
    if is_master(path):
        from emulator.trace.files.master import read_master  # loads Arrow, which other traces do not need

        on_step("reading the master file")
        master = read_master(path, ranks=trace.ranks)
        with _scratch_trace(trace, partial(write_workload, master.streams())) as folder:
            yield folder, master.ranks, chosen
        return
    if has_et_files(path):  # before any importer is loaded, which takes a while
        yield path, trace.ranks, _rank_of_files(path, trace.ranks, alone)
        return
    imported: ImportedFiles | None = load(PluginKind.HOOKS, "import_files")(
        path, ranks=trace.ranks, alone=alone, on_step=on_step
    )
    if imported is None:
        yield path, trace.ranks, _rank_of_files(path, trace.ranks, alone)
        return
    with _scratch_trace(trace, imported.write) as folder:
        yield folder, imported.ranks, imported.only


def _rank_of_files(path: Path, ranks: int | None, alone: Alone | None) -> int | None:
    if alone is None or alone.rank is not None:
        return None if alone is None else alone.rank
    return lone_rank(path, ranks=ranks)


@contextlib.contextmanager
def _scratch_trace(trace: Trace, write: Callable[[Path], object]) -> Iterator[Path]:
    """A temporary folder with what `write` puts there; errors of these files name the trace that the user named."""
    with scratch_folder() as scratch:
        write(scratch / "trace")
        with named_as(trace.path, scratch / "trace"):
            yield scratch / "trace"


@contextlib.contextmanager
def named_as(source: str | Path, folder: Path) -> Iterator[None]:
    """Errors of what was made of a trace in a folder name the trace that the user named."""
    try:
        yield
    except TraceError as error:
        if error.path is None or not Path(str(error.path)).is_relative_to(folder):
            raise
        problem = f"cannot be played as recorded: {error.problem.replace(f'{folder}/', '')}"
        raise TraceError(problem, path=source, node=error.node, rank=error.rank) from error


def prove_files(
    trace: Trace, path: Path, ranks: int | None, *, on_step: OnStep = lambda _: None, only: int | None = None
) -> LoadedJob:
    """Read the files of a trace of Chakra, and prove that playing it ends.

    Args:
        trace: how to take it, and what the user named.
        path: where the files are.
        only: the one rank that was recorded.

    Raises:
        TraceError: it cannot be read or played.
        InputError: the group file cannot be read.
    """
    on_step("reading the trace")

    def on_rank(done: int, all_ranks: int) -> None:
        on_step(f"reading the trace: {done} of {all_ranks} ranks")

    groups = None if trace.groups is None else Path(trace.groups)
    loaded = replace(
        load_trace(path, ranks=ranks, groups=groups, only=None if ranks == 1 else only, on_rank=on_rank),
        path=Path(trace.path),
    )
    if not loaded.nodes:
        which = f"none of the {len(loaded.traces)} ranks has a" if only is None else f"rank {only} has no"
        problem = f"{which} node, so there is nothing to play: record the trace again"
        raise TraceError(problem, path=trace.path)
    if trace.strict:
        refuse_guesses(loaded.imported, loaded.path)
    on_step("proving that the run can finish")
    options = TraceOptions(trace.lenient, trace.element_bytes or 1, trace.scale)
    try:
        workload = build_workload(
            loaded.traces, groups=loaded.groups, options=options, only=None if ranks == 1 else only
        )
    except TraceError as error:
        if error.path is not None:
            raise
        raise TraceError(error.problem, path=trace.path, node=error.node, rank=error.rank) from error
    workload = replace(workload, warnings={**loaded.imported.warnings(), **workload.warnings})
    return LoadedJob(loaded, workload, options)


def planned_pair_sweep(requested: PairSweep) -> PairSweepWorkload:
    """The rounds of a sweep over pairs."""
    return PairSweepWorkload(requested.ranks, int(requested.size_bytes), requested.rounds)


def planned_sweep(requested: Sweep) -> SweepWorkload:
    """The sizes of a sweep.

    Raises:
        PlanError: there are none.
    """
    kind, ranks = requested.kind, requested.ranks
    if requested.sizes:
        return SweepWorkload(kind, ranks, listed_sizes(kind, ranks=ranks, sizes=map(int, requested.sizes)))
    least, most = requested.bounds
    step = None if requested.step_bytes is None else int(requested.step_bytes)
    sizes = sweep_sizes(kind, ranks=ranks, least=least, most=most, factor=requested.factor or 2, step=step)
    return SweepWorkload(kind, ranks, sizes)


def _load_generated(generated: NodeStreams, folder: Path, *, name: str) -> LoadedJob:
    write_workload(generated, folder)
    loaded = replace(load_trace(folder, ranks=generated.ranks), path=Path(name))
    return LoadedJob(loaded, build_workload(loaded.traces, groups=loaded.groups))
