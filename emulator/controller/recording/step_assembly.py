"""Puts both ends of the transfers of an instance together: what its sender recorded, and what its receiver did."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from emulator.control.observations import RankSteps
from emulator.results.run_folder.schema import Columns
from emulator.trace.meaning.model import IntArray

MOST_TRANSFERS = 1 << 20
"""Transfers of instances that lack members, held at once; then the oldest instance is written as it is."""
_OF_SENDER = ("step", "size_bytes", "start_ns", "post_ns", "acknowledged_ns")
_UNKNOWN = -1


class StepAssembly:
    """Holds the blocks of instances until all members have sent theirs.

    Args:
        members_of: number of members of the instance that a node of a rank belongs to.

    Attributes:
        complete: (iteration, instance) of those that were given out whole.
        incomplete: how many were given out without all of their members.
    """

    def __init__(self, members_of: Callable[[int, int], int], *, most_transfers: int = MOST_TRANSFERS) -> None:
        self._members_of, self._most_transfers = members_of, most_transfers
        self._open: dict[tuple[int, int], list[RankSteps]] = {}
        self._transfers = 0
        self.complete: set[tuple[int, int]] = set()
        self.incomplete = 0

    def add(self, block: RankSteps) -> Iterator[Columns]:
        """Take a block; yields the rows of instances that need not wait any longer."""
        key = (block.iteration, block.instance)
        blocks = self._open.setdefault(key, [])
        blocks.append(block)
        self._transfers += len(block.step)
        if len(blocks) == self._members_of(block.rank, block.node_id):
            self.complete.add(key)
            yield self._rows(key)
        while self._transfers > self._most_transfers:
            yield self._rest(next(iter(self._open)))

    def rest(self) -> Iterator[Columns]:
        """The rows of what still waits: the run is over."""
        for key in list(self._open):
            yield self._rest(key)

    def _rest(self, key: tuple[int, int]) -> Columns:
        self.incomplete += 1
        return self._rows(key)

    def _rows(self, key: tuple[int, int]) -> Columns:
        blocks = self._open.pop(key)
        self._transfers -= sum(len(one.step) for one in blocks)
        return {"iteration": key[0], "instance": key[1]} | joined(blocks)


def joined(blocks: Sequence[RankSteps]) -> dict[str, Any]:
    """The transfers of one instance as columns of the steps table, in the order in which their steps began.

    Args:
        blocks: of its members; of a transfer with one end in none of them, that end is null.
    """
    sent, received = (
        _flat(blocks, "receiver", "send_lane", *_OF_SENDER),
        _flat(blocks, "sender", "receive_lane", "arrival_ns"),
    )
    keys = [
        _numbered(sent["rank"], sent["receiver"], sent["send_lane"]),
        _numbered(received["sender"], received["rank"], received["receive_lane"]),
    ]
    if not any(map(len, keys)):
        return {name: np.zeros(0, np.int64) for name in ("lane", "src", "dst")}
    transfers, row = np.unique(np.concatenate(keys), axis=0, return_inverse=True)
    sends, receives = np.split(row.ravel(), [len(keys[0])])
    known = {name: np.full(len(transfers), _UNKNOWN) for name in (*_OF_SENDER, "arrival_ns")}
    for name in _OF_SENDER:
        known[name][sends] = sent[name]
    known["arrival_ns"][receives] = received["arrival_ns"]
    src, dst, lane, _ = transfers.T
    order = np.lexsort((known["step"], lane, src, known["start_ns"]))
    nodes = {one.rank: one.node_id for one in blocks}
    return {
        "node_id": [nodes.get(rank) for rank in src[order].tolist()],
        **{name: column[order] for name, column in (("src", src), ("dst", dst), ("lane", lane))},
        **{name: _nullable(column[order], name) for name, column in known.items()},
    }


def _flat(blocks: Sequence[RankSteps], *names: str) -> dict[str, IntArray]:
    """Columns of all blocks, end to end, and the rank of each row."""
    flat = {
        name: np.concatenate([np.asarray(getattr(one, name), np.int64) for one in blocks] or [np.zeros(0, np.int64)])
        for name in names
    }
    counts = [len(getattr(one, names[0])) for one in blocks]
    return flat | {"rank": np.repeat(np.array([one.rank for one in blocks], np.int64), counts)}


def _numbered(src: IntArray, dst: IntArray, lane: IntArray) -> IntArray:
    """(source, destination, lane, how many such came before) of each transfer, shape (transfers, 4)."""
    order = np.lexsort((lane, dst, src))  # stable: transfers of one line stay in order
    keys = np.stack([src, dst, lane], axis=1)[order]
    fresh = np.concatenate(([True], np.any(keys[1:] != keys[:-1], axis=1))) if len(keys) else np.zeros(0, np.bool_)
    starts = np.flatnonzero(fresh)
    number = np.zeros(len(src), np.int64)
    number[order] = np.arange(len(src)) - np.repeat(starts, np.diff(starts, append=len(src)))
    return np.stack([src, dst, lane, number], axis=1)


def _nullable(values: IntArray, name: str) -> Any:
    """Times that are 0 never came: the run ended before."""
    return np.ma.masked_array(values, values <= 0 if name.endswith("_ns") else values == _UNKNOWN)
