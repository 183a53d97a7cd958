"""Which communications of a rank wait for which: its dependencies with everything between communications left out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from emulator.trace.meaning.model import RankProgram

Latest = frozenset[int]
"""Communications none of which waits for another one of them."""
_NONE: Latest = frozenset()


def communication_dependencies(program: RankProgram) -> list[tuple[int, ...]]:
    """What each communication waits for, in canonical order.

    Communications are numbered in that order, from 0. B waits for A if a path of dependencies leads from A to B, and no
    path from A to B passes another communication: those before A follow from it. So the result says of any two
    communications whether one must be done before the other, with the fewest dependencies.

    Returns:
        For each communication the numbers of those it waits for, ascending; all smaller than its own.
    """
    needed = program.dep_position.tolist()
    reached: list[Latest] = []
    before: list[int] = []
    found: list[tuple[int, ...]] = []
    for position, (first, end) in enumerate(pairwise(program.dep_offset.tolist())):
        latest = _latest([reached[other] for other in needed[first:end]], before)
        if position in program.communications:
            reached.append(frozenset((len(found),)))
            before.append(_all_before(latest, before) | sum(1 << one for one in latest))
            found.append(tuple(sorted(latest)))
        else:
            reached.append(latest)
    return found


def _latest(sets: Sequence[Latest], before: Sequence[int]) -> Latest:
    """The latest of several sets; `before` has for each communication those that must be done before it, as bits."""
    if not sets:
        return _NONE
    largest = max(sets, key=len)
    if all(one <= largest for one in sets):
        return largest  # shared, not copied: most nodes have one dependency
    union = largest.union(*sets)
    implied = _all_before(union, before)
    return frozenset(one for one in union if not implied >> one & 1)


def _all_before(communications: Latest, before: Sequence[int]) -> int:
    bits = 0
    for one in communications:
        bits |= before[one]
    return bits
