"""The class of a measurement: what is summed up together within a run, and compared between runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from emulator.statistics.collectives import Merged, nccl_size
from emulator.statistics.summary import SEND_RECV
from emulator.trace.model import CommKind, IntArray, Workload
from emulator.units import format_size

JCT = "jct"
"""In place of a collective: an iteration of the whole trace."""


@dataclass(frozen=True, slots=True, order=True)
class ClassKey:
    """What measurements have in common, as in the table of a run.

    Attributes:
        collective: kind of communication, `send_recv` for a pair, `jct` for the whole iteration.
        members: ranks in the group; of `jct`, all.
        size_bytes: as nccl-tests counts it.
        algorithm: "" for send and receive, and for `jct`.
    """

    collective: str
    members: int
    size_bytes: int = 0
    algorithm: str = ""

    def __str__(self) -> str:
        if self.collective == JCT:
            return "iteration (JCT)"
        parts = [self.collective, f"{self.members} ranks", format_size(self.size_bytes), self.algorithm]
        return ", ".join(filter(None, parts))

    @property
    def takes_time(self) -> bool:
        """False of what completes at once: a group of one, size 0 (a barrier takes time all the same)."""
        if self.collective == JCT:
            return True
        return self.members > 1 and (self.size_bytes > 0 or self.collective == CommKind.BARRIER.label)


def class_rows(merged: Merged) -> Iterator[tuple[ClassKey, IntArray]]:
    """(class, its rows of `merged`), by kind, group size, size and algorithm."""
    if not len(merged):
        return
    keys = np.stack([merged.kind, merged.members, merged.size_bytes, merged.algorithm], axis=1)
    distinct, which = np.unique(keys, axis=0, return_inverse=True)
    order = np.argsort(which.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(which.ravel()))
    for key, rows in zip(distinct, np.split(order, ends[:-1]), strict=True):
        yield _key(tuple(map(int, key)), merged.algorithms), rows


def _key(numbers: tuple[int, ...], algorithms: tuple[str, ...]) -> ClassKey:
    kind, members = CommKind(numbers[0]), numbers[1]
    size_bytes = nccl_size(kind, size_bytes=numbers[2], members=members)
    return ClassKey(SEND_RECV if kind is CommKind.SEND else kind.label, members, size_bytes, algorithms[numbers[3]])


def count_classes(workload: Workload) -> int:
    """Classes that a run of this workload will have, the iteration among them, before it is played.

    The algorithm adds none: it follows from kind, group size and size.
    """
    largest: dict[int, tuple[CommKind, int, int]] = {}
    for program in workload.programs:
        for node in program.communications.values():
            if node.kind is not CommKind.RECV:
                members = len(workload.groups[node.group]) if node.kind.is_collective else 2
                size_bytes = largest[node.instance][2] if node.instance in largest else 0
                largest[node.instance] = node.kind, members, max(size_bytes, node.size_bytes)
    kinds = {ClassKey(kind.label, members, size_bytes) for kind, members, size_bytes in largest.values()}
    return 1 + sum(key.takes_time for key in kinds)
