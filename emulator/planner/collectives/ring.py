"""Passing blocks round a ring: what every ring algorithm is made of."""

from __future__ import annotations

from collections.abc import Sequence

from emulator.planner.collectives.blocks import Blocks, BlockSlices
from emulator.planner.schedule import Lane, Step, Transfer

SLICES = 2
SLICE_BYTES = 256 << 10
"""Slices of less cost more messages than they save time."""


def in_slices(blocks: Blocks) -> Sequence[Blocks | BlockSlices]:
    """The blocks in the slices that go round separately, each in a lane of its own.

    Where a block goes round in two halves, a member passes the first on while the second comes in: the time between the
    arrival of one and the departure of the next is not lost at every step. With two members each has but one step in
    either half of an all-reduce, and nothing to gain.
    """
    if blocks.parts <= 2 or blocks.size(-1) < SLICES * SLICE_BYTES:
        return [blocks]
    return [blocks.cut(SLICES, index) for index in range(SLICES)]


def ring_pass(blocks: Blocks | BlockSlices, *, first: int, to: int, source: int, reduces: bool) -> Lane:
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
