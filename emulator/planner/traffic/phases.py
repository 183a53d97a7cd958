"""How many bytes each member of a group sends to which other: for all members at once.

`schedule` describes what one member does step by step. Plans of large worlds cannot walk every schedule, so the same
traffic is computed here as arrays over all members. Algorithms without a closed form are walked.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np

from emulator.planner.algorithms import canonical_kind, schedule
from emulator.planner.schedule import Collective
from emulator.planner.traffic.closed_forms import Phases, closed_form_of
from emulator.planner.traffic.phase import Phase
from emulator.trace.meaning.model import BoolArray, CommKind, IntArray

_ROOTED = (CommKind.BROADCAST, CommKind.REDUCE, CommKind.GATHER, CommKind.SCATTER)


def phases(name: str, collective: Collective, senders: IntArray | None = None) -> Phases:
    """The traffic of a group, phase by phase, in the order of the algorithm; lanes run side by side.

    Args:
        collective: as any member sees it; its member number is not used. Not for uneven splits.
        senders: members whose sends are returned; None: all.

    Raises:
        PlanError: there is no such algorithm.
    """
    if senders is None:
        senders = np.arange(collective.members, dtype=np.int64)
    schedule(name, collective)  # raises if there is no such algorithm
    if collective.members == 1 or (collective.size_bytes == 0 and collective.kind is not CommKind.BARRIER):
        return
    closed_form = closed_form_of(canonical_kind(collective.kind), name)
    for phase in closed_form(collective, senders) if closed_form else _walked(name, collective, senders):
        kept = phase.sizes > 0
        if kept.any():
            yield phase if kept.all() else _only(phase, kept)


def peer_totals(name: str, collective: Collective, senders: IntArray | None = None) -> Phase:
    """All traffic as one phase; a pair can occur several times. Arguments and errors as for `phases`."""
    if name == "pairwise" and canonical_kind(collective.kind) is CommKind.ALL_TO_ALL:
        name = "parallel"  # the same pairs and bytes, without a phase for every distance
    found = list(phases(name, collective, senders))
    if not found:
        nothing = np.zeros(0, dtype=np.int64)
        return Phase(nothing, nothing, nothing, 0)
    return Phase(
        np.concatenate([phase.senders for phase in found]),
        np.concatenate([phase.receivers for phase in found]),
        np.concatenate([phase.sizes for phase in found]),
        sum(phase.steps for phase in found),
    )


def transfers_per_group(name: str, kind: CommKind, members: int) -> int:
    """Estimate of the transfers in `peer_totals`: n(n - 1) if all members exchange, else a few per member."""
    is_full_exchange = name in ("direct", "parallel", "pairwise", "pxn") and canonical_kind(kind) not in _ROOTED
    return members * (members - 1) if is_full_exchange else members * 2 * members.bit_length()


def _only(phase: Phase, kept: BoolArray) -> Phase:
    return Phase(phase.senders[kept], phase.receivers[kept], phase.sizes[kept], phase.steps)


def _walked(name: str, collective: Collective, senders: IntArray) -> Phases:
    """A phase for every step of the schedules."""
    steps: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for sender in senders.tolist():
        for lane in schedule(name, replace(collective, member=sender)):
            for number, step in enumerate(lane):
                steps[number] += [(sender, transfer.peer, transfer.size) for transfer in step.sends]
    for _, transfers in sorted(steps.items()):
        if transfers:
            yield Phase.of(transfers)
