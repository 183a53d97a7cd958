"""An imported trace as Chakra's: `trace.<rank>.et`, comm_group.json, and the report as a file and for a terminal."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from rich.console import Group, RenderableType

from emulator.annexes.importers.model import (
    Fate,
    ImportedNode,
    ImportedRank,
    ImportedTrace,
    NodeResource,
    RecordedOperation,
    Tally,
)
from emulator.errors import HostError
from emulator.host.resources import die_with_parent
from emulator.trace.files.load import IMPORTED_SCHEMA, REPORT_FILE
from emulator.trace.files.write_workload import GROUP_FILE, trace_folder, write_groups, write_rank
from emulator.trace.synthetic.synthetic import WORLD_GROUP, WorkNode
from emulator.units import NS_PER_US, format_size
from emulator.views.columns.columns import Column, explain, paragraphs
from emulator.views.terminal.table import FittedTable, facts_grid
from emulator.visible import visible

PREFIX = "trace"
_NODE_BYTES = 100  # in a file, about


def write_imported(trace: ImportedTrace, folder: Path, *, prove: Callable[[Path], object] | None = None) -> list[Path]:
    """Write the ranks that were found.

    Args:
        folder: new or empty.
        prove: called with the folder when all is written; what it raises undoes the writing.

    Returns:
        The files in the order of the ranks, then the group file if there is one, then the report.

    Raises:
        InputError: the folder is not empty.
        HostError: something cannot be written; what was written is removed again.
    """
    world = tuple(range(trace.world_size))
    groups = _numbers(trace)
    paths = [folder / f"{PREFIX}.{one.rank}.et" for one in trace.ranks]
    others = [folder / name for name in ((GROUP_FILE,) if groups else ())] + [folder / REPORT_FILE]
    tasks = [
        _Task(path, one, groups, world, {"schema": f"{IMPORTED_SCHEMA}{trace.format}", **_attributes(one)})
        for one, path in zip(trace.ranks, paths, strict=True)
    ]
    with trace_folder(folder, [*paths, *others]):
        run_all(_write, tasks, total_bytes=sum(len(one.nodes) for one in trace.ranks) * _NODE_BYTES)
        if groups:
            write_groups(folder / GROUP_FILE, {number: ranks or world for (_, ranks), number in groups.items()})
        _write_report(others[-1], trace)
        if prove is not None:
            prove(folder)
    return [*paths, *others]


def report(trace: ImportedTrace) -> Mapping[str, object]:
    """What was read, and what became of it, as plain values."""
    return {
        "format": trace.format,
        "ranks": [
            {
                "rank": one.rank,
                "files": [Path(name).name for name in one.files],
                "mode": one.mode,
                "nodes": len(one.nodes),
                "communications": len(one.operations),
            }
            for one in trace.ranks
        ],
        "missing_ranks": list(trace.missing),
        **trace.losses.to_plain(),
    }


@dataclass(frozen=True, slots=True)
class _Task:
    """A rank that is to be written."""

    path: Path
    rank: ImportedRank
    groups: Mapping[tuple[str, tuple[int, ...]], int]
    world: tuple[int, ...]
    attributes: dict[str, int | str]


def _write(task: _Task) -> None:
    nodes = _work_nodes(task.rank, task.groups, task.world)
    write_rank(task.path, nodes, rank=task.rank.rank, attributes=task.attributes)


def _attributes(one: ImportedRank) -> dict[str, int | str]:
    counted = sorted({fate for fate, _, _ in one.losses})
    return {
        "charkha.import.mode": one.mode,
        **{f"charkha.import.{fate}": one.losses.number(fate) for fate in counted},
    }


def _write_report(path: Path, trace: ImportedTrace) -> None:
    try:
        path.write_text(json.dumps(report(trace), indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise HostError(f"cannot write {path}: {error.strerror or error}; choose a different place") from error


def _numbers(trace: ImportedTrace) -> dict[tuple[str, tuple[int, ...]], int]:
    """(name, ranks) → number of every process group, from 1; the default group of all ranks has none."""
    used = {
        (operation.group or "", operation.ranks or ())
        for one in trace.ranks
        for operation in one.operations
        if operation.kind.is_collective
    }
    everyone = sorted((key for key in used if not key[1]), key=lambda key: (len(key[0]), key[0]))
    numbered = sorted(used - set(everyone[:1]), key=lambda key: (key[1], len(key[0]), key[0]))
    return {key: number for number, key in enumerate(numbered, 1)}


def _work_nodes(
    rank: ImportedRank, groups: Mapping[tuple[str, tuple[int, ...]], int], world: tuple[int, ...]
) -> Iterator[WorkNode]:
    """Durations are rounded to µs so that their sum over CPU nodes, and over tasks of the device, stays right."""
    rest = dict.fromkeys(NodeResource, 0)
    for node in rank.nodes:
        exact = node.duration_ns + rest[node.place]
        micros = (exact + NS_PER_US // 2) // NS_PER_US
        if node.place is not NodeResource.NETWORK:
            rest[node.place] = exact - micros * NS_PER_US
        yield _work_node(node, max(0, micros), groups, world)


def _work_node(
    node: ImportedNode, micros: int, groups: Mapping[tuple[str, tuple[int, ...]], int], world: tuple[int, ...]
) -> WorkNode:
    return WorkNode(
        node_id=node.node_id,
        name=node.name,
        deps=node.deps,
        duration_micros=micros,
        on_cpu=node.place is NodeResource.CPU,
        start_micros=node.start_ns // NS_PER_US,
        attributes={"charkha.start_ns": node.start_ns, "charkha.duration_ns": node.duration_ns},
        **({} if node.operation is None else _traffic(node.operation, groups, world)),
    )


def _traffic(
    operation: RecordedOperation, groups: Mapping[tuple[str, tuple[int, ...]], int], world: tuple[int, ...]
) -> dict[str, Any]:
    """What a node has of an operation."""
    members = operation.ranks or world
    facts = {"kind": operation.kind, "size_bytes": operation.size_bytes}
    if not operation.kind.is_collective:
        return facts | {"peer": members[operation.peer], "tag": operation.tag}
    return facts | {
        "group": groups.get((operation.group or "", operation.ranks or ()), WORLD_GROUP),
        "root": members[operation.root] if 0 <= operation.root < len(members) else -1,
        "send_splits": operation.send_splits,
        "recv_splits": operation.recv_splits,
    }


_PLACED = (Fate.DROPPED, Fate.GUESSED)


class _Operations(NamedTuple):
    kind: str
    nodes: int
    size_bytes: int


class _Row(NamedTuple):
    fate: Fate
    what: str
    tally: Tally


_OPERATIONS: tuple[Column[_Operations], ...] = (
    Column("operation", "kind of communication", cell=lambda row: row.kind, is_number=False),
    Column("nodes", "communication nodes over all ranks", cell=lambda row: f"{row.nodes:,}"),
    Column("sum", "comm_size of all these nodes: input of each rank", cell=lambda row: format_size(row.size_bytes)),
)
_ROWS: tuple[Column[_Row], ...] = (
    Column(
        "fate",
        "mapped: a node of the trace; merged: part of nodes or dependencies; dropped: not in the trace; inferred: an "
        "order that times or records show; guessed: a fact about traffic that is not recorded",
        cell=lambda row: row.fate.value,
        is_number=False,
    ),
    Column("times", "number of records or guesses", cell=lambda row: f"{row.tally.count:,}"),
    Column("what", "kind of record", cell=lambda row: visible(row.what), is_number=False, folds=44),
    Column(
        "first",
        "file and record of the first one that was dropped or guessed (import.json has more)",
        cell=lambda row: visible(Path(row.tally.first[0]).name) if row.tally.first and row.fate in _PLACED else "",
        is_number=False,
        folds=30,
        sacrifice=1,
    ),
)
EXPLAIN = paragraphs(explain(_OPERATIONS, title="Communication:"), explain(_ROWS, title="Records:"))


def render(trace: ImportedTrace) -> RenderableType:
    """The report of `charkha trace convert` on an imported trace."""
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for one in trace.ranks:
        for operation in one.operations:
            counts[operation.kind.label] += 1
            sizes[operation.kind.label] += operation.size_bytes
    operations = [_Operations(kind, count, sizes[kind]) for kind, count in sorted(counts.items())]
    parts: list[RenderableType] = [facts_grid(_lines(trace))]
    if operations:
        parts += ["", FittedTable(_OPERATIONS, operations)]
    return Group(*parts, "", FittedTable(_ROWS, [_Row(*one) for one in trace.losses]))


def _lines(trace: ImportedTrace) -> Iterator[tuple[str, str]]:
    modes = Counter(one.mode for one in trace.ranks)
    yield "ranks", f"{len(trace.ranks):,}" + (f" of {trace.world_size:,}: not playable" if trace.missing else "")
    yield "read from", ", ".join(f"{mode} ({count})" for mode, count in sorted(modes.items()))
    yield "nodes", f"{sum(len(one.nodes) for one in trace.ranks):,}"


WORTH_BYTES = 32 << 20
"""With less to read, starting processes takes longer than they save."""

T = TypeVar("T")
R = TypeVar("R")


def run_all(
    work: Callable[[T], R],
    tasks: Sequence[T],
    *,
    total_bytes: int,
    on_done: Callable[[int, int], None] | None = None,
) -> list[R]:
    """The results of `work`, in the order of the tasks: the same with any number of processes.

    Args:
        work: a function of a module.
        tasks: can be pickled, as the results.
        total_bytes: what there is to read: whether processes are worth it.
        on_done: called with (tasks done, tasks).

    Raises:
        HostError: a process ended before its task was done.
    """
    processes = min(len(tasks), len(os.sched_getaffinity(0)))
    if processes < 2 or total_bytes < WORTH_BYTES:
        return [_noted(work(task), number, len(tasks), on_done) for number, task in enumerate(tasks, 1)]
    context = multiprocessing.get_context("spawn")  # this process may have threads
    with ProcessPoolExecutor(processes, mp_context=context, initializer=_begin) as pool:
        return _all(pool, work, tasks, on_done)


def _all(
    pool: Executor, work: Callable[[T], R], tasks: Sequence[T], on_done: Callable[[int, int], None] | None
) -> list[R]:
    futures = [pool.submit(work, task) for task in tasks]
    try:
        for number, future in enumerate(as_completed(futures), 1):
            _noted(future.result(), number, len(tasks), on_done)
        return [future.result() for future in futures]
    except BrokenProcessPool as error:
        problem = "a process that read or wrote a rank was killed"
        raise HostError(f"{problem}: is there enough memory? Fewer cores (taskset) need less") from error
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise


def _noted(result: R, number: int, count: int, on_done: Callable[[int, int], None] | None) -> R:
    if on_done is not None:
        on_done(number, count)
    return result


def _begin() -> None:
    """An interrupt ends a process without a word, and so does the end of the command."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    die_with_parent()
