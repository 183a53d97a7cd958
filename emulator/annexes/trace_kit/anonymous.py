"""An anonymous copy of a trace set: what a run plays, and nothing that names people, models, code or machines.

The copy is built from numbers alone, so no text of the source can pass by accident: ids become positions in canonical
order, names become the kind of the node with a number, groups and tags become numbers. Attributes that no player reads
are not copied.

A copy on disk is proven to play as the source does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from emulator.annexes.trace_kit.difference import Aspect, ComparedSet, difference
from emulator.experiment.settle.workload import load_from_files, load_job
from emulator.experiment.spec.spec import Job, Trace
from emulator.trace.files.et import read_texts
from emulator.trace.files.write_workload import write_workload
from emulator.trace.meaning.groups import WORLD
from emulator.trace.meaning.meaning import TraceOptions
from emulator.trace.meaning.model import IntArray, NodeType, RankTrace, Resource, StorageAction, Workload
from emulator.trace.synthetic.synthetic import WORLD_GROUP, FileCall, FileOperation, NodeStreams, WorkNode
from emulator.units import NS_PER_US


def group_numbers(workload: Workload) -> dict[int, int]:
    """Index of a process group → its number in a group file; the world has none."""
    used = {node.group for program in workload.programs for node in program.communications.values()}
    return {group: number for number, group in enumerate(sorted(used - {WORLD}), 1)} | {WORLD: WORLD_GROUP}


def numbered_groups(workload: Workload, numbers: Mapping[int, int]) -> dict[int, tuple[int, ...]]:
    """Number → world ranks, for a group file."""
    return {number: workload.groups[group].ranks for group, number in numbers.items() if number != WORLD_GROUP}


PREFIX = "trace"
_KINDS = {
    NodeType.INVALID: "invalid",
    NodeType.METADATA: "metadata",
    NodeType.MEM_LOAD: "memory load",
    NodeType.MEM_STORE: "memory store",
    NodeType.COMP: "compute",
    NodeType.STORAGE: "storage",
    NodeType.BATCH: "batch",
    NodeType.CHECKPOINT: "checkpoint",
}
_CALLS = {StorageAction.READ: FileCall.PREAD, StorageAction.WRITE: FileCall.PWRITE}


@dataclass(frozen=True, slots=True)
class Jitter:
    """Random factors on times.

    Attributes:
        share: a time is multiplied by a factor between 1 - share and 1 + share.
        seed: of the factors; it is not written anywhere.
    """

    share: float
    seed: int


@dataclass(frozen=True, slots=True)
class AnonymizedTrace:
    """What was written, and what it still tells.

    Attributes:
        names, tags, groups: how many distinct ones were replaced by numbers.
        dropped: attributes that were not copied → number of nodes with them.
        jitter: times were multiplied by factors within 1 ± this; None: they were copied.
        recognisable: what the copy has in common with the source, in words.
    """

    ranks: int
    nodes: int
    names: int
    tags: int
    groups: int
    dropped: Mapping[str, int]
    jitter: float | None
    recognisable: Sequence[str]
    files: Sequence[Path]


class Pseudonyms:
    """Numbers in place of names: the same name has the same number in the whole set."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, object], int] = {}
        self._count: dict[str, int] = {}

    def number(self, kind: str, name: object) -> int:
        """The number of a name among those of its kind, from 1 in the order of their first use."""
        key = (kind, name)
        if key not in self._known:
            self._count[kind] = self._known[key] = self._count.get(kind, 0) + 1
        return self._known[key]

    def __len__(self) -> int:
        return len(self._known)


class Anonymous:
    """The anonymous copy of a trace set.

    Args:
        workload, traces: the set as it is played, and as it was read.
        names: rank → names of its nodes in file order.
        jitter: None: times are copied.

    Attributes:
        names, tags: what was replaced; complete when all nodes were taken.
    """

    def __init__(
        self,
        workload: Workload,
        traces: Sequence[RankTrace],
        *,
        names: Callable[[int], Sequence[str]],
        jitter: Jitter | None = None,
    ) -> None:
        self.names = Pseudonyms()
        self.tags = Pseudonyms()
        self._workload, self._traces = workload, sorted(traces, key=lambda trace: trace.rank)
        self._names_of, self._jitter = names, jitter
        self._groups = group_numbers(workload)
        self._first_start = _first_start(self._traces)

    def streams(self) -> NodeStreams:
        """The copy; its ranks are to be taken in order, so that numbers follow the first use."""
        parameters: dict[str, float] = {} if self._jitter is None else {"charkha.anonymize.jitter": self._jitter.share}
        groups = numbered_groups(self._workload, self._groups)
        ranks = len(self._workload.programs)
        return NodeStreams(PREFIX, ranks, groups, self._nodes, parameters, maker="charkha.anonymize")

    def _nodes(self, rank: int) -> Iterator[WorkNode]:
        program, trace, names = self._workload.programs[rank], self._traces[rank], self._names_of(rank)
        duration, start = self._times(rank)
        files = _files(trace)
        offset, needed = program.dep_offset.tolist(), program.dep_position.tolist()
        for position, row in enumerate(program.order.tolist()):
            deps = tuple(other + 1 for other in needed[offset[position] : offset[position + 1]])
            item = program.communications.get(position)
            if item is None:
                yield WorkNode(
                    node_id=position + 1,
                    name=self._name(_kind(trace, row), names[row]),
                    deps=deps,
                    duration_micros=int(duration[position]),
                    on_cpu=bool(program.resource[position] == Resource.CPU),
                    start_micros=int(start[position]),
                    node_type=_plain_type(trace, row),
                    file=files.get(row),
                )
                continue
            yield WorkNode(
                node_id=position + 1,
                name=self._name(item.kind.label, names[row]),
                deps=deps,
                duration_micros=int(duration[position]),
                kind=item.kind,
                size_bytes=item.size_bytes,
                group=self._groups[item.group],
                peer=item.peer,
                tag=0 if item.kind.is_collective else self.tags.number("tag", item.tag) - 1,
                start_micros=int(start[position]),
                root=item.root,
                send_splits=item.send_splits,
                recv_splits=item.recv_splits,
            )

    def _name(self, kind: str, name: str) -> str:
        return f"{kind} {self.names.number(kind, name)}"

    def _times(self, rank: int) -> tuple[IntArray, IntArray]:
        """(durations as they are played, starts since the first of the set), µs by position."""
        program, trace = self._workload.programs[rank], self._traces[rank]
        duration = program.duration_ns // NS_PER_US
        for position, item in program.communications.items():
            duration[position] = item.traced_duration_micros
        recorded = trace.start_micros[program.order]
        start = np.where(recorded > 0, recorded - self._first_start + 1, 0)
        if self._jitter is None:
            return duration, start
        rng = np.random.default_rng([self._jitter.seed, rank])
        return _jittered(duration, self._jitter.share, rng), _jittered_starts(start, self._jitter.share, rng)


def _files(trace: RankTrace) -> dict[int, FileOperation]:
    """Row → file operation that transfers bytes, without the name of the file."""
    moving = (one for one in trace.storage if one.moves)
    return {one.row: FileOperation(_CALLS[one.action], "", size_bytes=one.size_bytes) for one in moving}


def _kind(trace: RankTrace, row: int) -> str:
    return _KINDS.get(NodeType(int(trace.node_type[row])), "communication on the CPU")


def _plain_type(trace: RankTrace, row: int) -> NodeType:
    """Communication on the CPU is played as compute, and becomes that."""
    found = NodeType(int(trace.node_type[row]))
    return found if found in _KINDS else NodeType.COMP


def _first_start(traces: Sequence[RankTrace]) -> int:
    """The earliest recorded start of a set, µs; 0 if none is recorded."""
    starts = [trace.start_micros[trace.start_micros > 0] for trace in traces]
    return min((int(one.min()) for one in starts if len(one)), default=0)


def _jittered(micros: IntArray, share: float, rng: np.random.Generator) -> IntArray:
    """Each duration with a factor of its own; what takes time still takes at least 1 µs."""
    changed = np.rint(micros * rng.uniform(1 - share, 1 + share, len(micros))).astype(np.int64)
    return np.where(micros > 0, np.maximum(changed, 1), micros)


def _jittered_starts(micros: IntArray, share: float, rng: np.random.Generator) -> IntArray:
    """Each step from one start to the next with a factor of its own, so that their order stays."""
    moments, place = np.unique(micros[micros > 0], return_inverse=True)
    steps = np.diff(moments, prepend=0)
    moved = np.maximum(np.rint(np.cumsum(steps * rng.uniform(1 - share, 1 + share, len(steps)))), 1).astype(np.int64)
    result = micros.copy()
    result[micros > 0] = moved[place]
    return result


def recognisable(jitter: Jitter | None) -> list[str]:
    """What a copy has in common with its source, in words."""
    times = "durations, and times from start to start"
    if jitter is not None:
        times += (
            f", each within {100 * jitter.share:g} % of the recorded one and rounded to 1 µs; their sums are closer"
        )
    return [
        "the number of ranks, and which ranks form a process group",
        "kinds, sizes, roots, splits, number and order of communications, and of reads and writes of files",
        "the number of compute nodes, and all dependencies",
        "which nodes have the same name",
        times,
    ]


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
