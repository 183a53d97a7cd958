"""From the traces of all ranks to a workload that is proven to finish."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from emulator.errors import TraceError
from emulator.trace.meaning.groups import GroupTable
from emulator.trace.meaning.meaning import Interpreter, Meaning, TraceOptions
from emulator.trace.meaning.model import RankTrace, Workload
from emulator.trace.meaning.order import RankOrder, canonical_order
from emulator.trace.meaning.pairing import pair
from emulator.trace.meaning.program import check_durations, oddities, rank_program
from emulator.trace.meaning.proof import prove

__all__ = ["TraceOptions", "build_workload", "split_traces"]


def build_workload(
    traces: Sequence[RankTrace],
    *,
    groups: Mapping[str, Sequence[int]] | None = None,
    options: TraceOptions | None = None,
    only: int | None = None,
) -> Workload:
    """Settle what a trace set means, split it into one program per rank, and prove that playing it ends.

    Args:
        traces: one per rank, in any order.
        groups: the content of a group file: name → world ranks.
        options: how to take the trace; the defaults take it as it is, strictly.
        only: the one rank that was recorded; the traces of the others are empty.

    Raises:
        TraceError: it cannot be played; names file, node or rank. docs/traces.md lists what can be wrong.
    """
    unproven = split_traces(traces, groups=groups, options=options or TraceOptions(), only=only)
    window = prove(unproven.programs, groups=unproven.groups, instances=unproven.instances)
    return replace(unproven, window=window)


def split_traces(
    traces: Sequence[RankTrace],
    *,
    groups: Mapping[str, Sequence[int]] | None,
    options: TraceOptions,
    only: int | None = None,
) -> Workload:
    """A workload without the proof: its window is 0.

    Raises:
        TraceError: as `build_workload`, but for a deadlock.
    """
    ranked = _by_rank(traces)
    table = GroupTable(world_size=len(ranked), named=groups)
    interpreter = Interpreter(len(ranked), table, options)
    found: Counter[str] = Counter()
    orders, meanings = [], []
    for trace in ranked:
        check_durations(trace)
        order = canonical_order(trace, lenient=options.lenient)
        found += oddities(trace, order)
        orders.append(order)
        meanings.append(_meanings(trace, order, interpreter))
    table.check_unused()
    pairing = pair(meanings, groups=table.groups, options=options, is_alone=only is not None)
    built = list(map(rank_program, ranked, orders, pairing.by_rank))
    found += table.warnings + interpreter.warnings + pairing.warnings
    return Workload(
        programs=[program for program, _ in built],
        groups=table.groups,
        instances=pairing.instances,
        window=0,
        warnings=dict(sorted(found.items())),
        deducted_ns=[deducted for _, deducted in built],
        dropped=sum(order.dropped for order in orders),
        only=only,
    )


def _meanings(trace: RankTrace, order: RankOrder, interpreter: Interpreter) -> list[Meaning]:
    """What the rank's network communications mean, in canonical order."""
    placed = [(int(order.position[raw.row]), raw) for raw in trace.communications if not trace.is_cpu[raw.row]]
    placed.sort(key=lambda pair: pair[0])
    return [interpreter.settle(trace, raw, position) for position, raw in placed]


def _by_rank(traces: Sequence[RankTrace]) -> list[RankTrace]:
    """The traces by rank, which must be 0 … n-1.

    Raises:
        TraceError: a rank is missing or there twice, or there is none at all.
    """
    if not traces:
        raise TraceError("contains no trace")
    ranked = sorted(traces, key=lambda trace: trace.rank)
    for previous, trace in pairwise(ranked):
        if previous.rank == trace.rank:
            raise TraceError(f"is rank {trace.rank}, as is {previous.path}", path=trace.path)
    gap = next((rank for rank, trace in enumerate(ranked) if trace.rank != rank), None)
    if gap is not None:
        others = ranked[-1].rank - len(ranked)
        more = f" and {others} other ranks" if others else ""
        raise TraceError(f"the trace has rank {ranked[-1].rank}, but no rank {gap}{more}", path=ranked[-1].path)
    return ranked
