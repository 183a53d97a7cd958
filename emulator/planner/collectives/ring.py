"""Ring steps: passing blocks around a ring, the building block of every ring algorithm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from emulator.planner.collectives.blocks import Blocks, BlockSlices
from emulator.planner.schedule import Lane, Step, Transfer

SLICES = 2
SLICE_BYTES = 256 << 10
"""Smaller slices cost more in messages than they save in time."""


class Parts(Protocol):
    """Blocks by index."""

    @property
    def parts(self) -> int:
        """How many there are."""
        ...

    def locate(self, index: int, /) -> tuple[int, int]:
        """(offset, size) of one."""
        ...


def in_slices(blocks: Blocks) -> Sequence[Blocks | BlockSlices]:
    """The blocks, cut into the slices that travel around the ring in separate lanes.

    If blocks are cut into two slices, a member passes on the first while it receives the second. The time between
    receiving one and sending the next is then hidden at every step. With two members there is nothing to gain: each has
    only one step in either half of an all-reduce.
    """
    if blocks.parts <= 2 or blocks.size(-1) < SLICES * SLICE_BYTES:
        return [blocks]
    return [blocks.cut(SLICES, index) for index in range(SLICES)]


def ring_pass(blocks: Parts, *, first: int, to: int, source: int, reduces: bool) -> Lane:
    """parts - 1 steps: send block `first` to member `to`, then the block received from `source` in the previous step.

    Blocks arrive in descending order, so with `reduces` the last one received, `first` + 1, is complete.
    """
    index, locate, new = first, blocks.locate, tuple.__new__  # takes half the time of the NamedTuple's own __new__
    offset, size = locate(first)
    for _ in range(blocks.parts - 1):
        sends = (new(Transfer, (to, offset, size)),) if size else ()
        index = (index or blocks.parts) - 1
        offset, size = locate(index)
        yield new(Step, (sends, (new(Transfer, (source, offset, size)),) if size else (), reduces))
