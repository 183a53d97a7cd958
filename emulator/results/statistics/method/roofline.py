"""Sequential roofline of an iteration: compute and communication one after the other, without overlap.

Source: draft-calabria-bmwg-ai-fabric-training-bench, JCT ratio.
"""

from __future__ import annotations

from fractions import Fraction

from emulator.results.statistics.method.nccl_conventions import busbw_factor, nccl_size
from emulator.topology.model import Topology
from emulator.trace.meaning.model import RankProgram, Workload
from emulator.units import BITS_PER_BYTE, NS_PER_S


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
