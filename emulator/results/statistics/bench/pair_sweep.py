"""The bandwidth of every pair of ports, from a run in which every rank sent to every other one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.schema import RunTable
from emulator.results.statistics.bench.pair_bandwidths import Slow, find_slow
from emulator.results.statistics.samples.collectives import MERGE_COLUMNS, merge
from emulator.results.statistics.samples.measured_rows import read_measured
from emulator.results.statistics.samples.table_columns import to_ints
from emulator.results.statistics.worst.worst_flows import ports_of_ranks
from emulator.trace.meaning.model import CommKind
from emulator.units import BITS_PER_BYTE, NS_PER_S


@dataclass(frozen=True, slots=True)
class PairTable:
    """A sweep over pairs.

    Attributes:
        ports: `host:interface`, or `rank N` where the topology names none; in the order of the ranks.
        transfers: measurements.
        bits_per_s: (source, destination) → payload bandwidth of the median transfer, bit/s; pairs within a host and
            pairs that were not played are missing.
        slow: ports and pairs that are far below the others, at the median and at their best; nothing on one host.
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
        run: of a workload of `emulator.trace.synthetic.pair_sweep`.

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
    counted = (merged.kind == CommKind.SEND) & (merged.cct_ns > 0)
    if merged.has_hosts and len(set(hosts)) > 1:
        counted &= merged.between_hosts
    for instance, cct_ns in zip(merged.instance[counted].tolist(), merged.cct_ns[counted].tolist(), strict=True):
        source, destination = pair_of[instance]
        times[names[source], names[destination]].append(cct_ns)
    bits = size_bytes * BITS_PER_BYTE * NS_PER_S
    rates = {pair: bits / float(np.median(values)) for pair, values in sorted(times.items())}
    best = {pair: bits / min(values) for pair, values in times.items()}
    is_one_host = len(set(hosts)) < 2
    return PairTable(
        ports=list(dict.fromkeys(names)),
        size_bytes=size_bytes,
        transfers=int(counted.sum()),
        bits_per_s=rates,
        slow=Slow() if is_one_host else _in_both(find_slow(rates), find_slow(best)),
        is_one_host=is_one_host,
    )


def _in_both(usual: Slow, best: Slow) -> Slow:
    """What is slow at the median and at its best too: an interruption of this machine slows single transfers."""
    ports = {(port.port, port.direction) for port in best.ports}
    pairs = {(pair.source, pair.destination) for pair in best.pairs}
    return Slow(
        tuple(port for port in usual.ports if (port.port, port.direction) in ports),
        tuple(pair for pair in usual.pairs if (pair.source, pair.destination) in pairs),
    )
