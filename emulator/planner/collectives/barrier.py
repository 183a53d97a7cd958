"""Barrier: no member is done before all have started. n members; messages of BARRIER_BYTES."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from emulator.planner.collectives.halving_doubling import powers_below
from emulator.planner.collectives.trees import binomial
from emulator.planner.schedule import BARRIER_BYTES, Collective, Lane, Step, Transfer


def dissemination(collective: Collective, /) -> Sequence[Lane]:
    """In step k, member i sends to i + 2^k and receives from i - 2^k: ceil(log2(n)) steps, one message each way.

    Source: Hensgen, Finkel, Manber, International Journal of Parallel Programming 17 (1988).
    """
    return [_dissemination(collective)]


def tree(collective: Collective, /) -> Sequence[Lane]:
    """Up a binomial tree and down again: 2 ceil(log2(n)) hops, one message each way per edge.

    Source: Mellor-Crummey & Scott, ACM TOCS 9 (1991), for tree barriers.
    """
    return [_tree(collective)]


def _message(peer: int) -> Transfer:
    return Transfer(peer, 0, BARRIER_BYTES)


def _dissemination(collective: Collective) -> Iterator[Step]:
    n, member = collective.members, collective.member
    for distance in powers_below(n):
        yield Step((_message((member + distance) % n),), (_message((member - distance) % n),))


def _tree(collective: Collective) -> Iterator[Step]:
    place = binomial(collective.members, collective.member, 0)
    children = [_message(child) for child in place.children]
    if children:
        yield Step((), children)
    if place.parent is not None:
        parent = (_message(place.parent),)
        yield Step(parent, parent)
    if children:
        yield Step(children)
