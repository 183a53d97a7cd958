"""Schedules of collectives as plain lists, for assertions."""

from collections.abc import Sequence

import numpy as np

from emulator.planner.algorithms import schedule
from emulator.planner.schedule import Collective, Lane, Step
from emulator.planner.traffic.operation import peer_totals
from emulator.trace.meaning.model import CommKind


def view(kind: CommKind, members: int, member: int, size_bytes: int, root: int = 0) -> Collective:
    """A collective from the view of one member."""
    return Collective(kind, members, member, size_bytes, root)


def steps_of(lane: Lane) -> list[Step]:
    """A lane, with sends and receives as tuples."""
    return [Step(tuple(step.sends), tuple(step.recvs), step.reduces) for step in lane]


def lanes_by_member(name: str, kind: CommKind, members: int, size_bytes: int, root: int = 0) -> list[list[list[Step]]]:
    """All steps of an algorithm, by member and lane."""
    return [
        [steps_of(lane) for lane in schedule(name, view(kind, members, member, size_bytes, root))]
        for member in range(members)
    ]


def moved(lanes: Sequence[Sequence[Step]]) -> tuple[int, int]:
    """(bytes sent, bytes received) of one member."""
    steps = [step for lane in lanes for step in lane]
    sent = sum(transfer.size for step in steps for transfer in step.sends)
    return sent, sum(transfer.size for step in steps for transfer in step.recvs)


def bytes_by_member(name: str, views: Sequence[Collective]) -> list[tuple[int, int]]:
    """(bytes sent, bytes received) of members as plans count them; of an uneven all-to-all as its splits say."""
    if views[0].send_splits is not None:
        splits = [(one.send_splits or (), one.recv_splits or (), one.member) for one in views]
        return [(sum(out) - out[member], sum(into) - into[member]) for out, into, member in splits]
    totals, members = peer_totals(name, views[0]), views[0].members
    sent, received = (np.bincount(ends, totals.sizes, members) for ends in (totals.senders, totals.receivers))
    return [(int(sent[one.member]), int(received[one.member])) for one in views]


def bytes_per_member(name: str, collective: Collective) -> tuple[int, int]:
    """The same of one member."""
    return bytes_by_member(name, [collective])[0]


def covered(ranges: Sequence[tuple[int, int]]) -> set[int]:
    """The bytes that (offset, size) ranges cover; AssertionError if any is covered twice."""
    found: set[int] = set()
    for offset, size in ranges:
        added = set(range(offset, offset + size))
        assert not added & found, f"bytes {sorted(added & found)} are covered twice"
        found |= added
    return found
