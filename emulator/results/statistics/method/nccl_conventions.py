"""Sizes, element counts and bus bandwidth as nccl-tests defines them, and the sequential roofline made of them.

The sequential roofline of an iteration is compute and communication one after the other, without overlap.

Source: nccl-tests, doc/PERFORMANCE.md; draft-calabria-bmwg-ai-fabric-training-bench, JCT ratio.
"""

from __future__ import annotations

from fractions import Fraction

from emulator.topology.model import Topology
from emulator.trace.meaning.model import CommKind, RankProgram, Workload
from emulator.units import BITS_PER_BYTE, NS_PER_S

_BUSBW_FACTORS = {
    CommKind.ALL_REDUCE: 2.0,
    CommKind.ALL_GATHER: 1.0,
    CommKind.REDUCE_SCATTER: 1.0,
    CommKind.REDUCE_SCATTER_BLOCK: 1.0,
    CommKind.ALL_TO_ALL: 1.0,
    CommKind.GATHER: 1.0,
    CommKind.SCATTER: 1.0,
}
"""Multiplied by (members - 1) / members."""
_STORAGE = (CommKind.STORAGE_WRITE, CommKind.STORAGE_READ)
_UNCORRECTED = (CommKind.BROADCAST, CommKind.REDUCE, CommKind.SEND, CommKind.RECV, *_STORAGE)
"""Bus bandwidth equals algorithm bandwidth."""
SIZED_BY_SHARD = (CommKind.ALL_GATHER, CommKind.GATHER)
"""Chakra's comm_size is the shard of one rank, nccl-tests' size is the whole array."""
_COUNTED_BY_PART = (
    CommKind.ALL_GATHER,
    CommKind.REDUCE_SCATTER,
    CommKind.REDUCE_SCATTER_BLOCK,
    CommKind.ALL_TO_ALL,
    CommKind.GATHER,
    CommKind.SCATTER,
)
_ROOTED = (CommKind.BROADCAST, CommKind.REDUCE, CommKind.GATHER, CommKind.SCATTER)


def nccl_size(kind: CommKind, *, size_bytes: int, members: int) -> int:
    """Size of a collective as nccl-tests counts it, bytes.

    Args:
        size_bytes: Chakra's comm_size: input bytes per rank.
    """
    return size_bytes * members if kind in SIZED_BY_SHARD else size_bytes


def busbw_factor(kind: CommKind, *, members: int) -> float | None:
    """Bus bandwidth over algorithm bandwidth; None for a barrier or a group of one, which have neither."""
    if (members < 2 and kind not in _STORAGE) or kind is CommKind.BARRIER:
        return None
    return 1.0 if kind in _UNCORRECTED else _BUSBW_FACTORS[kind] * (members - 1) / members


def root_of(kind: CommKind) -> int:
    """Rank printed as the root: 0, or -1 for a collective without a root."""
    return 0 if kind in _ROOTED else -1


def count_elements(kind: CommKind, *, size_bytes: int, members: int) -> int:
    """Elements of one byte: of the whole array, or of the part of one rank if the array consists of such parts."""
    return size_bytes // members if kind in _COUNTED_BY_PART else size_bytes


def sequential_roofline_ns(workload: Workload, topology: Topology) -> int | None:
    """The largest C + 8 · S · f / rate of all ranks, ns; None if a port has no rate, or a rank is in a scale-up domain.

    C is the compute time of the rank, S the nccl-tests size of each of its communications, f their bus bandwidth factor
    (1 for send and receive), and rate that of its port in bits per second. The formula does not know of a second way
    out of a rank.
    """
    rates = [topology.rate_bps(rank) for rank in range(len(workload.programs))]
    if not rates or None in rates or any(topology.domain_of(rank) is not None for rank in range(len(rates))):
        return None
    return max(
        int(program.duration_ns.sum()) + round(_bus_bytes(program, workload) * BITS_PER_BYTE * NS_PER_S / (rate or 1))
        for program, rate in zip(workload.programs, rates, strict=True)
    )


def _bus_bytes(program: RankProgram, workload: Workload) -> Fraction:
    """Sum of S · f over the communications of a rank."""
    total = Fraction(0)
    for node in program.communications.values():
        members = len(workload.groups[node.group]) if node.kind.is_collective else node.kind.rows
        factor = busbw_factor(node.kind, members=members)
        total += Fraction(factor or 0) * nccl_size(node.kind, size_bytes=node.size_bytes, members=members)
    return total
