"""Layouts of groups, and what algorithms send between their nodes."""

from collections import Counter

from emulator.planner.algorithms import schedule
from emulator.planner.group_layout import GroupLayout, layout_of
from emulator.planner.schedule import Collective
from emulator.trace.meaning.model import CommKind


def even_layout(nodes: int, rails: int) -> GroupLayout:
    """One member at each rail of each node, in order."""
    members = range(nodes * rails)
    return layout_of([one // rails for one in members], [one % rails for one in members])


def beyond(kind: CommKind, name: str, layout: GroupLayout, size_bytes: int) -> Counter[tuple[int, int]]:
    """(column of the sender, of the receiver) → bytes between nodes."""
    found: Counter[tuple[int, int]] = Counter()
    n = len(layout.node_of)
    for member in range(n):
        for lane in schedule(name, Collective(kind, n, member, size_bytes, layout=layout)):
            for send in (send for step in lane for send in step.sends):
                if layout.node_of[send.peer] != layout.node_of[member]:
                    found[layout.column_of[member], layout.column_of[send.peer]] += send.size
    return found
