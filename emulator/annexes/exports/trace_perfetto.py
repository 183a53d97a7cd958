"""The time line of a trace for Perfetto: a process per rank, tracks for CPU, device and each process group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from emulator.annexes.exports.perfetto_tracks import Lanes, Tracks, require
from emulator.host.files import writing
from emulator.trace.analysis.time_line import TimeLine
from emulator.trace.meaning.groups import group_label
from emulator.trace.meaning.model import Communication, Group, RankProgram, Resource, Workload

_TRACKS = {Resource.CPU: "CPU", Resource.DEVICE: "device"}


def trace_line_writer() -> Callable[..., None]:
    """`write_trace_line`, when what it needs is installed.

    Raises:
        HostError: the perfetto package is missing.
    """
    require()
    return write_trace_line


def write_trace_line(
    workload: Workload, line: TimeLine, target: Path, *, names: Callable[[int], Sequence[str]]
) -> None:
    """Write the time line; slices that overlap on a track go to further ones.

    Args:
        workload: the trace set.
        line: when its nodes run.
        target: the file.
        names: rank → names of its nodes in file order.

    Raises:
        HostError: it cannot be written, or the perfetto package is missing.
    """
    with writing(target), target.open("wb") as file:
        tracks = Tracks(file)
        for program in workload.recorded:
            _add_rank(tracks, program, line, workload.groups, names(program.rank))


def _add_rank(
    tracks: Tracks, program: RankProgram, line: TimeLine, groups: Sequence[Group], names: Sequence[str]
) -> None:
    start, end = line.start_ns[program.rank], line.end_ns[program.rank]
    lanes: dict[str, Lanes] = {}
    for position in np.argsort(start, kind="stable").tolist():
        begin, done = int(start[position]), int(end[position])
        if done == begin:
            continue
        node = program.communications.get(position)
        track = (
            _TRACKS.get(Resource(int(program.resource[position])), "other") if node is None else _track(node, groups)
        )
        lane = lanes.setdefault(track, Lanes()).place(begin, done)
        shown = track if lane == 0 else f"{track} ({lane + 1})"
        name, category = names[int(program.order[position])], "compute" if node is None else "communication"
        tracks.slice((f"rank {program.rank}", shown), name, begin, done, _arguments(node), category)


def _track(node: Communication, groups: Sequence[Group]) -> str:
    if not node.kind.is_collective:
        return "messages"
    group = groups[node.group]
    return group_label(group.name, group.ranks) if node.group else "world"


def _arguments(node: Communication | None) -> dict[str, Any]:
    if node is None:
        return {}
    return {"kind": node.kind.label, "size_bytes": node.size_bytes, "index_in_group": node.index_in_group}
