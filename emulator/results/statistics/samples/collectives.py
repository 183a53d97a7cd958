"""From the samples of ranks to the times of collectives.

The time of a collective, `cct_ns`, runs from the last post to the last arrival at a member: from then on nobody is
missing, so it is the time of the network. The acknowledgement of the last send does not count: it can stand behind the
next collective in the tester's own queue. A send and its receive are one measurement too: from the post of the send to
the arrival of the last byte. A storage operation is a measurement of its rank alone: from its post to its end.

Runs before format version 2 read as they were summarised then: until the last completion, acknowledgements included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from emulator.errors import ResultError
from emulator.results.run_folder.manifest import LAST_ARRIVAL, LAST_DONE, CctEnd
from emulator.results.statistics.samples.measured_rows import UNKNOWN, block_starts, labels_and_codes, to_ints
from emulator.trace.meaning.model import BoolArray, CommKind, IntArray

FloatArray: TypeAlias = npt.NDArray[np.float64]
_NEVER = np.iinfo(np.int64).min
MERGE_COLUMNS: Sequence[str] = (
    "iteration",
    "instance",
    "rank",
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
    "remaining_ideal_ns",
    "core_wait_ns",
    "network_ns",
    "network_crossings",
    "stalled_ns",
    "port_ns",
)
"""Columns of the samples that `merge` reads."""
STAMP_ERROR_NS = 20_000
"""By how much time stamps of the kernel make a transfer look longer than it was, at most at the median, on a busy host
(lab.benchmarks.network_part)."""
NEGLIGIBLE_SKEW = 0.005
"""Skew over the ideal of all bytes: up to here, what moved before the last post is left out of account, at most that
share of them."""


@dataclass(frozen=True, slots=True)
class MergedSamples:
    """Collectives and send-receive pairs that all members completed: columns, one row per (iteration, instance).

    Attributes:
        iteration, instance: identify the row; rows are sorted by them.
        kind: CommKind numbers; a pair is a SEND.
        members: ranks in the group, 2 for a pair.
        size_bytes: Chakra's comm_size; if members differ, the largest.
        algorithm: index into `algorithms`.
        cct_ns: negative if payload arrived before a post, or if the clocks disagree.
        span_ns, skew_ns: first post to last arrival; first post to last post.
        mean_ns: mean over the members of last post to their end; that of a pair is its cct.
        between_hosts: members are on more than one host; False if that is not known.
        early: payload reached a member of a collective before it had posted.
        traced_ns: shortest duration that the trace recorded for a member; UNKNOWN if it recorded none.
        ideal_ns: ideal time, from the last post on, of the bytes that had still to move then; UNKNOWN without one.
        whole_ideal_ns: ideal time of all bytes of the plan.
        is_late: a rank was late, and what had still to move after its post is not known, or nothing.
        is_worked_out: `ideal_ns` follows from the posts, also if nobody was late: all of a class, or a sample of it.
        core_wait_ns: waits of all members for a core of their agents, between their post and their end; UNKNOWN if one
            does not know its own.
        core_wait_fraction: the largest share (0 to 1) of such a wait in the time of a member; NaN where it is unknown.
        network_ns: of cct, what the chain of messages that ended last spent in the network; UNKNOWN without stamps.
        stalled_ns: for how long the ports of the members had nothing left to send although something was in line.
        port_ns: how long what the busiest of their ports received takes at its usual pace; 0 or less: not known.
        stamp_error_ns: by how much late time stamps may have made `network_ns` longer.
        incomplete: measurements left out because a member did not report.
        has_hosts: `between_hosts` is known.
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
    mean_ns: IntArray
    between_hosts: BoolArray
    early: BoolArray
    traced_ns: IntArray
    ideal_ns: IntArray
    whole_ideal_ns: IntArray
    is_late: BoolArray
    is_worked_out: BoolArray
    core_wait_ns: IntArray
    core_wait_fraction: FloatArray
    network_ns: IntArray
    stalled_ns: IntArray
    port_ns: IntArray
    stamp_error_ns: IntArray
    algorithms: tuple[str, ...]
    incomplete: int
    has_hosts: bool = False

    def __len__(self) -> int:
        return len(self.cct_ns)

    @property
    def had_all_to_move(self) -> BoolArray:
        """Next to nothing can have moved before the last post, or there is no ideal."""
        return (self.whole_ideal_ns <= 0) | (self.ideal_ns >= (1 - NEGLIGIBLE_SKEW) * self.whole_ideal_ns)

    @property
    def whole_ns(self) -> FloatArray:
        """Time that all bytes would have taken at the speed of those that had still to move after the last post."""
        known = (self.whole_ideal_ns > 0) & (self.ideal_ns > 0)
        slower = np.where(known, self.whole_ideal_ns / np.where(known, self.ideal_ns, 1), 1.0)
        return np.asarray(self.cct_ns * slower, np.float64)

    def comparable(self, rows: IntArray) -> IntArray:
        """Those of some rows of a class of which it is known what had still to move after the last post.

        Where only a sample was worked out, those of the sample: the others are those where nobody was late.
        """
        known = rows[~self.is_late[rows]]
        sampled = known[self.is_worked_out[known]]
        return sampled if len(known) < len(rows) and len(sampled) else known


def is_negligible(skew_ns: IntArray, ideal_ns: IntArray) -> BoolArray:
    """Whether next to nothing of what takes `ideal_ns` can have moved before the last post."""
    return np.asarray(skew_ns <= NEGLIGIBLE_SKEW * ideal_ns, np.bool_)


def merge(samples: pa.Table, hosts: Sequence[int] = (), *, until: CctEnd = LAST_ARRIVAL) -> MergedSamples:
    """Merge the samples of the members of each collective, and of the two ends of each pair.

    Args:
        samples: at least MERGE_COLUMNS, each in one chunk; rows in any order.
        hosts: rank -> host; empty: not known.
        until: what ends a collective, as the manifest of the run says.

    Raises:
        ResultError: a kind of communication that this version does not know.
    """
    blocks = _Blocks(samples, hosts)
    pair = np.isin(blocks.first("kind"), (CommKind.SEND, CommKind.RECV))
    storage = np.isin(blocks.first("kind"), (CommKind.STORAGE_WRITE, CommKind.STORAGE_READ))
    members = np.where(pair, 2, blocks.first("group_size"))
    sends = blocks.reduce(np.add, blocks.is_send)
    complete = (blocks.counts == members) & (~pair | (sends == 1))
    last_post, first_post = blocks.largest("post_ns"), blocks.smallest("post_ns")
    last_end = blocks.last_end_ns(until)
    cct_ns = last_end - last_post
    pair_ns = blocks.flight_ns(fallback=cct_ns)
    skew_ns, whole, remaining = last_post - first_post, blocks.largest("ideal_ns"), blocks.largest("remaining_ideal_ns")
    # A pair waits for nobody. Before version 2, the ideal was that of all bytes.
    settled = pair | storage | is_negligible(skew_ns, whole) | (whole <= 0) | (until == LAST_DONE)
    ideal_ns = np.where(settled & (remaining == UNKNOWN), whole, remaining)
    merged = {
        "iteration": blocks.first("iteration"),
        "instance": blocks.first("instance"),
        "kind": np.where(pair, CommKind.SEND, blocks.first("kind")),
        "members": members,
        "size_bytes": blocks.largest("size_bytes"),
        "algorithm": blocks.first("algorithm"),
        "cct_ns": np.where(pair, pair_ns, cct_ns),
        "span_ns": last_end - first_post,
        "skew_ns": skew_ns,
        "mean_ns": np.where(pair, pair_ns, cct_ns - blocks.mean_lead_ns(last_end, until)),
        "between_hosts": (blocks.largest("host") != blocks.smallest("host")) | (storage & bool(len(hosts))),
        "early": blocks.largest("early").astype(np.bool_) & ~pair,
        "traced_ns": blocks.smallest_known("traced_ns"),
        "ideal_ns": ideal_ns,
        "whole_ideal_ns": whole,
        "is_late": (whole > 0) & (ideal_ns <= 0),
        "is_worked_out": remaining != UNKNOWN,
        "core_wait_ns": blocks.core_wait_ns(),
        "core_wait_fraction": blocks.core_wait_fraction(cct_ns),
        "network_ns": blocks.largest("network_ns"),
        "stalled_ns": blocks.largest("stalled_ns"),
        "port_ns": blocks.largest("port_ns"),
        "stamp_error_ns": STAMP_ERROR_NS * blocks.largest("network_crossings"),
    }
    kept: dict[str, Any] = {name: column[complete] for name, column in merged.items()}
    incomplete = int(np.count_nonzero(~complete))
    return MergedSamples(**kept, algorithms=blocks.algorithms, incomplete=incomplete, has_hosts=bool(len(hosts)))


class _Blocks:
    """Samples as int64 columns, sorted so that those of one (iteration, instance) form a block."""

    def __init__(self, samples: pa.Table, hosts: Sequence[int]) -> None:
        self.algorithms, algorithm = labels_and_codes(samples["algorithm"])
        columns = {name: to_ints(samples[name]) for name in MERGE_COLUMNS if name not in ("kind", "algorithm", "rank")}
        rank = to_ints(samples["rank"])
        columns["host"] = np.asarray(hosts, np.int64)[rank] if len(hosts) else np.zeros_like(rank)
        columns |= {"kind": _kind_numbers(samples["kind"]), "algorithm": algorithm}
        columns["arrival_ns"] = to_ints(samples["arrival_ns"], null=_NEVER)
        order = np.lexsort((columns["instance"], columns["iteration"]))
        # One column at a time: never two copies of all of them.
        self._columns = {name: columns.pop(name)[order] for name in list(columns)}
        self._starts = block_starts(self._columns["iteration"], self._columns["instance"])
        self.counts = np.diff(self._starts, append=len(order))
        self.is_send = (self._columns["kind"] == CommKind.SEND).astype(np.int64)

    def reduce(self, function: np.ufunc, column: IntArray) -> IntArray:
        """A column reduced to one value per block."""
        reduced: IntArray = function.reduceat(column, self._starts) if len(self._starts) else column
        return reduced

    def first(self, name: str) -> IntArray:
        return self._columns[name][self._starts]

    def largest(self, name: str) -> IntArray:
        return self.reduce(np.maximum, self._columns[name])

    def smallest(self, name: str) -> IntArray:
        return self.reduce(np.minimum, self._columns[name])

    def last_end_ns(self, until: CctEnd) -> IntArray:
        """When the last byte for a member arrived; the last completion if nothing arrived at any."""
        if until == LAST_DONE:
            return self.largest("done_ns")
        arrival = self.largest("arrival_ns")
        return np.where(arrival == _NEVER, self.largest("done_ns"), arrival)

    def mean_lead_ns(self, last_end: IntArray, until: CctEnd) -> IntArray:
        """Mean over the rows of a block of how long before the end of the collective they were done."""
        arrival, done = self._columns["arrival_ns"], self._columns["done_ns"]
        end = np.where(arrival == _NEVER, done, arrival) if until == LAST_ARRIVAL else done
        lead = np.maximum(np.repeat(last_end, self.counts) - end, 0)  # who receives nothing may be done later
        return self.reduce(np.add, lead) // np.maximum(self.counts, 1)

    def core_wait_ns(self) -> IntArray:
        """Of all members together; UNKNOWN if that of one is."""
        is_known = self.smallest("core_wait_ns") != UNKNOWN
        return np.where(is_known, self.reduce(np.add, self._columns["core_wait_ns"]), UNKNOWN)

    def core_wait_fraction(self, cct_ns: IntArray) -> FloatArray:
        """Of the member that waited for the largest part of its time, at least cct; NaN if a wait is unknown."""
        took = np.maximum(self._columns["done_ns"] - self._columns["post_ns"], np.repeat(cct_ns, self.counts))
        took = np.maximum(took, 1)
        share = np.minimum(self._columns["core_wait_ns"] / took, 1.0)
        largest = np.maximum.reduceat(share, self._starts) if len(self._starts) else share
        return np.where(self.smallest("core_wait_ns") != UNKNOWN, largest, np.nan)

    def smallest_known(self, name: str) -> IntArray:
        never = np.iinfo(np.int64).max
        column = self._columns[name]
        found = self.reduce(np.minimum, np.where(column == UNKNOWN, never, column))
        return np.where(found == never, UNKNOWN, found)

    def flight_ns(self, *, fallback: IntArray) -> IntArray:
        """Post of the send to arrival of the last byte; `fallback` if nothing arrived, as in pairs of no bytes."""
        post = self.reduce(np.maximum, np.where(self.is_send == 1, self._columns["post_ns"], _NEVER))
        arrival = self.reduce(np.maximum, np.where(self.is_send == 0, self._columns["arrival_ns"], _NEVER))
        known = (post != _NEVER) & (arrival != _NEVER)
        return np.where(known, np.where(known, arrival, 0) - np.where(known, post, 0), fallback)


def _kind_numbers(column: Any) -> IntArray:
    labels, codes = labels_and_codes(column)
    known = {kind.label: int(kind) for kind in CommKind}
    for label in labels:
        if label not in known:
            raise ResultError(f"the samples have an unknown kind of communication, {label!r}")
    return np.array([known[label] for label in labels], np.int64)[codes]
