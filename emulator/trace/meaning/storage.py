"""Storage operations as traffic: file operations that transfer bytes, between a rank and a storage host.

A storage host has no trace. It takes what ranks write, and sends what they ask for, so it never makes a rank wait for
another: the proof that a run can finish holds with storage as it does without.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from emulator.errors import TraceError
from emulator.trace.meaning import warnings
from emulator.trace.meaning.groups import WORLD
from emulator.trace.meaning.meaning import MAX_SIZE_BYTES, TraceOptions
from emulator.trace.meaning.model import (
    CommKind,
    Communication,
    RankProgram,
    RankTrace,
    RawStorage,
    Resource,
    StorageAction,
    StorageLevel,
    Workload,
)

_KINDS = {StorageAction.READ: CommKind.STORAGE_READ, StorageAction.WRITE: CommKind.STORAGE_WRITE}
_INSIDE = frozenset({StorageLevel.PAGE, StorageLevel.BLOCK, StorageLevel.DEVICE})


def play_on_storage_hosts(
    workload: Workload, traces: Sequence[RankTrace], *, endpoints: int, options: TraceOptions | None = None
) -> Workload:
    """The workload with its file operations on the network; unchanged if there is none, or no storage host.

    Rank r uses endpoint r modulo their number. What happens on pages and blocks takes no time then: it is the inside of
    a file operation.

    Args:
        workload: of these traces, proven to finish.
        traces: one per rank, in any order.
        endpoints: of storage hosts; they are numbered after the ranks.
        options: how the trace is taken.

    Raises:
        TraceError: an operation of a size that cannot be.
    """
    ranks, ranked = len(workload.programs), sorted(traces, key=lambda trace: trace.rank)
    moving = [[one for one in trace.storage if one.moves] for trace in ranked]
    if not endpoints or not any(moving):
        return workload
    programs, instances, inside = [], workload.instances, 0
    for trace, program, operations in zip(ranked, workload.programs, moving, strict=True):
        peer = ranks + trace.rank % endpoints
        placed = _placed(trace, program, operations, options or TraceOptions(), peer=peer, first_instance=instances)
        hidden = [one for one in trace.storage if one.level in _INSIDE]
        programs.append(_with_storage(program, placed, [one.row for one in hidden]))
        instances += len(operations)
        inside += sum(one.duration_micros > 0 for one in hidden)
    return replace(
        workload,
        programs=programs,
        instances=instances,
        storage=[_served(programs, ranks + number) for number in range(endpoints)],
        warnings=_warnings(workload.warnings, played=sum(map(len, moving)), inside=inside),
    )


def _placed(
    trace: RankTrace,
    program: RankProgram,
    operations: Sequence[RawStorage],
    options: TraceOptions,
    *,
    peer: int,
    first_instance: int,
) -> dict[int, Communication]:
    """Position → operation, in canonical order."""
    position = _positions(program)
    placed = sorted((int(position[one.row]), one) for one in operations)
    return {
        at: Communication(
            node_id=one.node_id,
            name=one.name,
            row=one.row,
            kind=_KINDS[one.action],
            group=WORLD,
            size_bytes=_size_bytes(trace, one, options),
            instance=first_instance + index,
            index_in_group=index,
            peer=peer,
            traced_duration_micros=one.duration_micros,
        )
        for index, (at, one) in enumerate(placed)
    }


def _positions(program: RankProgram) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Position of each row."""
    position = np.empty(len(program), dtype=np.int64)
    position[program.order] = np.arange(len(program), dtype=np.int64)
    return position


def _size_bytes(trace: RankTrace, operation: RawStorage, options: TraceOptions) -> int:
    size_bytes = options.scaled(operation.size_bytes)
    if max(size_bytes, operation.size_bytes) > MAX_SIZE_BYTES:
        problem = f"transfers {operation.size_bytes} bytes, which is not a valid size for a file operation"
        raise TraceError(problem, path=trace.path, node=operation.node_id)
    return size_bytes


def _with_storage(program: RankProgram, placed: Mapping[int, Communication], hidden_rows: Sequence[int]) -> RankProgram:
    resource, duration_ns = program.resource.copy(), program.duration_ns.copy()
    hidden = _positions(program)[list(hidden_rows)]
    played = list(placed)
    resource[hidden], resource[played] = Resource.NONE, Resource.NETWORK
    duration_ns[hidden] = duration_ns[played] = 0
    communications = dict(sorted({**program.communications, **placed}.items()))
    return replace(program, resource=resource, duration_ns=duration_ns, communications=communications)


def _served(programs: Sequence[RankProgram], endpoint: int) -> RankProgram:
    """What a storage endpoint sends: the reads of every rank that uses it, in the order of ranks."""
    return _program(endpoint, dict(enumerate(_reads(programs, endpoint))))


def idle_program(endpoint: int) -> RankProgram:
    """The program of a storage endpoint that nobody reads from."""
    return _program(endpoint, {})


def _program(endpoint: int, reads: dict[int, Communication]) -> RankProgram:
    count = len(reads)
    return RankProgram(
        rank=endpoint,
        order=np.arange(count, dtype=np.int64),
        resource=np.full(count, Resource.NETWORK, dtype=np.int8),
        duration_ns=np.zeros(count, dtype=np.int64),
        dep_offset=np.zeros(count + 1, dtype=np.int64),
        dep_position=np.zeros(0, dtype=np.int64),
        communications=reads,
    )


def _reads(programs: Sequence[RankProgram], endpoint: int) -> Iterator[Communication]:
    for program in programs:
        for node in program.communications.values():
            if node.kind is CommKind.STORAGE_READ and node.peer == endpoint:
                yield replace(node, kind=CommKind.SEND, peer=program.rank)


def _warnings(found: Mapping[str, int], *, played: int, inside: int) -> dict[str, int]:
    counts = Counter(found)
    counts[warnings.STORAGE_AS_TIME] -= played + inside
    counts[warnings.STORAGE_INSIDE] += inside
    return {name: count for name, count in sorted(counts.items()) if count > 0}
