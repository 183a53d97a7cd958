"""Which communications of a rank wait for which: its dependencies with everything between communications left out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from emulator.trace.model import RankProgram

Waits = frozenset[int]
_NONE: Waits = frozenset()


def communication_dependencies(program: RankProgram) -> list[tuple[int, ...]]:
    """What each communication waits for, in canonical order.

    Communications are numbered in that order, from 0. B waits for A if a path of dependencies leads from A to B that
    passes no other communication.

    Returns:
        For each communication the numbers of those it waits for, ascending; all smaller than its own.
    """
    needed = program.dep_position.tolist()
    reached: list[Waits] = []
    found: list[tuple[int, ...]] = []
    for position, (first, end) in enumerate(pairwise(program.dep_offset.tolist())):
        waits = _union([reached[other] for other in needed[first:end]])
        if position in program.communications:
            reached.append(frozenset((len(found),)))
            found.append(tuple(sorted(waits)))
        else:
            reached.append(waits)
    return found


def _union(sets: Sequence[Waits]) -> Waits:
    """The union; shared, not copied, where one of them is all of it."""
    if not sets:
        return _NONE
    largest = max(sets, key=len)
    return largest if all(one <= largest for one in sets) else largest.union(*sets)
