"""One row per class of collectives: bandwidths, completion times, comparison with ideal and trace.

Bandwidths come from the median time of the measurements that have a bandwidth. Those whose payload arrived before a
post, and those with a time of zero or less, are counted but have none. Where a rank was late, they are of the bytes
that had still to move after its post; measurements for which that is not known have none either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from emulator.results.statistics.method.descriptive import median, percentile
from emulator.results.statistics.method.nccl_conventions import busbw_factor
from emulator.results.statistics.samples.classes import ClassKey, class_rows
from emulator.results.statistics.samples.collectives import STAMP_ERROR_NS, MergedSamples
from emulator.results.statistics.samples.measured_rows import UNKNOWN
from emulator.results.statistics.samples.transfers import FloatArray
from emulator.results.statistics.tester_model import (
    MOST_CORE_WAIT,
    SLOWEST_TESTER,
    TESTER_LIMITED_PERCENT,
    TesterShare,
)
from emulator.results.statistics.uncertainty import Budget, Sources, repeat_of
from emulator.trace.meaning.model import CommKind, IntArray
from emulator.units import NS_PER_S

MOST_OTHERS = 0.05
"""Payload of others at its ports, relative to its own, up to which a collective is taken to be alone there."""
LOSSES_THAT_COUNT = 4.0
"""Packets lost in a collective from which on their repair, rather than a tester without cores, makes it slow."""
MOST_BURST_PERCENT = 130.0
"""Ideal time / the network's part in percent, up to which a burst through the switch can explain the difference."""


@dataclass(frozen=True, slots=True)
class NetworkPart:
    """What a class would have shown had the tester taken no time: of the part of cct that the network had.

    Attributes have the names that ClassSummary has for the whole time.

    Attributes:
        at_best: the same less what the tester may have added to that part, but no less than the ideal time: late time
            stamps, and, where packets were lost, its ports stood idle although something was in line. Where none were
            lost, waits for a core: all of them for a tail, and where agents waited much; else, at the median, the share
            that this part has in the time. No less either than what a port takes at the pace at which it passed on most
            of the bytes: the tester's waits leave gaps, and do not slow what comes between them.
        perfect: of a perfect device to which the tester had added that, if `at_best` does not follow from the pace of a
            port; None: the ideal time is not known.
        uncertainty: attribute → its budget.
    """

    cct_p50_ns: float
    cct_p99_ns: float | None
    cct_max_ns: float
    algbw_bytes_per_s: float | None
    busbw_bytes_per_s: float | None
    busbw_mean_bytes_per_s: float | None
    ideal_percent: float | None
    at_best: NetworkPart | None = None
    perfect: NetworkPart | None = None
    uncertainty: Mapping[str, Budget] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """The chain went through the ports: one of a starved tester can go around what the ideal time is about."""
        return self.ideal_percent is None or self.ideal_percent <= MOST_BURST_PERCENT


@dataclass(frozen=True, slots=True)
class ClassSummary:
    """One row of the table of a run. The table shows None as a dash.

    Attributes:
        collective: kind of communication; `send_recv` for pairs.
        size_bytes: as nccl-tests counts it.
        algorithm: "" for send and receive.
        count: collectives of this class in one iteration.
        samples: measurements behind the percentiles.
        algbw_bytes_per_s, busbw_bytes_per_s: at the median time of the measurements that have a bandwidth.
        busbw_mean_bytes_per_s: at the mean time of the same measurements, as nccl-tests has it.
        ideal_percent: 100 x ideal / measured, at the median; ideal is of what had still to move after the last post.
        cct_p50_ns, cct_p99_ns, cct_max_ns: of all measurements that are not negative.
        skew_p50_ns: median of last post - first post.
        traced_ns: median over collectives of the shortest duration that the trace recorded for a member.
        bw_ratio: measured bandwidth / traced bandwidth, at the median.
        slowest_to_mean: completion of the slowest member / mean over the members, from the last post on; median.
        where: between hosts or in a host, see ClassKey.
        late: measurements without a bandwidth because a rank was late.
        core_wait_fraction: median of the largest share (0 to 1) of its time that a member's agent waited for a core.
        cct_p99_without_waits_ns, cct_max_without_waits_ns: of the same times less all waits of the members for a core.
        others: payload of other collectives at its ports while it was under way / its own, at the median.
        tester_percent: share of the tester in the time, at the median: measured where the network's part is known, else
            100 x time that the calibrated tester adds to the ideal time / measured.
        network: the part of the network; None: not known, see NetworkPart.
        uncertainty: attribute → its budget: of the median cct and of what follows from it.
    """

    collective: str
    members: int
    size_bytes: int
    algorithm: str
    count: int
    samples: int
    algbw_bytes_per_s: float | None
    busbw_bytes_per_s: float | None
    ideal_percent: float | None
    cct_p50_ns: float | None
    cct_p99_ns: float | None
    cct_max_ns: float | None
    skew_p50_ns: float | None
    traced_ns: float | None
    bw_ratio: float | None
    tester_percent: float | None = None
    slowest_to_mean: float | None = None
    where: str = ""
    late: int = 0
    busbw_mean_bytes_per_s: float | None = None
    core_wait_fraction: float | None = None
    cct_p99_without_waits_ns: float | None = None
    cct_max_without_waits_ns: float | None = None
    others: float = 0.0
    network: NetworkPart | None = None
    uncertainty: Mapping[str, Budget] = field(default_factory=dict)

    @property
    def network_p50_ns(self) -> float | None:
        """Median of the network's part of cct."""
        return None if self.network is None else self.network.cct_p50_ns

    @property
    def network_busbw_bytes_per_s(self) -> float | None:
        """Bus bandwidth at the median of the network's part."""
        return None if self.network is None else self.network.busbw_bytes_per_s

    @property
    def network_ideal_percent(self) -> float | None:
        """100 x ideal / the network's part, at the median."""
        return None if self.network is None else self.network.ideal_percent

    @property
    def key(self) -> ClassKey:
        """Its class."""
        return ClassKey(self.collective, self.members, self.size_bytes, self.algorithm, self.where)

    @property
    def is_tester_limited(self) -> bool | None:
        """Whether the tester rather than the device set this time; None if the tester was not calibrated."""
        return None if self.tester_percent is None else self.tester_percent >= TESTER_LIMITED_PERCENT

    @property
    def shares_ports(self) -> bool:
        """Others crossed the same ports at the same time, and the ideal is that of the class alone."""
        return self.others > MOST_OTHERS

    @property
    def perfect(self) -> Mapping[str, float]:
        """Attribute → what a perfect device would have shown with this tester; empty if that is not known.

        The times of the network and of the tester add up. What a calibrated tester needs is taken to be that on a busy
        host; where it was measured, it is what it is.
        """
        if not self.tester_percent or not self.cct_p50_ns or self.shares_ports:
            return {}
        if self.late and not self.ideal_percent:
            return {}  # without the ideal of late ranks, a time would be compared with that of the tester alone
        slower = SLOWEST_TESTER if self.network is None else 1.0
        share = ((self.ideal_percent or 0.0) + slower * self.tester_percent) / 100
        found = dict.fromkeys(("cct_p50_ns", "cct_p99_ns", "cct_max_ns"), self.cct_p50_ns * share)
        for name in ("algbw_bytes_per_s", "busbw_bytes_per_s", "ideal_percent"):
            if value := getattr(self, name):
                found[name] = value / share
        if self.ideal_percent:
            found["slowest_to_mean"] = 100 * share / self.ideal_percent
        return found

    def without_waits(self, name: str) -> float | None:
        """What a time or bandwidth would have been without the waits for a core, by the name of its attribute.

        Where the waits are not known, a 99th percentile or maximum would have been the median; others are not known.
        """
        value: float | None = getattr(self, name)
        waited = self.core_wait_fraction
        if name in ("cct_p99_ns", "cct_max_ns"):
            less_ns = self.cct_p99_without_waits_ns if name == "cct_p99_ns" else self.cct_max_without_waits_ns
            return self.cct_p50_ns if less_ns is None else less_ns
        if value is None or waited is None or name == "slowest_to_mean":
            return None
        return value * (1 - waited) if name.startswith("cct") else value / max(1 - waited, 1e-9)

    @property
    def total_ns(self) -> float:
        """Time per iteration if the collectives ran one after another; sorts the table."""
        return (self.cct_p50_ns or 0.0) * self.count


def summarise_classes(
    merged: MergedSamples,
    *,
    scaled_by: float = 1.0,
    tester: TesterShare | None = None,
    others: FloatArray | None = None,
    lost: int = 0,
    sources: Sources | None = None,
) -> tuple[ClassSummary, ...]:
    """The classes of a run, the one that takes most time first.

    Args:
        scaled_by: played sizes over sizes of the trace.
        tester: share of the calibrated tester in these measurements.
        others: see `other_payload`.
        lost: packets that were lost.
        sources: of uncertainty; None: it is not worked out.
    """
    payload = np.maximum(merged.size_bytes, 1).astype(np.float64)
    losses = lost * payload / max(float(payload.sum()), 1.0)  # of each collective, as many as its payload suggests
    others = np.zeros(len(merged)) if others is None else others
    rows = [
        _summarise(key, merged, chosen, scaled_by, tester, others, losses, sources)
        for key, chosen in class_rows(merged)
    ]
    return tuple(sorted(rows, key=lambda row: (-row.total_ns, row.collective, row.members, row.size_bytes)))


def bandwidth(size_bytes: int, duration_ns: float | None) -> float | None:
    """Bytes per second; None without a duration."""
    return size_bytes * NS_PER_S / duration_ns if duration_ns else None


def _summarise(
    key: ClassKey,
    merged: MergedSamples,
    rows: IntArray,
    scaled_by: float,
    tester: TesterShare | None,
    others: FloatArray,
    losses: FloatArray,
    sources: Sources | None,
) -> ClassSummary:
    kind = CommKind(int(merged.kind[rows[0]]))
    cct_ns = merged.cct_ns[rows]
    valid_ns = cct_ns[cct_ns >= 0]
    factor = busbw_factor(kind, members=key.members)
    has_bandwidth = (cct_ns > 0) & ~merged.early[rows] & (key.size_bytes > 0) & (factor is not None)
    timed = merged.comparable(rows[has_bandwidth])
    measured = _Measured(key, merged, rows[cct_ns >= 0], timed, factor, sources)
    network, measured_percent = _network(measured, losses)
    whole_ns = merged.whole_ns[timed]
    algbw = bandwidth(key.size_bytes, median(whole_ns))
    mean_algbw = bandwidth(key.size_bytes, float(whole_ns.mean()) if len(timed) else None)
    ideal = _median_ratio(merged.ideal_ns, merged.cct_ns, timed)
    ratio = _median_ratio(merged.traced_ns, merged.cct_ns, timed)
    waited = merged.core_wait_fraction[rows[cct_ns >= 0]]
    are_known = len(valid_ns) > 0 and not np.isnan(waited).any()
    without_waits_ns = np.maximum(valid_ns - merged.core_wait_ns[rows[cct_ns >= 0]], 0) if are_known else valid_ns[:0]
    found = ClassSummary(
        collective=key.collective,
        members=key.members,
        size_bytes=key.size_bytes,
        algorithm=key.algorithm,
        count=len(np.unique(merged.instance[rows])),
        samples=len(valid_ns),
        algbw_bytes_per_s=algbw,
        busbw_bytes_per_s=None if algbw is None or factor is None else algbw * factor,
        ideal_percent=None if ideal is None else 100 * ideal,
        cct_p50_ns=median(valid_ns),
        cct_p99_ns=percentile(valid_ns, 0.99),
        cct_max_ns=float(valid_ns.max()) if len(valid_ns) else None,
        skew_p50_ns=median(merged.skew_ns[rows]),
        traced_ns=_median_traced(merged, rows),
        bw_ratio=None if ratio is None else ratio * scaled_by,
        slowest_to_mean=_slowest_to_mean(merged, rows),
        where=key.where,
        late=int(np.count_nonzero(has_bandwidth & merged.is_late[rows])),
        tester_percent=_share(tester, rows, kind, key.algorithm) if network is None else measured_percent,
        network=network,
        others=median(others[rows]) or 0.0,
        core_wait_fraction=median(waited) if are_known else None,
        cct_p99_without_waits_ns=percentile(without_waits_ns, 0.99),
        cct_max_without_waits_ns=float(without_waits_ns.max()) if are_known else None,
        busbw_mean_bytes_per_s=None if mean_algbw is None or factor is None else mean_algbw * factor,
    )
    if network is not None:
        measured = measured.stamped()
    budgets = _budgets(found, measured, merged.cct_ns)
    if network is not None and (of_network := network.uncertainty.get("cct_p50_ns")):
        budgets["network_p50_ns"] = of_network
    return replace(found, uncertainty=budgets)


@dataclass(frozen=True, slots=True)
class _Measured:
    """The measurements of a class.

    Attributes:
        rows: of `merged`.
        timed: those that have a bandwidth.
        factor: of the bus bandwidth.
        sources: of uncertainty; None: it is not worked out.
    """

    key: ClassKey
    merged: MergedSamples
    rows: IntArray
    timed: IntArray
    factor: float | None
    sources: Sources | None

    def stamped(self, bound_ns: float = STAMP_ERROR_NS) -> _Measured:
        """With stamps of the kernel, at most so much late."""
        return self if self.sources is None else replace(self, sources=self.sources.stamped(bound_ns))

    def whole_ns(self, part_ns: IntArray) -> FloatArray:
        """What all bytes would have taken at the speed of those that moved in a part of cct."""
        return np.asarray((self.merged.whole_ns / np.maximum(self.merged.cct_ns, 1) * part_ns)[self.timed], np.float64)


def _budgets(found: ClassSummary | NetworkPart, of: _Measured, part_ns: IntArray) -> dict[str, Budget]:
    """The budgets of a class, or of a part of its times."""
    if of.sources is None:
        return {}
    iteration, whole_ns = of.merged.iteration, of.whole_ns(part_ns)
    by_time = repeat_of(part_ns[of.rows], iteration[of.rows])
    is_same = len(of.timed) == len(of.rows) and np.allclose(whole_ns, part_ns[of.rows], rtol=1e-9)
    names = ("cct_p50_ns", "algbw_bytes_per_s", "busbw_bytes_per_s", "ideal_percent")
    return of.sources.budgets(
        {name: getattr(found, name) for name in names},
        found.cct_p50_ns,
        by_time=by_time,
        by_rate=by_time if is_same else repeat_of(whole_ns, iteration[of.timed]),
        tester_percent=found.tester_percent if isinstance(found, ClassSummary) else None,
    )


def _share(tester: TesterShare | None, rows: IntArray, kind: CommKind, algorithm: str) -> float | None:
    return None if tester is None else tester.percent(rows, kind=kind, algorithm=algorithm)


def _network(of: _Measured, losses: FloatArray) -> tuple[NetworkPart | None, float | None]:
    """The network's part of a class, and the share of the tester in percent; None if less than half of it is known.

    Args:
        of: the class.
        losses: packets lost in each collective, about.
    """
    merged = of.merged
    known = of.rows[(merged.network_ns[of.rows] > 0) & (merged.cct_ns[of.rows] > 0)]
    if 2 * len(known) < len(of.rows) or not len(known):
        return None, None
    of = replace(of, rows=known, timed=of.timed[merged.network_ns[of.timed] > 0])
    # A wait for a core while a loss is repaired would have cost nothing had nothing been lost.
    waited_ns = np.where(losses >= LOSSES_THAT_COUNT, 0, np.maximum(merged.core_wait_ns, 0))
    at_best, perfect = _without_tester(of, waited_ns)
    shares = np.minimum(merged.network_ns / np.maximum(merged.cct_ns, 1), 1.0)
    if (median(merged.core_wait_fraction[known]) or 0.0) <= MOST_CORE_WAIT:
        # Waits as they come, of which most fall into the tester's own part. A tail can be one that did not.
        tails = at_best, perfect
        evenly = _without_tester(of, (waited_ns * shares).astype(np.int64))
        at_best, perfect = (_with_tails(*both) for both in zip(evenly, tails, strict=True))
    part = _part(of.stamped(float(median(merged.stamp_error_ns[known]) or 0)), merged.network_ns)
    return replace(part, at_best=at_best, perfect=perfect), 100 * float(np.median(1 - shares[known]))


def _without_tester(of: _Measured, waited_ns: IntArray) -> tuple[NetworkPart | None, NetworkPart | None]:
    """`NetworkPart.at_best` and `.perfect`, if the tester's waits for a core added so much to each collective."""
    merged = of.merged
    error_ns = np.maximum(np.maximum(merged.stalled_ns, 0), waited_ns) + merged.stamp_error_ns
    fastest_ns = np.clip(merged.ideal_ns, 1, np.maximum(merged.network_ns, 1))
    least_ns = np.maximum(merged.network_ns - error_ns, 0)
    port_ns = np.minimum(merged.port_ns, merged.network_ns)
    of = of.stamped(0.0)  # what stamps may be late by is off already
    at_best = _part(of, np.maximum(np.maximum(least_ns, port_ns), fastest_ns))
    if not np.all(merged.ideal_ns[of.rows] > 0):
        return at_best, None
    perfect_ns = merged.ideal_ns + np.where(port_ns > least_ns, 0, error_ns)
    return at_best, _part(replace(of, sources=None), perfect_ns)


def _with_tails(part: NetworkPart | None, tails: NetworkPart | None) -> NetworkPart | None:
    if part is None or tails is None:
        return part
    return replace(part, cct_p99_ns=tails.cct_p99_ns, cct_max_ns=tails.cct_max_ns)


def _part(of: _Measured, part_ns: IntArray) -> NetworkPart:
    size_bytes, factor, whole_ns = of.key.size_bytes, of.factor, of.whole_ns(part_ns)
    algbw = bandwidth(size_bytes, median(whole_ns))
    mean = bandwidth(size_bytes, float(whole_ns.mean()) if len(of.timed) else None)
    ideal = _median_ratio(of.merged.ideal_ns, part_ns, of.timed)
    part = NetworkPart(
        cct_p50_ns=median(part_ns[of.rows]) or 0.0,
        cct_p99_ns=percentile(part_ns[of.rows], 0.99),
        cct_max_ns=float(part_ns[of.rows].max()),
        algbw_bytes_per_s=algbw,
        busbw_bytes_per_s=None if algbw is None or factor is None else algbw * factor,
        busbw_mean_bytes_per_s=None if mean is None or factor is None else mean * factor,
        ideal_percent=None if ideal is None else 100 * ideal,
    )
    return replace(part, uncertainty=_budgets(part, of, part_ns))


def _median_ratio(reference_ns: IntArray, measured_ns: IntArray, rows: IntArray) -> float | None:
    """Reference over measured at the lower median of measured / reference."""
    known = rows[reference_ns[rows] > 0]
    slowdown = median(measured_ns[known] / reference_ns[known])
    return 1 / slowdown if slowdown else None


def _slowest_to_mean(merged: MergedSamples, rows: IntArray) -> float | None:
    valid = rows[(merged.mean_ns[rows] > 0) & ~merged.early[rows] & merged.had_all_to_move[rows]]
    return median(merged.cct_ns[valid] / merged.mean_ns[valid])


def _median_traced(merged: MergedSamples, rows: IntArray) -> float | None:
    """Each collective of the trace counts once, however many iterations measured it."""
    _, first = np.unique(merged.instance[rows], return_index=True)
    traced = merged.traced_ns[rows[first]]
    return median(traced[traced != UNKNOWN])
