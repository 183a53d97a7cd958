"""The bandwidth of every pair of ports, from a run in which every rank sent to every other one, and what is slow.

A slow port lowers every pair that uses it in one direction. A slow link between two good ports lowers one pair only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from statistics import fmean, median, median_high
from typing import Any

import numpy as np

from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.schema import RunTable
from emulator.results.statistics.samples.collectives import MERGE_COLUMNS, merge
from emulator.results.statistics.samples.measured_rows import read_measured, to_ints
from emulator.results.statistics.worst.worst_flows import ports_of_ranks
from emulator.trace.meaning.model import CommKind
from emulator.units import BITS_PER_BYTE, NS_PER_S

SLOW_BELOW = 0.9
"""Share of the median bandwidth below which a pair or a port is slow."""

Bandwidths = Mapping[tuple[str, str], float]
"""Source and destination port → bit/s."""


class Direction(StrEnum):
    """Whether a port is slow when it sends or when it receives."""

    SEND = "send"
    RECEIVE = "receive"


@dataclass(frozen=True, slots=True)
class SlowPort:
    """A port whose pairs are slow in one direction. Bandwidths are medians, in bit/s."""

    port: str
    direction: Direction
    bits_per_s: float
    others_bits_per_s: float


@dataclass(frozen=True, slots=True)
class SlowPair:
    """A slow pair of ports, neither of which is slow with others. Bandwidths are in bit/s; others: the median."""

    source: str
    destination: str
    bits_per_s: float
    others_bits_per_s: float


@dataclass(frozen=True, slots=True)
class Slow:
    """What is slow, slowest first."""

    ports: tuple[SlowPort, ...] = ()
    pairs: tuple[SlowPair, ...] = ()


def find_slow(usual: Bandwidths, best: Bandwidths | None = None) -> Slow:
    """Name the slow ports and pairs.

    The port with the lowest mean is named first; its pairs in that direction are then set aside, so that it does not
    make the ports it talks to look slow. A port with one pair in a direction cannot be told from the pair: the pair is
    named. A pair with a named port at either end is not named: what a port receives slowly holds up the
    acknowledgements of what it sends, and the other way round. What is named is slow even at its best against what is
    usual for the others, so that nothing is named for what the tester did to single transfers.

    Args:
        usual: bit/s by (source port, destination port).
        best: the most that each of these pairs can have had, bit/s; none: the same.
    """
    left, best = dict(usual), best or usual
    ports: list[SlowPort] = []
    while (slowest := _slowest_port(left, best)) is not None:
        ports.append(slowest)
        left = {pair: rate for pair, rate in left.items() if _end(pair, slowest.direction) != slowest.port}
    named = {port.port for port in ports}
    left = {pair: rate for pair, rate in left.items() if named.isdisjoint(pair)}
    if not left:
        return Slow(tuple(ports), ())
    others = median(left.values())
    pairs = [SlowPair(*pair, rate, others) for pair, rate in left.items() if best[pair] < SLOW_BELOW * others]
    return Slow(tuple(ports), tuple(sorted(pairs, key=lambda pair: pair.bits_per_s)))


def _slowest_port(usual: Bandwidths, best: Bandwidths) -> SlowPort | None:
    candidates: list[tuple[float, SlowPort]] = []
    for direction in Direction:
        by_port: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for pair in usual:
            by_port[_end(pair, direction)].append(pair)
        for port, pairs in by_port.items():
            rates = [usual[pair] for pair in pairs]
            others = [rate for pair, rate in usual.items() if _end(pair, direction) != port]
            # The higher median: one slow pair of two does not make the port slow.
            at_best = median_high([best[pair] for pair in pairs])
            if len(rates) > 1 and others and at_best < SLOW_BELOW * median(others):
                candidates.append((fmean(rates), SlowPort(port, direction, median(rates), median(others))))
    # The lowest mean: where several receivers are slow, most pairs of a good sender are, but not all of them.
    return min(candidates, key=lambda candidate: candidate[0], default=(0.0, None))[1]


def _end(pair: tuple[str, str], direction: Direction) -> str:
    return pair[0] if direction is Direction.SEND else pair[1]


@dataclass(frozen=True, slots=True)
class PairTable:
    """A sweep over pairs.

    Attributes:
        ports: `host:interface`, or `rank N` where the topology names none; in the order of the ranks.
        transfers: measurements.
        bits_per_s: (source, destination) → payload bandwidth of the median transfer, bit/s; pairs within a host and
            pairs that were not played are missing.
        slow: ports and pairs that are far below the others even at their best; nothing on one host.
        is_one_host: all ranks are on one host: nothing crossed a network.
    """

    ports: Sequence[str]
    size_bytes: int
    transfers: int
    bits_per_s: Mapping[tuple[str, str], float]
    slow: Slow
    is_one_host: bool

    def to_json(self) -> dict[str, Any]:
        """The table for programs."""
        return {
            "ports": list(self.ports),
            "size_bytes": self.size_bytes,
            "transfers": self.transfers,
            "is_one_host": self.is_one_host,
            "pairs": [
                {"source": source, "destination": destination, "bits_per_s": rate}
                for (source, destination), rate in self.bits_per_s.items()
            ],
            "slow_ports": [asdict(port) for port in self.slow.ports],
            "slow_pairs": [asdict(pair) for pair in self.slow.pairs],
        }


def pair_table(run: Run, *, size_bytes: int) -> PairTable:
    """Summarise a sweep over pairs. The time of a transfer runs from the post of the send to the last byte's arrival.

    Args:
        run: of a workload of `emulator.trace.synthetic.sweep`.

    Raises:
        ResultError: the samples are missing or damaged.
    """
    hosts: Sequence[int] = run.manifest.topology.get("host_index") or ()
    samples = read_measured(run, RunTable.SAMPLES, [*MERGE_COLUMNS, "peer"])
    merged = merge(samples, hosts, until=run.manifest.cct_until)
    is_send = np.array([kind == CommKind.SEND.label for kind in samples["kind"].to_pylist()], np.bool_)
    instances = to_ints(samples["instance"])[is_send].tolist()
    ends = zip(to_ints(samples["rank"])[is_send].tolist(), to_ints(samples["peer"])[is_send].tolist(), strict=True)
    pair_of = dict(zip(instances, ends, strict=True))
    ports = ports_of_ranks(run.manifest)
    names = [ports.get(rank, f"rank {rank}") for rank in range(run.manifest.trace.ranks)]
    times: dict[tuple[str, str], list[int]] = defaultdict(list)
    shortest: dict[tuple[str, str], tuple[int, int]] = {}
    counted = (merged.kind == CommKind.SEND) & (merged.cct_ns > 0)
    if merged.has_hosts and len(set(hosts)) > 1:
        counted &= merged.between_hosts
    # Waits of both ends for a core are no time of the device, however often they come.
    own_ns = np.maximum(merged.core_wait_ns, 0)
    columns = (merged.instance[counted], merged.cct_ns[counted], own_ns[counted])
    for instance, cct_ns, waited_ns in zip(*(column.tolist() for column in columns), strict=True):
        source, destination = pair_of[instance]
        pair = names[source], names[destination]
        times[pair].append(cct_ns)
        shortest[pair] = min(shortest.get(pair, (cct_ns, waited_ns)), (cct_ns, waited_ns))
    bits = size_bytes * BITS_PER_BYTE * NS_PER_S
    rates = {pair: bits / float(np.median(values)) for pair, values in sorted(times.items())}
    best = {pair: bits / max(cct_ns - waited_ns, 1) for pair, (cct_ns, waited_ns) in shortest.items()}
    is_one_host = len(set(hosts)) < 2
    return PairTable(
        ports=list(dict.fromkeys(names)),
        size_bytes=size_bytes,
        transfers=int(counted.sum()),
        bits_per_s=rates,
        slow=Slow() if is_one_host else find_slow(rates, best),
        is_one_host=is_one_host,
    )
