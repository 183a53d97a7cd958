"""An anonymous copy of a trace set on disk, proven to play as the source does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from emulator.annexes.sharing.anonymous import AnonymizedTrace, Anonymous, Jitter, recognisable
from emulator.experiment.settle.workload import load_from_files, load_job
from emulator.experiment.spec.spec import Job, Trace
from emulator.trace.analysis.compare import Aspect, ComparedSet, difference
from emulator.trace.files.node_texts import read_texts
from emulator.trace.files.write_workload import write_workload
from emulator.trace.meaning.meaning import TraceOptions
from emulator.trace.meaning.model import RankTrace


def anonymize(
    trace: Trace, folder: Path, *, jitter: Jitter | None, on_step: Callable[[str], None] = lambda _: None
) -> AnonymizedTrace:
    """Write an anonymous copy into a new or empty folder.

    Raises:
        TraceError: the source cannot be read or played.
        InputError: the folder is not empty, or the group file cannot be read.
        HostError: something cannot be written; what was written is removed again.
    """
    dropped: Counter[str] = Counter()
    with load_job(Job(trace=trace), on_step=on_step) as job:

        def names(rank: int) -> Sequence[str]:
            on_step(f"writing: {rank + 1} of {job.ranks} ranks")
            texts = read_texts(job.loaded.files.paths[rank])
            dropped.update(texts.idle)
            return texts.names

        traces = [_scaled(one, job.options or TraceOptions()) for one in job.loaded.traces]
        copy = Anonymous(job.workload, traces, names=names, jitter=jitter)
        streams = copy.streams()
        files = write_workload(streams, folder)
        on_step("checking that the copy plays the same")
        _check_alike(ComparedSet(traces, job.workload), folder, has_jitter=jitter is not None)
    return AnonymizedTrace(
        ranks=job.ranks,
        nodes=job.loaded.nodes,
        names=len(copy.names),
        tags=len(copy.tags),
        groups=len(streams.groups),
        dropped=dict(dropped.most_common()),
        jitter=None if jitter is None else jitter.share,
        recognisable=recognisable(jitter),
        files=files,
    )


def _scaled(trace: RankTrace, options: TraceOptions) -> RankTrace:
    """The trace with the sizes of its file operations as they are played; those of a workload are already."""
    operations = [replace(one, size_bytes=options.scaled(one.size_bytes)) for one in trace.storage]
    return replace(trace, storage=operations)


def _check_alike(source: ComparedSet, folder: Path, *, has_jitter: bool) -> None:
    """Compare what was written with its source.

    Raises:
        RuntimeError: they differ in what must be the same: a bug.
    """
    copy = load_from_files(Trace(path=str(folder), ranks=len(source.traces)))
    found = difference(source, ComparedSet(copy.loaded.traces, copy.workload))
    allowed = {Aspect.NAMES, Aspect.DURATIONS} if has_jitter else {Aspect.NAMES}
    if wrong := [aspect for aspect in found.aspects if aspect not in allowed]:
        raise RuntimeError(f"the copy in {folder} differs from its source in {', '.join(wrong)}")
