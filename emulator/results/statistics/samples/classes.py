"""Classes of measurements: what is summarised together within a run, and compared between runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from emulator.results.statistics.method.nccl_conventions import nccl_size
from emulator.results.statistics.samples.collectives import MergedSamples
from emulator.trace.meaning.model import CommKind, IntArray, Workload
from emulator.trace.meaning.names import class_name
from emulator.units import format_size

BETWEEN_HOSTS, IN_A_HOST = "between hosts", "in a host"
JCT = "jct"
"""Name of the class of whole iterations (job completion time)."""


_STORAGE = (CommKind.STORAGE_WRITE.label, CommKind.STORAGE_READ.label)


@dataclass(frozen=True, slots=True, order=True)
class ClassKey:
    """What the measurements of a class have in common.

    Attributes:
        collective: kind of communication; SEND_RECV for pairs, JCT for whole iterations.
        members: ranks in the group; 1 for storage; all ranks for JCT.
        size_bytes: as nccl-tests counts it.
        algorithm: "" for pairs and JCT.
        where: BETWEEN_HOSTS or IN_A_HOST; "" for JCT, and if it is not known.
    """

    collective: str
    members: int
    size_bytes: int = 0
    algorithm: str = ""
    where: str = ""

    def __str__(self) -> str:
        if self.collective == JCT:
            return "iteration (JCT)"
        parts = [self.collective, f"{self.members} ranks", format_size(self.size_bytes), self.algorithm, self.where]
        return ", ".join(filter(None, parts))

    @property
    def takes_time(self) -> bool:
        """False for groups of one and for size 0, which complete at once; a barrier takes time despite its size."""
        if self.collective == JCT:
            return True
        is_alone = self.members == 1 and self.collective not in _STORAGE
        return not is_alone and (self.size_bytes > 0 or self.collective == CommKind.BARRIER.label)


def class_rows(merged: MergedSamples) -> Iterator[tuple[ClassKey, IntArray]]:
    """Each class with its rows of `merged`, by kind, group size, size, algorithm and place."""
    if not len(merged):
        return
    keys = np.stack([merged.kind, merged.members, merged.size_bytes, merged.algorithm, merged.between_hosts], axis=1)
    distinct, which = np.unique(keys, axis=0, return_inverse=True)
    order = np.argsort(which.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(which.ravel()))
    for (number, members, size_bytes, algorithm, is_between), rows in zip(
        distinct.tolist(), np.split(order, ends[:-1]), strict=True
    ):
        kind = CommKind(number)
        label = class_name(kind)
        size_bytes = nccl_size(kind, size_bytes=size_bytes, members=members)
        where = (BETWEEN_HOSTS if is_between else IN_A_HOST) if merged.has_hosts else ""
        yield ClassKey(label, members, size_bytes, merged.algorithms[algorithm], where), rows


def count_classes(workload: Workload) -> int:
    """Classes that take time in a run of this workload, including JCT, counted before it is played.

    Algorithms do not add classes: they follow from kind, group size and size.
    """
    largest: dict[int, tuple[CommKind, int, int]] = {}
    for program in workload.programs:
        for node in program.communications.values():
            if node.kind is not CommKind.RECV:
                members = len(workload.groups[node.group]) if node.kind.is_collective else node.kind.rows
                size_bytes = largest[node.instance][2] if node.instance in largest else 0
                largest[node.instance] = node.kind, members, max(size_bytes, node.size_bytes)
    keys = {ClassKey(kind.label, members, size_bytes) for kind, members, size_bytes in largest.values()}
    return 1 + sum(key.takes_time for key in keys)
