"""Payload that was under way during measurements: each moves its bytes evenly from its last post to its completion."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from emulator.results.statistics.samples.collectives import MergedSamples
from emulator.results.statistics.samples.measured_rows import moved_bytes
from emulator.results.statistics.samples.table_columns import block_starts, to_ints
from emulator.trace.meaning.model import IntArray

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
