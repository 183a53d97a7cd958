"""BMWG's roofline of an iteration: compute and communication one after the other, as if nothing overlapped."""

from __future__ import annotations

from fractions import Fraction

from emulator.statistics.collectives import busbw_factor, nccl_size
from emulator.topology.model import Topology
from emulator.trace.model import RankProgram, Workload
from emulator.units import BITS_PER_BYTE, NS_PER_S


def sequential_roofline_ns(workload: Workload, topology: Topology) -> int | None:
    """C + 8 · S · factor / rate of the rank where it is largest, ns; None if a port has no rate.

    C is the rank's compute time, S the size of each of its communications as nccl-tests counts it, factor that of bus
    bandwidth (1 for send and receive), rate that of its port.

    Source: draft-calabria-bmwg-ai-fabric-training-bench, JCT ratio.
    """
    rates = [topology.rate_bps(rank) for rank in range(len(workload.programs))]
    if not rates or None in rates:
        return None
    return max(
        int(program.duration_ns.sum()) + round(_bus_bytes(program, workload) * BITS_PER_BYTE * NS_PER_S / (rate or 1))
        for program, rate in zip(workload.programs, rates, strict=True)
    )


def _bus_bytes(program: RankProgram, workload: Workload) -> Fraction:
    total = Fraction(0)
    for node in program.communications.values():
        members = len(workload.groups[node.group])
        if not node.kind.is_collective:
            total += node.size_bytes
        elif members > 1:
            factor = busbw_factor(node.kind, members=members)
            size = nccl_size(node.kind, size_bytes=node.size_bytes, members=members)
            total += Fraction(factor or 0) * size
    return total
