"""Traffic in closed form of algorithms that know the layout, of PAT, and of rings in channels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from emulator.planner.built_in import channels_of
from emulator.planner.collectives import channels, hierarchical
from emulator.planner.collectives.aggregated_trees import aggregate_bytes, carried
from emulator.planner.collectives.blocks import array_of
from emulator.planner.collectives.channels import Ring
from emulator.planner.collectives.halving_doubling import powers_below
from emulator.planner.collectives.pxn import given_on_node
from emulator.planner.group_layout import apart
from emulator.planner.schedule import Collective
from emulator.planner.traffic.phase import Phase
from emulator.trace.meaning.model import CommKind, IntArray

Stage: TypeAlias = tuple[int, list[tuple[int, int]]]
"""(steps, (peer, bytes) of all of them), of one member."""
Phases: TypeAlias = Iterator[Phase]


def in_channels(name: str, collective: Collective, senders: IntArray) -> Phases:
    """One phase: in each ring a member sends to its successor alone."""
    count = channels_of(name) or 1
    layout = collective.layout or apart(collective.members)
    rings = [Ring(layout, channel) for channel in range(count)]
    halves = 2 if collective.kind is CommKind.ALL_REDUCE else 1
    edges = [
        (member, ring.member(ring.position(member) + 1), channels.sent_in(collective, member, ring, count))
        for member in senders.tolist()
        for ring in rings
    ]
    yield Phase.of(edges, halves * (collective.members - 1))


def hierarchical_all_reduce(collective: Collective, senders: IntArray) -> Phases:
    """On the node, beyond it and back."""
    yield from _staged(collective, senders, lambda view: [*_half(view, reduces=True), *_half(view, reduces=False)])


def hierarchical_all_gather(collective: Collective, senders: IntArray) -> Phases:
    """Beyond the node, then on it."""
    yield from _staged(collective, senders, lambda view: _half(view, reduces=False))


def hierarchical_reduce_scatter(collective: Collective, senders: IntArray) -> Phases:
    """On the node, then beyond it."""
    yield from _staged(collective, senders, lambda view: _half(view, reduces=True))


def pxn(collective: Collective, senders: IntArray) -> Phases:
    """On the node, then a phase for each distance between nodes."""
    yield from _staged(collective, senders, lambda view: [(1, given_on_node(view))])
    layout = collective.layout or apart(collective.members)
    nodes, members = len(layout.nodes), np.arange(collective.members, dtype=np.int64)
    node_of, column_of, owners = np.array(layout.node_of), np.array(layout.column_of), np.array(layout.owners)
    counts = np.array([len(own) for own in layout.nodes], dtype=np.int64)
    blocks = array_of(collective)
    sizes = blocks.size(-1) + (members < blocks.longer).astype(np.int64)
    for distance in range(1, nodes):
        sources = (node_of - distance) % nodes
        through = owners[sources, column_of].astype(np.int64)
        chosen = np.isin(through, senders) if len(senders) < len(members) else np.ones(len(members), dtype=np.bool_)
        yield Phase(through[chosen], members[chosen], (sizes * counts[sources])[chosen])


def _half(view: Collective, *, reduces: bool) -> Iterable[Stage]:
    return hierarchical.stages(hierarchical.grid_of(view), reduces=reduces)


def _staged(collective: Collective, senders: IntArray, stages: Callable[[Collective], Iterable[Stage]]) -> Phases:
    """A phase for each stage, from the stages of every sender."""
    found: list[tuple[int, list[tuple[int, int, int]]]] = []
    for member in senders.tolist():
        for at, (steps, sent) in enumerate(stages(replace(collective, member=member))):
            if at == len(found):
                found.append((steps, []))
            found[at][1].extend((member, peer, size) for peer, size in sent)
    for steps, edges in found:
        yield Phase.of(edges, steps)


def pat_all_gather(collective: Collective, senders: IntArray) -> Phases:
    """The farthest first."""
    blocks = array_of(collective)
    for distance in reversed(powers_below(blocks.parts)):
        size = len(carried(blocks, distance)) * collective.size_bytes
        yield Phase(senders, (senders + distance) % blocks.parts, np.full(len(senders), size, dtype=np.int64))


def pat_reduce_scatter(collective: Collective, senders: IntArray) -> Phases:
    """The nearest first."""
    blocks = array_of(collective)
    for distance in powers_below(blocks.parts):
        behind = carried(blocks, distance)
        receivers = (senders - distance) % blocks.parts
        sizes = [aggregate_bytes(blocks, receiver, behind) for receiver in receivers.tolist()]
        yield Phase(senders, receivers, np.array(sizes, dtype=np.int64))
