"""Times of flows and of requests: what a user of inference waits for.

The flow completion time of a send and its receive runs from the post of the send to the arrival of the last byte. Where
the names of nodes say which request they serve (`emulator.trace.meaning.key_value_names`), requests have times too:

- key-value latency: from the first post of a send of the request to the arrival of its last byte anywhere;
- time to first token, as far as the fabric sets it: from the arrival of the request to that last byte. The prefill, and
  waiting for it, are part of this. Receives are posted at the arrival, so the first post of any node tells it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from emulator.results.statistics.method.descriptive import median, percentile
from emulator.results.statistics.samples.collectives import MergedSamples
from emulator.results.statistics.samples.table_columns import block_starts, labels_and_codes, to_ints
from emulator.trace.meaning.key_value_names import request_of
from emulator.trace.meaning.model import BoolArray, CommKind, IntArray

_NONE = -1
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class TransferTimes:
    """Median, 99th percentile and largest of some times; None without any, or with too few."""

    p50_ns: float | None
    p99_ns: float | None
    max_ns: float | None

    @classmethod
    def of(cls, values: IntArray) -> TransferTimes:
        """Of times in ns; those below zero, which only clocks that disagree yield, are left out."""
        valid = values[values >= 0]
        return cls(median(valid), percentile(valid, 0.99), float(valid.max()) if len(valid) else None)


@dataclass(frozen=True, slots=True)
class TransferSummary:
    """Flows and requests of all measured iterations.

    Attributes:
        flows: sends that arrived.
        requests: requests whose key-value cache arrived as a whole.
        incomplete_requests: those of which a part has no sample.
        kv_latency, ttft: key-value latencies, times to first token.
    """

    flows: int
    requests: int
    incomplete_requests: int
    fct: TransferTimes
    kv_latency: TransferTimes
    ttft: TransferTimes


NO_TRANSFERS = TransferSummary(0, 0, 0, *[TransferTimes(None, None, None)] * 3)


def summarise_transfers(samples: pa.Table, merged: MergedSamples) -> TransferSummary:
    """Times of flows and requests.

    Args:
        samples: columns iteration, name, kind, post_ns, done_ns, arrival_ns; one row per rank and node.
    """
    flows = merged.cct_ns[merged.kind == CommKind.SEND]
    if not len(flows):
        return NO_TRANSFERS
    requests = _requests(samples)
    whole = requests.is_whole
    return TransferSummary(
        flows=len(flows),
        requests=int(np.count_nonzero(whole)),
        incomplete_requests=int(np.count_nonzero(~whole)),
        fct=TransferTimes.of(flows),
        kv_latency=TransferTimes.of((requests.last_byte_ns - requests.first_send_ns)[whole]),
        ttft=TransferTimes.of((requests.last_byte_ns - requests.first_post_ns)[whole]),
    )


class _Requests(NamedTuple):
    """Columns, one row per iteration and request."""

    first_send_ns: IntArray
    first_post_ns: IntArray
    last_byte_ns: IntArray
    is_whole: BoolArray


def _requests(samples: pa.Table) -> _Requests:
    request = _request_numbers(samples)
    rows = np.flatnonzero(request != _NONE)
    order = rows[np.lexsort((request[rows], to_ints(samples["iteration"])[rows]))]
    starts = block_starts(to_ints(samples["iteration"])[order], request[order])
    kinds, kind = labels_and_codes(samples["kind"])
    is_send = np.array([label == CommKind.SEND.label for label in kinds], np.bool_)[kind[order]]
    post = to_ints(samples["post_ns"])[order]
    arrival = to_ints(samples["arrival_ns"], null=_NONE)[order]
    end = np.where(arrival == _NONE, to_ints(samples["done_ns"])[order], arrival)
    return _Requests(
        _reduced(np.minimum, np.where(is_send, post, _NEVER), starts),
        _reduced(np.minimum, post, starts),
        _reduced(np.maximum, np.where(is_send, _NONE, end), starts),
        _is_whole(
            request[order][starts], nodes=np.diff(starts, append=len(order)), sends=_reduced(np.add, is_send, starts)
        ),
    )


def _request_numbers(samples: pa.Table) -> IntArray:
    """Request of each row; _NONE if its name names none."""
    labels, codes = labels_and_codes(samples["name"])
    numbers = [request_of(label) for label in labels]
    return np.array([_NONE if one is None else one for one in numbers], np.int64)[codes]


def _reduced(function: np.ufunc, column: IntArray | BoolArray, starts: IntArray) -> IntArray:
    """A value per block; no blocks, no values."""
    reduced: IntArray = function.reduceat(column.astype(np.int64), starts) if len(starts) else np.zeros(0, np.int64)
    return reduced


def _is_whole(request: IntArray, *, nodes: IntArray, sends: IntArray) -> BoolArray:
    """Whether a request has all its samples: as many receives as sends, and as many as in any other iteration."""
    names, which = np.unique(request, return_inverse=True)
    most = np.zeros(len(names), np.int64)
    np.maximum.at(most, which, nodes)
    complete: BoolArray = (2 * sends == nodes) & (nodes == most[which])
    return complete
