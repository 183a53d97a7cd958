"""The measurements of a run by class, for exports that have collectives but no trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from emulator.run_folder.reader import Run
from emulator.run_folder.schema import Part
from emulator.statistics.classes import ClassKey, class_rows
from emulator.statistics.collectives import MERGE_COLUMNS, MergedSamples, merge
from emulator.statistics.measured_rows import read_measured
from emulator.statistics.nccl_conventions import busbw_factor
from emulator.trace.collective_names import SEND_RECV
from emulator.trace.model import CommKind, IntArray


@dataclass(frozen=True, slots=True)
class MeasuredClass:
    """Every measurement of one class (kind, group size, size, algorithm).

    Attributes:
        kind: a pair of send and receive is a SEND.
        members: ranks in the group.
        size_bytes: as nccl-tests counts it.
        algorithm: "" for send and receive.
        cct_ns: times of the measured iterations, in the order they were played, without negative ones.
        early: measurements whose payload arrived before a post.
    """

    kind: CommKind
    members: int
    size_bytes: int
    algorithm: str
    cct_ns: IntArray
    early: int

    @property
    def label(self) -> str:
        """Name of the collective, `send_recv` for a pair."""
        return SEND_RECV if self.kind is CommKind.SEND else self.kind.label

    @property
    def busbw_factor(self) -> float | None:
        """Bus bandwidth over algorithm bandwidth; None if the class has no bandwidth."""
        return busbw_factor(self.kind, members=self.members) if self.size_bytes and not self.early else None


def measured_classes(run: Run) -> Sequence[MeasuredClass]:
    """The classes of a run, by collective, group size, size and algorithm.

    Raises:
        ResultError: a table of the run is missing or damaged.
    """
    merged = merge(read_measured(run, Part.SAMPLES, MERGE_COLUMNS))
    return [_measured_class(key, merged, rows) for key, rows in class_rows(merged)]


def _measured_class(key: ClassKey, merged: MergedSamples, rows: IntArray) -> MeasuredClass:
    cct_ns = merged.cct_ns[rows]
    return MeasuredClass(
        kind=CommKind(int(merged.kind[rows[0]])),
        members=key.members,
        size_bytes=key.size_bytes,
        algorithm=key.algorithm,
        cct_ns=cct_ns[cct_ns >= 0],
        early=int(np.count_nonzero(merged.early[rows])),
    )
