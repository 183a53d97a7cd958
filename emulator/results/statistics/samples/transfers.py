"""Transfers: times of flows and of requests, which a user of inference waits for, steps, and bytes under way.

The flow completion time of a send and its receive runs from the post of the send to the arrival of the last byte. Where
the names of nodes say which request they serve (`emulator.trace.meaning.names`), requests have times too:

- key-value latency: from the first post of a send of the request to the arrival of its last byte anywhere;
- time to first token, as far as the fabric sets it: from the arrival of the request to that last byte. The prefill, and
  waiting for it, are part of this. Receives are posted at the arrival, so the first post of any node tells it.

The ideal time of a collective is its own alone. Where others crossed the same ports at the same time, a perfect device
takes longer, and a missed share of ideal says nothing about the device: the bytes under way show it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from emulator.host.parquet import to_table
from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.schema import RunTable
from emulator.results.statistics.method.descriptive import median, percentile
from emulator.results.statistics.samples.classes import ClassKey, class_rows
from emulator.results.statistics.samples.collectives import MERGE_COLUMNS, MergedSamples, merge
from emulator.results.statistics.samples.measured_rows import (
    UNKNOWN,
    block_starts,
    labels_and_codes,
    moved_bytes,
    to_ints,
)
from emulator.results.statistics.traffic.network_traffic import hosts_of_ranks
from emulator.trace.meaning.model import BoolArray, CommKind, IntArray
from emulator.trace.meaning.names import request_of

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


_NUMBERS = (
    "iteration", "instance", "lane", "step", "src", "dst", "size_bytes", "start_ns", "post_ns", "acknowledged_ns",
    "arrival_ns", "qpn", "source_port", "ideal_post_ns", "ideal_arrival_ns",
)  # fmt: skip
_Key = tuple[int, int]
"""(iteration, instance)"""


@dataclass(frozen=True, slots=True)
class RecordedInstance:
    """A collective or pair of an iteration whose steps were recorded.

    Attributes:
        name: of its node in the trace.
        ranks: its members, ascending.
        zero_ns: when everybody was there: the last post; of a pair, the post of the send.
        rows: of the steps.
    """

    iteration: int
    instance: int
    key: ClassKey
    name: str
    ranks: tuple[int, ...]
    zero_ns: int
    cct_ns: int
    rows: IntArray


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of a run.

    Attributes:
        columns: of the steps table as int64, UNKNOWN for null; but see `paths`.
        paths: "" where it is not known.
        ready_ns: when each transfer could begin: its step had begun, and everybody was there.
        instances: in order of iteration and instance.
    """

    columns: Mapping[str, IntArray]
    paths: Sequence[str]
    ready_ns: IntArray
    instances: Sequence[RecordedInstance]

    @property
    def time_ns(self) -> IntArray:
        """From ready to the arrival of the last byte; UNKNOWN where either is not known."""
        arrival_ns = self.columns["arrival_ns"]
        known = (arrival_ns != UNKNOWN) & (self.columns["start_ns"] != UNKNOWN)
        return np.where(known, arrival_ns - self.ready_ns, UNKNOWN)


def read_steps(run: Run) -> Steps | None:
    """The steps of a run; None if it recorded none.

    Raises:
        ResultError: a table of the run is missing or damaged.
    """
    table = run.table(RunTable.STEPS)
    if not table.num_rows:
        return None
    columns = {name: to_ints(table[name]) for name in _NUMBERS}
    order = np.lexsort((columns["start_ns"], columns["instance"], columns["iteration"]))
    columns = {name: column[order] for name, column in columns.items()}
    starts = block_starts(columns["iteration"], columns["instance"])
    keys = zip(columns["iteration"][starts].tolist(), columns["instance"][starts].tolist(), strict=True)
    rows = dict(zip(keys, np.split(np.arange(len(order)), starts[1:]), strict=True))
    instances = sorted(_instances(run, rows), key=lambda one: (one.iteration, one.instance))
    ready_ns = columns["start_ns"].copy()
    for one in instances:
        ready_ns[one.rows] = np.maximum(ready_ns[one.rows], one.zero_ns)
    paths = table["path"].to_pylist()
    return Steps(columns, [paths[at] or "" for at in order.tolist()], ready_ns, instances)


def _instances(run: Run, rows: Mapping[_Key, IntArray]) -> Iterator[RecordedInstance]:
    """Those that all members completed."""
    samples = _samples(run, rows)
    merged = merge(samples, hosts_of_ranks(run.manifest), until=run.manifest.cct_until)
    members: dict[_Key, list[dict[str, Any]]] = {}
    for sample in samples.select(["iteration", "instance", "rank", "kind", "name", "post_ns"]).to_pylist():
        members.setdefault((sample["iteration"], sample["instance"]), []).append(sample)
    for key, of_class in class_rows(merged):
        for at in of_class.tolist():
            which = (int(merged.iteration[at]), int(merged.instance[at]))
            # A pair begins when it is sent: the receiver need not have posted.
            posts = [one for one in members[which] if one["kind"] != CommKind.RECV.label]
            yield RecordedInstance(
                *which,
                key,
                name=posts[0]["name"],
                ranks=tuple(sorted(one["rank"] for one in members[which])),
                zero_ns=max(one["post_ns"] for one in posts),
                cct_ns=int(merged.cct_ns[at]),
                rows=rows[which],
            )


def _samples(run: Run, wanted: Collection[_Key]) -> pa.Table:
    """The samples of some instances; others are never held together."""
    names = [*MERGE_COLUMNS, *(one for one in ("rank", "name") if one not in MERGE_COLUMNS)]
    kept = []
    for batch in run.batches(RunTable.SAMPLES, names):
        keys = zip(batch["iteration"].to_pylist(), batch["instance"].to_pylist(), strict=True)
        kept.append(batch.filter(pa.array([key in wanted for key in keys], pa.bool_())))
    return to_table(kept, pa.schema([RunTable.SAMPLES.schema.field(name) for name in names]))


FloatArray = npt.NDArray[np.float64]


def bytes_in_flight(samples: pa.Table, merged: MergedSamples) -> FloatArray:
    """Payload that all ranks of the machine sent during each measurement, bytes.

    Each measurement sends its bytes evenly between its last post and its last completion.

    Args:
        samples: rows of iterations that count, with `bytes_sent`.
    """
    windows = Windows.of(samples, moved_bytes(samples))
    if not len(windows.key):
        return np.zeros(len(merged))
    at = np.searchsorted(windows.key, row_key(merged.iteration, merged.instance))
    sent = windows.sent_until(windows.end[at]) - windows.sent_until(windows.begin[at])
    return np.asarray(np.maximum(sent, 0.0), np.float64)  # rounding can take it below 0


@dataclass(frozen=True, slots=True)
class Windows:
    """Time windows of the measurements, one row per (iteration, instance): last post, last completion, bytes sent."""

    key: IntArray
    begin: IntArray
    end: IntArray
    sent: IntArray | FloatArray

    @classmethod
    def of(cls, samples: pa.Table, sent: IntArray) -> Windows:
        """The windows of rows of samples; sent: payload by row, bytes."""
        key = row_key(to_ints(samples["iteration"]), to_ints(samples["instance"]))
        order = np.argsort(key, kind="stable")
        key = key[order]
        starts = block_starts(key)
        post, done = (to_ints(samples[name])[order] for name in ("post_ns", "done_ns"))
        sent = sent[order]
        if not len(starts):
            return cls(key, post, done, sent)
        begin = np.maximum.reduceat(post, starts)
        end = np.maximum(np.maximum.reduceat(done, starts), begin + 1)
        return cls(key[starts], begin, end, np.add.reduceat(sent, starts))

    def sent_until(self, times: IntArray) -> FloatArray:
        """Bytes that all measurements together have sent at these times."""
        origin = int(self.begin.min())
        rates = self.sent / (self.end - self.begin)
        return _ramp(self.begin - origin, rates, times - origin) - _ramp(self.end - origin, rates, times - origin)


def _ramp(starts: IntArray, rates: FloatArray, times: IntArray) -> FloatArray:
    """Sum of rate x (time - start) over everything that has started, at each time."""
    order = np.argsort(starts)
    slope = np.concatenate(([0.0], np.cumsum(rates[order])))
    offset = np.concatenate(([0.0], np.cumsum(rates[order] * starts[order])))
    at = np.searchsorted(starts[order], times)
    return np.asarray(slope[at] * times - offset[at], np.float64)


def row_key(iteration: IntArray, instance: IntArray) -> IntArray:
    """One number for an instance in an iteration; ascending as they are sorted in `MergedSamples`."""
    return (iteration << 40) + instance


def other_payload(samples: pa.Table, merged: MergedSamples, topology: Mapping[str, Any]) -> FloatArray:
    """Payload of others / own payload, at the port and in the direction where that is largest, per measurement.

    Each measurement moves its bytes evenly in its cct. In a fabric of several switches others are in the way wherever
    they go, so there all ports count as one.

    Args:
        samples: rows of iterations that count, with `bytes_sent` and `bytes_received`.
        merged: made of them.
        topology: of the manifest.

    Returns:
        0 for what stays in a host, and where hosts are not known.
    """
    shared = np.zeros(len(merged))
    if not merged.has_hosts or not len(merged):
        return shared
    keys = row_key(merged.iteration, merged.instance)
    row_keys = row_key(to_ints(samples["iteration"]), to_ints(samples["instance"]))
    at = np.minimum(np.searchsorted(keys, row_keys), len(keys) - 1)
    crosses = (keys[at] == row_keys) & merged.between_hosts[at]
    begin = np.zeros(len(merged), np.int64)
    np.maximum.at(begin, at, to_ints(samples["post_ns"]))
    end = begin + np.maximum(merged.cct_ns, 1)
    ports = _ports(topology)[to_ints(samples["rank"])]
    for name in ("bytes_sent", "bytes_received"):
        moved = to_ints(samples[name])
        for rows in _by_port(ports, crosses & (moved > 0)):
            here, which = np.unique(at[rows], return_inverse=True)
            own = np.bincount(which.ravel(), moved[rows])
            windows = Windows(keys[here], begin[here], end[here], own)
            total = windows.sent_until(windows.end) - windows.sent_until(windows.begin)
            shared[here] = np.maximum(shared[here], total / own - 1)
    return shared


def _ports(topology: Mapping[str, Any]) -> IntArray:
    """Rank → number of its port; all the same if the fabric has several switches."""
    hosts = np.asarray(topology.get("host_index") or (), np.int64)
    switches = (topology.get("network") or {}).get("switches") or ()
    if len(switches) > 1:
        return np.zeros_like(hosts)
    interfaces = np.asarray(topology.get("interface_index") or np.zeros_like(hosts), np.int64)
    return (hosts << 16) + interfaces


def _by_port(ports: IntArray, chosen: Any) -> Iterator[IntArray]:
    rows = np.flatnonzero(chosen)
    order = rows[np.argsort(ports[rows], kind="stable")]
    if len(order):
        yield from np.split(order, np.flatnonzero(np.diff(ports[order])) + 1)
