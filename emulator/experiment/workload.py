"""From a job to a workload that is proven to finish: a trace from files, or a generated one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from emulator.errors import TraceError
from emulator.experiment.spec import Job, PairSweep, Sweep, Trace
from emulator.host.scratch import scratch_folder
from emulator.planner.workloads import pair_sweep, sweep
from emulator.planner.workloads.pair_sweep import pair_sweep_workload
from emulator.planner.workloads.pairs import Pairs, pairs_workload
from emulator.planner.workloads.synthetic import SyntheticWorkload
from emulator.trace.meaning import TraceOptions
from emulator.trace.model import Workload
from emulator.trace.workload import build_workload
from emulator.wire.trace.load import LoadedTrace, load_trace
from emulator.wire.trace.write_workload import write_workload

OnStep = Callable[[str], None]
"""Receives the current step, for a status line."""


@dataclass(frozen=True, slots=True)
class LoadedJob:
    """The trace of a job as read, and its workload."""

    loaded: LoadedTrace
    workload: Workload

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return len(self.workload.programs)


@contextlib.contextmanager
def load_job(job: Job, *, on_step: OnStep = lambda _: None) -> Iterator[LoadedJob]:
    """Read or generate what a job plays. Generated files are deleted on exit.

    Raises:
        TraceError: the trace cannot be read or played.
        InputError: the group file cannot be read.
        PlanError: the sweep has no sizes, or an odd number of ranks should form pairs.
    """
    if job.trace is not None:
        yield load_from_files(job.trace, on_step=on_step)
        return
    with scratch_folder() as scratch:
        if job.pair_sweep is not None:
            name, generated = "pairs", pair_sweep_workload(planned_pair_sweep(job.pair_sweep))
        elif job.sweep is not None:
            name, generated = f"bench {job.sweep.collective}", sweep.sweep_workload(planned_sweep(job.sweep))
        else:
            assert job.pairs is not None
            name, generated = "calibrate", pairs_workload(Pairs(job.pairs.ranks, job.pairs.counts))
        yield _load_generated(generated, scratch / "trace", name=name)


def load_from_files(trace: Trace, *, on_step: OnStep = lambda _: None) -> LoadedJob:
    """Read a trace set, and prove that playing it ends.

    Raises:
        TraceError: it cannot be read or played.
        InputError: the group file cannot be read.
    """
    on_step("reading the trace")

    def on_rank(done: int, ranks: int) -> None:
        on_step(f"reading the trace: {done} of {ranks} ranks")

    groups = None if trace.groups is None else Path(trace.groups)
    loaded = load_trace(Path(trace.path), ranks=trace.ranks, groups=groups, on_rank=on_rank)
    if not loaded.nodes:
        problem = f"none of the {len(loaded.traces)} ranks has a node: there is nothing to play; record the trace again"
        raise TraceError(problem, path=trace.path)
    on_step("proving that the run can finish")
    options = TraceOptions(trace.lenient, trace.element_bytes or 1, trace.scale)
    return LoadedJob(loaded, build_workload(loaded.traces, groups=loaded.groups, options=options))


def planned_pair_sweep(requested: PairSweep) -> pair_sweep.PairSweep:
    """The rounds of a sweep over pairs."""
    return pair_sweep.PairSweep(requested.ranks, int(requested.size_bytes), requested.rounds)


def planned_sweep(requested: Sweep) -> sweep.Sweep:
    """The sizes of a sweep.

    Raises:
        PlanError: there are none.
    """
    kind, ranks = requested.kind, requested.ranks
    if requested.sizes:
        return sweep.Sweep(kind, ranks, sweep.listed_sizes(kind, ranks=ranks, sizes=map(int, requested.sizes)))
    least, most = requested.bounds
    step = None if requested.step_bytes is None else int(requested.step_bytes)
    sizes = sweep.sweep_sizes(kind, ranks=ranks, least=least, most=most, factor=requested.factor or 2, step=step)
    return sweep.Sweep(kind, ranks, sizes)


def _load_generated(generated: SyntheticWorkload, folder: Path, *, name: str) -> LoadedJob:
    write_workload(generated, folder)
    loaded = replace(load_trace(folder, ranks=generated.ranks), path=Path(name))
    return LoadedJob(loaded, build_workload(loaded.traces, groups=loaded.groups))
