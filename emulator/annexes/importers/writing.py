"""An imported trace as Chakra's: `trace.<rank>.et`, comm_group.json and the report on the import."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from emulator.annexes.importers.model import ImportedNode, ImportedRank, ImportedTrace, NodeResource
from emulator.annexes.importers.workers import run_all
from emulator.errors import HostError
from emulator.trace.files.import_report import IMPORTED_SCHEMA, REPORT_FILE
from emulator.trace.files.write_workload import GROUP_FILE, trace_folder, write_groups, write_rank
from emulator.trace.synthetic.synthetic import WORLD_GROUP, WorkNode
from emulator.units import NS_PER_US

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
    world = tuple(range(len(trace.ranks) + len(trace.missing)))
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
    plain = WorkNode(
        node_id=node.node_id,
        name=node.name,
        deps=node.deps,
        duration_micros=micros,
        on_cpu=node.place is NodeResource.CPU,
        start_micros=node.start_ns // NS_PER_US,
        attributes={"charkha.start_ns": node.start_ns, "charkha.duration_ns": node.duration_ns},
    )
    operation = node.operation
    if operation is None:
        return plain
    members = operation.ranks or world
    if not operation.kind.is_collective:
        return replace(
            plain, kind=operation.kind, size_bytes=operation.size_bytes, peer=members[operation.peer], tag=operation.tag
        )
    return replace(
        plain,
        kind=operation.kind,
        size_bytes=operation.size_bytes,
        group=groups.get((operation.group or "", operation.ranks or ()), WORLD_GROUP),
        root=members[operation.root] if 0 <= operation.root < len(members) else -1,
        send_splits=operation.send_splits,
        recv_splits=operation.recv_splits,
    )
