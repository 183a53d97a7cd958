"""Uneven all-to-all: what each member sends to each, settled from what every member says."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from emulator.trace.meaning import Meaning
from emulator.trace.model import IntArray

UNKNOWN = -1


def split_matrix(members: Sequence[Meaning]) -> IntArray | None:
    """Bytes from each member (row) to each (column), or None if no member has splits: an even one.

    What a sender does not say is taken from the receivers; a member that says nothing sends near-equal blocks.

    Raises:
        TraceError: a sender and a receiver differ, or what a member sends is not its size.
    """
    if all(member.send_splits is None and member.recv_splits is None for member in members):
        return None
    sent, received = _as_matrices(members)
    differs = np.argwhere((sent >= 0) & (received >= 0) & (sent != received))
    if len(differs):
        i, j = (int(index) for index in differs[0])
        sender, receiver = members[i], members[j]
        raise sender.error(
            f"sends {int(sent[i, j])} bytes to rank {receiver.rank}, whose node {receiver.raw.node_id} "
            f"({receiver.path}) expects {int(received[i, j])} bytes from it"
        )
    matrix = np.where(sent >= 0, sent, received)
    for row, member in enumerate(members):
        _complete_row(matrix[row], member)
    return matrix


def _as_matrices(members: Sequence[Meaning]) -> tuple[IntArray, IntArray]:
    shape = (len(members), len(members))
    sent, received = np.full(shape, UNKNOWN, dtype=np.int64), np.full(shape, UNKNOWN, dtype=np.int64)
    for index, member in enumerate(members):
        if member.send_splits is not None:
            sent[index] = member.send_splits
        if member.recv_splits is not None:
            received[:, index] = member.recv_splits
    return sent, received


def _complete_row(row: IntArray, member: Meaning) -> None:
    base, longer = divmod(member.size_bytes, len(row))
    even = base + (np.arange(len(row)) < longer)
    row[row < 0] = even[row < 0]
    total = int(row.sum())
    if total != member.size_bytes:
        raise member.error(
            f"sends {total} bytes by the splits of its all_to_all, but its comm_size says {member.size_bytes} bytes"
        )
