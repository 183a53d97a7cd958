"""How flows share a port over time: from the counters of the ports they come from.

Source: BMWG's draft-calabria-bmwg-ai-fabric-training-bench: flows have converged when all are within 10 % of their fair
share.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from emulator.planner.network.load_balance import balance_of
from emulator.results.statistics.samples.measured_rows import to_ints
from emulator.units import BITS_PER_BYTE, NS_PER_S

FloatArray = npt.NDArray[np.float64]
TOLERANCE = 0.1


@dataclass(frozen=True, slots=True)
class Shares:
    """Rates of senders in windows of one length.

    Attributes:
        start_ns: int64, shape (windows,): when each window begins.
        rate_bps: shape (senders, windows).
    """

    start_ns: npt.NDArray[np.int64]
    rate_bps: FloatArray

    @property
    def converged(self) -> int | None:
        """The first window in which every sender is within TOLERANCE of the mean; None if none is."""
        mean = self.rate_bps.mean(axis=0)
        fair = np.all(np.abs(self.rate_bps - mean) <= TOLERANCE * mean, axis=0) & (mean > 0)
        return int(np.argmax(fair)) if fair.any() else None

    def jain(self, first: int = 0) -> float:
        """Jain's index of what the senders sent from a window on: 1 is fair, 1 / senders is not; 0: nothing."""
        return balance_of(self.rate_bps[:, first:].sum(axis=1)).jain or 0.0


def shares(
    counters: pa.Table, senders: Sequence[tuple[str, str]], *, start_ns: int, end_ns: int, window_ns: int
) -> Shares:
    """What ports sent, from cumulative counters that are taken for straight lines between readings.

    Args:
        counters: of a run.
        senders: (device, interface) of each.
        start_ns, end_ns: the span to look at; a rest shorter than a window is left out.
        window_ns: of the averages.
    """
    edges = np.arange(start_ns, end_ns + 1, window_ns, dtype=np.int64)
    sent = np.stack([np.interp(edges, *_series(counters, *sender)) for sender in senders])
    return Shares(edges[:-1], np.diff(sent, axis=1) * (BITS_PER_BYTE * NS_PER_S / window_ns))


def _series(counters: pa.Table, device: str, interface: str) -> tuple[FloatArray, FloatArray]:
    rows = np.flatnonzero(
        (np.array(counters["device"].to_pylist()) == device)
        & (np.array(counters["interface"].to_pylist()) == interface)
        & (np.array(counters["counter"].to_pylist()) == "tx_bytes")
    )
    return to_ints(counters["time_ns"])[rows].astype(np.float64), to_ints(counters["value"])[rows].astype(np.float64)
