"""Passing blocks round a ring: what every ring algorithm is made of."""

from __future__ import annotations

from emulator.planner.collectives.spans import Blocks
from emulator.planner.schedule import Lane, Step, Transfer


def ring_pass(blocks: Blocks, *, first: int, to: int, source: int, reduces: bool) -> Lane:
    """parts - 1 steps: send block `first` to member `to`, then always what `source` sent in the step before.

    The blocks come round in falling order, so with `reduces` the last one received, `first` + 1, is complete.
    """
    index, locate, new = first, blocks.locate, tuple.__new__  # which costs half of what a NamedTuple's own does
    offset, size = locate(first)
    for _ in range(blocks.parts - 1):
        sends = (new(Transfer, (to, offset, size)),) if size else ()
        index = (index or blocks.parts) - 1
        offset, size = locate(index)
        yield new(Step, (sends, (new(Transfer, (source, offset, size)),) if size else (), reduces))


def ring_pass_bytes(blocks: Blocks, *, first: int) -> tuple[int, int]:
    """(sent, received) of `ring_pass` where the parts hold `total` bytes: all but one block each way."""
    total = blocks.span(0, blocks.parts)[1]
    return total - blocks.size(first + 1), total - blocks.size(first)
