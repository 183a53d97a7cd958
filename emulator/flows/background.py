"""Background traffic of an agent: when its messages are due and how large they are, known before the first one is sent.

The schedule is open loop: it does not know what became of earlier messages. Sizes come from published distributions of
flow sizes, as the tables that simulators of data centre networks use. Between two points of a table, sizes are spread
evenly: its CDF is interpolated linearly, as those simulators do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from emulator.errors import PlanError
from emulator.roce.options import RoceOptions
from emulator.units import BITS_PER_BYTE, NS_PER_S

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_PACKET_BYTES = 1460
"""Payload of a packet in the tables of pFabric's simulations, which count packets."""


@dataclass(frozen=True, slots=True, eq=False)
class SizeDistribution:
    """Sizes of flows.

    Attributes:
        source: where it was measured, and whose table this is.
        unit_bytes: the sizes of the points count these.
        points: (size, share of flows that are at most so large), in ascending order, from a share of 0 to 1.
        published_mean_bytes: as published with the table; None: none was.
    """

    source: str
    unit_bytes: int
    points: tuple[tuple[int, float], ...]
    published_mean_bytes: int | None = None

    @property
    def mean_bytes(self) -> float:
        """Mean of the interpolated table, bytes."""
        sizes, shares = np.array(self.points, np.float64).T
        return float(np.sum(np.diff(shares) * (sizes[1:] + sizes[:-1])) / 2 * self.unit_bytes)

    def sizes(self, shares: FloatArray) -> IntArray:
        """The sizes at shares from 0 to 1, bytes: at least 1."""
        sizes, known = np.array(self.points, np.float64).T
        found: IntArray = np.maximum(1, np.rint(np.interp(shares, known, sizes) * self.unit_bytes)).astype(np.int64)
        return found


DISTRIBUTIONS: Mapping[str, SizeDistribution] = {
    "web-search": SizeDistribution(
        "web search, DCTCP (Alizadeh et al., SIGCOMM 2010); table and mean of pFabric's simulations (SIGCOMM 2013)",
        _PACKET_BYTES,
        (
            (6, 0.0), (6, 0.15), (13, 0.2), (19, 0.3), (33, 0.4), (53, 0.53), (133, 0.6), (667, 0.7), (1333, 0.8),
            (3333, 0.9), (6667, 0.97), (20_000, 1.0),
        ),
        1138 * _PACKET_BYTES,
    ),
    "data-mining": SizeDistribution(
        "data mining, VL2 (Greenberg et al., SIGCOMM 2009); table and mean of pFabric's simulations (SIGCOMM 2013)",
        _PACKET_BYTES,
        (
            (1, 0.0), (1, 0.5), (2, 0.6), (3, 0.7), (7, 0.8), (267, 0.9), (2107, 0.95), (66_667, 0.99),
            (666_667, 1.0),
        ),
        5117 * _PACKET_BYTES,
    ),
    "hadoop": SizeDistribution(
        "Hadoop at Facebook (Roy et al., SIGCOMM 2015); table of HPCC's simulations (Li et al., SIGCOMM 2019)",
        1,
        (
            (0, 0.0), (100, 0.01), (200, 0.02), (300, 0.05), (350, 0.15), (400, 0.2), (500, 0.3), (600, 0.4),
            (700, 0.5), (1000, 0.6), (2000, 0.67), (7000, 0.7), (30_000, 0.72), (50_000, 0.82), (80_000, 0.87),
            (120_000, 0.9), (300_000, 0.95), (1_000_000, 0.975), (2_000_000, 0.99), (10_000_000, 1.0),
        ),
    ),
}  # fmt: skip


def distribution_named(name: str, size_bytes: int) -> SizeDistribution:
    """A published distribution, or for `fixed` all of one size.

    Raises:
        PlanError: there is no such distribution.
    """
    if name == "fixed":
        return SizeDistribution("fixed", size_bytes, ((1, 0.0), (1, 1.0)), size_bytes)
    if name not in DISTRIBUTIONS:
        raise PlanError(f"there are no sizes named {name!r}; there are fixed, {', '.join(DISTRIBUTIONS)}")
    return DISTRIBUTIONS[name]


_EVEN = ("constant", "incast")
"""Patterns of equal gaps."""
BATCH = 4096
"""Messages that are drawn at once."""
S = TypeVar("S", int, IntArray)
_GRID = (np.arange(1 << 16) + 0.5) / (1 << 16)


@dataclass(frozen=True, slots=True)
class WireSize:
    """How payload becomes packets.

    Attributes:
        packet_bytes: payload of a full packet.
        per_packet, per_message: bytes on the wire beside the payload, of every packet and of every message.
    """

    packet_bytes: int
    per_packet: int
    per_message: int = 0

    def wire_bytes(self, size_bytes: S) -> S:
        """Bytes on the wire of a message of this size, or of each of several: without acknowledgements."""
        return size_bytes - (-size_bytes // self.packet_bytes) * self.per_packet + self.per_message


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The messages of one flow.

    Attributes:
        pattern: one of PATTERNS.
        sizes: a distribution, or `fixed`.
        size_bytes: of `fixed`.
        rate_bps: mean rate on the wire, bit/s.
        peak_bps: rate on the wire while an on-off flow is on, bit/s; above rate_bps.
        on_ns: mean of its on periods.
        wire: how payload becomes packets.
        seed: of the run and the flow: the same numbers give the same schedule.
    """

    pattern: str
    sizes: str
    size_bytes: int
    rate_bps: int
    peak_bps: int
    on_ns: int
    wire: WireSize
    seed: tuple[int, ...]

    @property
    def distribution(self) -> SizeDistribution:
        """Of the sizes."""
        return distribution_named(self.sizes, self.size_bytes)

    @property
    def mean_wire_bytes(self) -> float:
        """Of a message."""
        return float(np.mean(self.wire.wire_bytes(self.distribution.sizes(_GRID))))

    @property
    def mean_gap_ns(self) -> float:
        """Between two messages, at the mean rate."""
        return self.mean_wire_bytes * BITS_PER_BYTE * NS_PER_S / self.rate_bps

    @property
    def interval_ns(self) -> int | None:
        """Between two messages, if it is always the same."""
        is_even = self.sizes == "fixed" and self.pattern in _EVEN
        return round(self.mean_gap_ns) if is_even else None


@dataclass(frozen=True, slots=True)
class Batch:
    """Messages in the order in which they are due.

    Attributes:
        due_ns: int64, shape (n,), from the start of the traffic on.
        size_bytes: int64, shape (n,), payload.
    """

    due_ns: IntArray
    size_bytes: IntArray


def batches(schedule: Schedule) -> Iterator[Batch]:
    """The messages of a flow, without end."""
    # Gaps have a generator of their own: all patterns then draw the same sizes.
    gap_seed, size_seed = np.random.SeedSequence(list(schedule.seed)).spawn(2)
    draw_sizes, distribution = np.random.default_rng(size_seed), schedule.distribution
    next_times = PATTERNS[schedule.pattern](schedule, np.random.default_rng(gap_seed))
    while True:
        sizes = distribution.sizes(draw_sizes.random(BATCH))
        yield Batch(np.rint(next_times(sizes)).astype(np.int64), sizes)


_Times = Callable[[IntArray], FloatArray]
"""The times of the next messages, ns, for their sizes."""


def _poisson(schedule: Schedule, random: np.random.Generator) -> _Times:
    """Exponential gaps."""
    gap_ns = schedule.mean_gap_ns
    return _Running(lambda sizes: random.exponential(gap_ns, len(sizes))).after


def _constant(schedule: Schedule, random: np.random.Generator) -> _Times:
    """Equal gaps, from a random moment of the first one on: flows do not begin together."""
    gap_ns = schedule.mean_gap_ns
    return _Running(lambda sizes: np.full(len(sizes), gap_ns), start_ns=random.random() * gap_ns).before


def _incast(schedule: Schedule, random: np.random.Generator) -> _Times:
    """Equal gaps from the start on: all senders send at the same moments."""
    gap_ns = schedule.mean_gap_ns
    return _Running(lambda sizes: np.full(len(sizes), gap_ns)).before


def _on_off(schedule: Schedule, random: np.random.Generator) -> _Times:
    """Messages at the peak rate during on periods; on and off periods are exponential."""
    off_ns = schedule.on_ns * (schedule.peak_bps / schedule.rate_bps - 1)

    def gaps(sizes: IntArray) -> FloatArray:
        on_ns = schedule.wire.wire_bytes(sizes) * (BITS_PER_BYTE * NS_PER_S / schedule.peak_bps)  # not beyond 64 bits
        # On periods have no memory: a Poisson number of them ends before the next message.
        pauses = random.poisson(on_ns / schedule.on_ns)
        return np.asarray(on_ns + off_ns * random.standard_gamma(pauses), np.float64)

    return _Running(gaps, start_ns=random.exponential(off_ns)).before


class _Running:
    """Sums gaps from batch to batch."""

    def __init__(self, gaps: Callable[[IntArray], FloatArray], *, start_ns: float = 0.0) -> None:
        self._gaps, self._sum_ns = gaps, start_ns

    def after(self, sizes: IntArray) -> FloatArray:
        """Times after the gaps: the first message is due after the first gap."""
        times = self._sum_ns + np.cumsum(self._gaps(sizes))
        self._sum_ns = float(times[-1])
        return np.asarray(times, np.float64)

    def before(self, sizes: IntArray) -> FloatArray:
        """Times before the gaps: the first message is due at once."""
        start_ns, after = self._sum_ns, self.after(sizes)
        return np.concatenate(([start_ns], after[:-1]))


PATTERNS: Mapping[str, Callable[[Schedule, np.random.Generator], _Times]] = {
    "poisson": _poisson,
    "on-off": _on_off,
    "incast": _incast,
    "constant": _constant,
}
"""How messages follow each other."""


TRANSPORTS = ("roce", "tcp", "udp")
"""What carries background traffic."""
UDP_HEADER_BYTES, TCP_HEADER_BYTES = 32, 16
"""Of our own: before the payload of every datagram, and of every message on a TCP connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundTask:
    """One end of a flow.

    Attributes:
        is_sender: it sends; else it receives.
        transport: one of TRANSPORTS.
        address, peer_address: numeric IP addresses of this end and of the other one.
        port: where the receiver listens, for TCP and UDP.
        tag: random; both ends know it, packets of other runs do not carry it. RoCE makes its numbers and key from it.
        schedule: of the messages.
        options: of the software NIC; its DSCP holds for all transports.
        port_rate_bps: of the sender's port; None: not specified.
    """

    is_sender: bool
    transport: str
    address: str
    peer_address: str
    port: int
    tag: int
    schedule: Schedule
    options: RoceOptions
    port_rate_bps: int | None = None
