"""A played trace as a workload that can be written: what is the same for all that rewrite one."""

from __future__ import annotations

from collections.abc import Mapping

from emulator.planner.workloads.synthetic import WORLD_GROUP, WorkNode
from emulator.trace.groups import WORLD
from emulator.trace.model import Communication, Workload


def group_numbers(workload: Workload) -> dict[int, int]:
    """Index of a process group → its number in a group file; the world has none."""
    used = {node.group for program in workload.programs for node in program.communications.values()}
    return {group: number for number, group in enumerate(sorted(used - {WORLD}), 1)} | {WORLD: WORLD_GROUP}


def numbered_groups(workload: Workload, numbers: Mapping[int, int]) -> dict[int, tuple[int, ...]]:
    """Number → world ranks, for a group file."""
    return {number: workload.groups[group].ranks for group, number in numbers.items() if number != WORLD_GROUP}


def communication_node(
    node: Communication,
    *,
    node_id: int,
    name: str,
    deps: tuple[int, ...],
    group: int,
    tag: int,
    start_micros: int,
    duration_micros: int,
) -> WorkNode:
    """A communication with its size, peer, root and splits, and all else given."""
    return WorkNode(
        node_id=node_id,
        name=name,
        deps=deps,
        duration_micros=duration_micros,
        kind=node.kind,
        size_bytes=node.size_bytes,
        group=group,
        peer=node.peer,
        tag=tag,
        start_micros=start_micros,
        root=node.root,
        send_splits=node.send_splits,
        recv_splits=node.recv_splits,
    )
