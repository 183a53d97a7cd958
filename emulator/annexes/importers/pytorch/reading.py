"""From PyTorch's traces of a job to the nodes of its ranks.

From a host trace alone comes communication in the order of its records, with the dependencies of its data. Without
times there is no compute time to play. A communication depends on those whose results it reads, also through operators
in between: storages of tensors tell (PyTorch may use a storage again, which can only add dependencies). A barrier
depends on all before it, and all after it depend on it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import numpy as np

from emulator.annexes.importers.model import (
    Fate,
    ImportedNode,
    ImportedRank,
    ImportedTrace,
    Importer,
    Losses,
    NodeResource,
    RecordedOperation,
    Version,
)
from emulator.annexes.importers.pytorch.call import operation_of
from emulator.annexes.importers.pytorch.documents import find_traces, is_pytorch, read_host, read_kineto
from emulator.annexes.importers.pytorch.host_trace import HostCall, HostTrace
from emulator.annexes.importers.pytorch.joining import Process, is_traffic, issued_operations, joined_calls, processes
from emulator.annexes.importers.pytorch.kineto import KinetoTrace
from emulator.annexes.importers.pytorch.kineto_events import Intervals
from emulator.annexes.importers.pytorch.node_table import NodeShelf, NodeTable
from emulator.annexes.importers.pytorch.time_line import IssuedOperation, time_line
from emulator.annexes.importers.pytorch.unnamed_groups import GroupFinder, settle_unnamed_groups
from emulator.annexes.importers.writing import run_all
from emulator.errors import TraceError
from emulator.trace.meaning.model import CommKind

NAME = "pytorch"


def read_pytorch(
    path: Path, *, ranks: int | None = None, on_rank: Callable[[int, int], None] | None = None
) -> ImportedTrace:
    """Read host traces, Kineto's traces, or both.

    Args:
        ranks: not needed: the traces say it.

    Raises:
        TraceError: nothing of PyTorch is there, a file cannot be read, or the traces of a rank contradict each other.
    """
    losses = Losses()
    found = processes(find_traces(path), losses)
    if not found:
        raise TraceError("contains no PyTorch trace: neither a host trace nor one of Kineto", path=path)
    if len(found) == 1:
        read = [_read(found[0])]
    else:
        shelf = NodeShelf()
        tasks = [(one, shelf.folder / f"{one.rank}.npz") for one in found]
        read = run_all(_read_onto, tasks, total_bytes=sum(one.file_bytes for one in found), on_done=on_rank)
        for one in read:
            shelf.keep(one.nodes)
    world_size = max(max(one.world_size for one in read), read[-1].rank + 1)
    settle_unnamed_groups(read, range(world_size))
    for one in read:
        losses.add(one.losses)
    return ImportedTrace(path, NAME, read, sorted(set(range(world_size)) - {one.rank for one in read}), losses)


def _read_onto(task: tuple[Process, Path]) -> ImportedRank:
    """A rank, with its nodes in a file if there are many."""
    process, path = task
    rank = _read(process)
    if isinstance(rank.nodes, NodeTable):
        rank.nodes = rank.nodes.stored(path)
    return rank


def _read(process: Process) -> ImportedRank:
    losses = Losses()
    host = None if process.host is None else read_host(process.host.document)
    counted = losses if process.kineto is None else Losses()  # they are counted once
    recorded = [] if host is None else [one for one in host.calls() if is_traffic(one.call, counted)]
    kineto = None
    if process.kineto is not None:
        uses = [] if host is None else host.uses(recorded)
        kineto = read_kineto(process.kineto.document, wanted={one.record_id for one in uses})
        calls = joined_calls(host, recorded, kineto, losses)
        issued = issued_operations(kineto, calls, uses, losses)
        operations = [one.operation for one in issued]
        notes = _kineto_notes(kineto, issued)
    else:
        assert host is not None
        by_record = _host_operations(recorded, losses)
        operations, notes = list(by_record.values()), _host_notes(host, by_record)
    known = _known_groups(host, kineto)
    descriptions = {**(host.descriptions if host else {}), **(kineto.descriptions if kineto else {})}
    world_size = _world_size(host, kineto, known, operations)
    handles = [one.handle for one in operations]
    finder = GroupFinder(known, descriptions, handles=handles, rank=process.rank, world_size=world_size, losses=losses)
    for operation in operations:
        finder.settle(operation, notes.get(id(operation)))
        losses.count(Fate.MAPPED, operation.kind.label)
    nodes: Collection[ImportedNode]
    if kineto is not None:
        nodes = time_line(kineto, issued, losses)
        for (fate, what), (number, first) in kineto.events.doubts.items():
            losses.count(fate, what, kineto.where(first), number=number)
    else:
        assert host is not None
        nodes = host_order(host, by_record, losses)
        others = host.others(recorded)
        if others:
            what = "operators that look like communication of libraries other than NCCL: not played"
            losses.count(Fate.GUESSED, what, others[0], number=len(others))
    for trace in (host, kineto):
        if trace is not None and trace.mended:
            what = "places that are no JSON (inf, nan, commas, text), as PyTorch writes them: read without them"
            losses.count(Fate.DROPPED, what, f"{trace.name} (byte {trace.mended[0]})", number=len(trace.mended))
    if not nodes:
        problem = "records no event on a CPU or a device" if kineto else "records no communication, and it has no times"
        raise TraceError(f"{problem}: there is nothing to play", path=process.names[0])
    mode = " and ".join(name for name, one in (("host", host), ("kineto", kineto)) if one is not None)
    return ImportedRank(process.rank, process.names, mode, world_size, known, nodes, losses)


def _host_operations(recorded: Sequence[HostCall], losses: Losses) -> dict[int, RecordedOperation]:
    found = {one.node_id: operation_of(one.call, losses) for one in recorded}
    return {node_id: operation for node_id, operation in found.items() if operation is not None}


def _host_notes(host: HostTrace, operations: Mapping[int, RecordedOperation]) -> dict[int, str]:
    notes = host.notes()
    return {id(operation): notes[record] for record, operation in operations.items() if record in notes}


def _kineto_notes(kineto: KinetoTrace, issued: list[IssuedOperation]) -> dict[int, str]:
    """Operation → process group that the innermost note around its call names."""
    notes = kineto.group_notes()
    intervals = Intervals(event for event, _ in notes)
    around = ((one, intervals.around(one.event)) for one in issued)
    return {id(one.operation): notes[number][1] for one, number in around if number is not None}


def _known_groups(host: HostTrace | None, kineto: KinetoTrace | None) -> dict[str, tuple[int, ...]]:
    known = {**(host.groups if host else {}), **(kineto.groups if kineto else {})}
    for name, ranks in host.groups.items() if host and kineto else ():
        if ranks and known[name] != ranks:
            problem = f"process group {name!r} has ranks {list(known[name])[:8]}, in the host trace {list(ranks)[:8]}"
            raise TraceError(problem, path=None if kineto is None else kineto.name)
    return known


def _world_size(
    host: HostTrace | None,
    kineto: KinetoTrace | None,
    known: Mapping[str, tuple[int, ...]],
    operations: list[RecordedOperation],
) -> int:
    """What Kineto says, else the size of a group that holds all ranks; 0: unknown."""
    if kineto is not None and kineto.world_size:
        return kineto.world_size
    if host is not None and host.world_size:
        return host.world_size
    everyone = {name for name, ranks in known.items() if not ranks}
    return max((one.shown_group_size for one in operations if one.group in everyone), default=0)


_HOST_SCHEMA = Version(
    "execution trace schema",
    re.compile(rb'"schema"\s*:\s*"(\d[\d.]{0,20})'),
    ("1.0.1", "1.0.2", "1.0.3", "1.1.0", "1.1.1"),
)
_KINETO_SCHEMA = Version("Kineto schema", re.compile(rb'"schemaVersion"\s*:\s*(\d{1,9})'), ("1",))
PYTORCH = Importer(
    NAME,
    "PyTorch execution traces, Kineto traces, or both",
    is_pytorch,
    read_pytorch,
    (_HOST_SCHEMA, _KINETO_SCHEMA),
)


def host_order(trace: HostTrace, operations: Mapping[int, RecordedOperation], losses: Losses) -> list[ImportedNode]:
    """The nodes of a rank.

    Args:
        operations: id of the record → the operation that it is.
    """
    records = trace.records
    results: defaultdict[int, frozenset[int]] = defaultdict(frozenset)
    nodes: list[ImportedNode] = []
    barrier = 0
    merged = int(np.count_nonzero(records.is_leaf & ~np.isin(records.ids, list(operations))))
    for row, node_id in enumerate(records.ids.tolist()):
        operation = operations.get(node_id)
        if operation is not None:
            number = len(nodes) + 1
            used = operation.reads | operation.writes
            deps = frozenset().union(*(results[storage] for storage in used)) | ({barrier} if barrier else frozenset())
            if operation.kind is CommKind.BARRIER:
                deps, barrier = frozenset(range(max(1, barrier), number)), number
            nodes.append(
                ImportedNode(
                    number, operation.kind.label, NodeResource.NETWORK, tuple(sorted(deps)), operation=operation
                )
            )
            for storage in operation.writes:
                results[storage] = frozenset({number})
        elif nodes and records.is_leaf[row]:
            read = [results[one] for one in records.reads.of(row) if one in results]
            if read:
                from_results = frozenset().union(*read)
                for one in records.writes.of(row):
                    results[one] |= from_results
    losses.count(Fate.MERGED, "operators without times into dependencies of communication", number=merged)
    return nodes
