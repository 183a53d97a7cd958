"""A trace set drawn from the statistics of another, on disk, checked and compared with its source."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from emulator.annexes.sharing.anonymous import group_numbers, numbered_groups
from emulator.annexes.sharing.distance import SampledTrace, distances
from emulator.annexes.sharing.draw import MODELLED, NOT_MODELLED, draw
from emulator.annexes.sharing.statistics import statistics_of
from emulator.errors import TraceError
from emulator.experiment.settle.workload import load_from_files
from emulator.experiment.spec.spec import Trace
from emulator.trace.files.write_workload import write_workload


def synthesise(
    trace: Trace, folder: Path, *, seed: int, on_step: Callable[[str], None] = lambda _: None
) -> SampledTrace:
    """Draw a set like a trace and write it into a new or empty folder.

    Raises:
        TraceError: the source cannot be read or played, or has no communication.
        InputError: the folder is not empty, or the group file cannot be read.
        HostError: something cannot be written; what was written is removed again.
    """
    source = load_from_files(trace, on_step=on_step).workload
    if not source.instances:
        raise TraceError("has no communication on the network, so there is nothing to draw from", path=trace.path)
    on_step("drawing")
    statistics, numbers = statistics_of(source), group_numbers(source)
    streams = draw(statistics, groups=numbers, ranks_of=numbered_groups(source, numbers), seed=seed)
    files = write_workload(streams, folder)
    sample = load_from_files(Trace(path=str(folder), ranks=statistics.ranks), on_step=on_step).workload
    return SampledTrace(
        ranks=statistics.ranks,
        roles=len(set(statistics.roles)),
        families=len(statistics.families),
        steps=len(statistics.steps),
        seed=seed,
        distances=distances(source, sample, roles=statistics.roles),
        modelled=MODELLED,
        not_modelled=NOT_MODELLED,
        files=files,
    )
