"""From the samples of ranks to the times of collectives, and from times to bandwidths as nccl-tests counts them.

A collective's time `cct_ns` runs from the last post to the last done of its members: everyone was there, this was the
network. A pair of send and receive is one measurement too: from the post of the send to the arrival of the last byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from emulator.errors import ResultError
from emulator.trace.model import BoolArray, CommKind, IntArray

UNKNOWN = -1
_NEVER = np.iinfo(np.int64).min
_FACTORS = {
    CommKind.ALL_REDUCE: 2.0,
    CommKind.ALL_GATHER: 1.0,
    CommKind.REDUCE_SCATTER: 1.0,
    CommKind.REDUCE_SCATTER_BLOCK: 1.0,
    CommKind.ALL_TO_ALL: 1.0,
    CommKind.GATHER: 1.0,
    CommKind.SCATTER: 1.0,
}
_WHOLE = (CommKind.BROADCAST, CommKind.REDUCE, CommKind.SEND, CommKind.RECV)
_SHARDS = (CommKind.ALL_GATHER, CommKind.GATHER)


def nccl_size(kind: CommKind, *, size_bytes: int, members: int) -> int:
    """Bytes nccl-tests says such a collective has.

    Args:
        kind: of the collective.
        size_bytes: Chakra's comm_size, input bytes per rank: of an all-gather and a gather, the shard.
        members: ranks in the group.
    """
    return size_bytes * members if kind in _SHARDS else size_bytes


def busbw_factor(kind: CommKind, *, members: int) -> float | None:
    """Bus bandwidth over algorithm bandwidth, as in nccl-tests; None if there is none: a barrier, a group of one.

    Source: nccl-tests, doc/PERFORMANCE.md.
    """
    if members < 2 or kind is CommKind.BARRIER:
        return None
    return 1.0 if kind in _WHOLE else _FACTORS[kind] * (members - 1) / members


@dataclass(frozen=True, slots=True)
class Merged:
    """Collectives and send-receive pairs that all members completed: columns, a row per (iteration, instance).

    Attributes:
        iteration, instance: which; rows are ordered by them.
        kind: CommKind numbers; a pair is a SEND.
        members: ranks in the group, 2 for a pair.
        size_bytes: Chakra's comm_size; where members differ, the largest.
        algorithm: index into `algorithms`.
        cct_ns: can be negative if payload ran ahead of a post, or the clocks disagree.
        span_ns, skew_ns: first post to last done; first post to last post.
        early: payload reached a member of a collective before it had posted.
        traced_ns: the shortest recorded duration of the members, UNKNOWN where none was recorded.
        ideal_ns: as planned, UNKNOWN where there is none.
        algorithms: names.
        incomplete: measurements left out because not every member reported.
    """

    iteration: IntArray
    instance: IntArray
    kind: IntArray
    members: IntArray
    size_bytes: IntArray
    algorithm: IntArray
    cct_ns: IntArray
    span_ns: IntArray
    skew_ns: IntArray
    early: BoolArray
    traced_ns: IntArray
    ideal_ns: IntArray
    algorithms: tuple[str, ...]
    incomplete: int

    def __len__(self) -> int:
        return len(self.cct_ns)


MERGE_COLUMNS: Sequence[str] = (
    "iteration",
    "instance",
    "kind",
    "group_size",
    "size_bytes",
    "algorithm",
    "post_ns",
    "done_ns",
    "arrival_ns",
    "early",
    "traced_ns",
    "ideal_ns",
)
"""What `merge` needs of the samples."""


def merge(samples: pa.Table) -> Merged:
    """Bring the members of every collective, and the two ends of every pair, together.

    Args:
        samples: MERGE_COLUMNS at least, each in one chunk; any order.

    Raises:
        ResultError: a kind that this version does not know.
    """
    columns = _Ordered(samples)
    pair = np.isin(columns.first("kind"), (CommKind.SEND, CommKind.RECV))
    members = np.where(pair, 2, columns.first("group_size"))
    sends = np.add.reduceat(columns.is_send, columns.starts) if len(columns) else members
    whole = (columns.counts == members) & (~pair | (sends == 1))
    post, done = columns.largest("post_ns"), columns.largest("done_ns")
    first_post = columns.smallest("post_ns")
    merged = {
        "iteration": columns.first("iteration"),
        "instance": columns.first("instance"),
        "kind": np.where(pair, CommKind.SEND, columns.first("kind")),
        "members": members,
        "size_bytes": columns.largest("size_bytes"),
        "algorithm": columns.first("algorithm"),
        "cct_ns": np.where(pair, columns.flight_ns(fallback=done - post), done - post),
        "span_ns": done - first_post,
        "skew_ns": post - first_post,
        "early": columns.largest("early").astype(np.bool_) & ~pair,
        "traced_ns": columns.smallest_known("traced_ns"),
        "ideal_ns": columns.largest("ideal_ns"),
    }
    kept: dict[str, Any] = {name: column[whole] for name, column in merged.items()}
    return Merged(**kept, algorithms=columns.algorithms, incomplete=int(np.count_nonzero(~whole)))


class _Ordered:
    """Samples as int64 columns, those of one (iteration, instance) side by side from each of `starts` on."""

    def __init__(self, samples: pa.Table) -> None:
        self.algorithms, algorithm = labels_and_codes(samples["algorithm"])
        columns = {name: to_ints(samples[name]) for name in MERGE_COLUMNS if name not in ("kind", "algorithm")}
        columns |= {"kind": _kinds(samples["kind"]), "algorithm": algorithm}
        columns["arrival_ns"] = to_ints(samples["arrival_ns"], null=_NEVER)
        order = np.lexsort((columns["instance"], columns["iteration"]))
        # One column at a time, so that there are never two copies of them all.
        self._columns = {name: columns.pop(name)[order] for name in list(columns)}
        iteration, instance = self._columns["iteration"], self._columns["instance"]
        fresh = (np.diff(iteration) != 0) | (np.diff(instance) != 0)
        self.starts = np.flatnonzero(np.concatenate(([len(order) > 0], fresh)))
        self.counts = np.diff(self.starts, append=len(order))
        self.is_send = (self._columns["kind"] == CommKind.SEND).astype(np.int64)

    def __len__(self) -> int:
        return len(self.starts)

    def first(self, name: str) -> IntArray:
        return self._columns[name][self.starts]

    def largest(self, name: str) -> IntArray:
        return _reduce(np.maximum, self._columns[name], self.starts)

    def smallest(self, name: str) -> IntArray:
        return _reduce(np.minimum, self._columns[name], self.starts)

    def smallest_known(self, name: str) -> IntArray:
        never = np.iinfo(np.int64).max
        column = self._columns[name]
        found = _reduce(np.minimum, np.where(column == UNKNOWN, never, column), self.starts)
        return np.where(found == never, UNKNOWN, found)

    def flight_ns(self, *, fallback: IntArray) -> IntArray:
        """Post of the send to arrival of the last byte; `fallback` where nothing arrived (pairs of no bytes)."""
        posted = np.where(self.is_send == 1, self._columns["post_ns"], _NEVER)
        arrived = np.where(self.is_send == 0, self._columns["arrival_ns"], _NEVER)
        post, arrival = (_reduce(np.maximum, column, self.starts) for column in (posted, arrived))
        known = (post != _NEVER) & (arrival != _NEVER)
        return np.where(known, np.where(known, arrival, 0) - np.where(known, post, 0), fallback)


def _reduce(how: np.ufunc, column: IntArray, starts: IntArray) -> IntArray:
    reduced: IntArray = how.reduceat(column, starts) if len(starts) else np.empty(0, np.int64)
    return reduced


def to_ints(column: Any, *, null: int = UNKNOWN) -> IntArray:
    """A numeric or bool Arrow column as int64, nulls replaced."""
    return np.asarray(column.cast(pa.int64()).fill_null(null).to_numpy(), np.int64)


def labels_and_codes(column: Any) -> tuple[tuple[str, ...], IntArray]:
    """A label column of a table as its distinct labels and an index into them per row."""
    if column.num_chunks == 0:
        return (), np.empty(0, np.int64)
    chunk = column.unify_dictionaries().combine_chunks()
    return tuple(chunk.dictionary.to_pylist()), np.asarray(chunk.indices.to_numpy(zero_copy_only=False), np.int64)


def _kinds(column: Any) -> IntArray:
    labels, codes = labels_and_codes(column)
    return _kind_numbers(labels)[codes] if len(codes) else codes


def _kind_numbers(labels: Iterable[str]) -> npt.NDArray[np.int64]:
    known = {kind.label: int(kind) for kind in CommKind}
    for label in labels:
        if label not in known:
            raise ResultError(f"the samples have an unknown kind of communication, {label!r}")
    return np.array([known[label] for label in labels], np.int64)
