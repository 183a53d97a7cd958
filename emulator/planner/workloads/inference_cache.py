"""Which blocks of a prompt a worker remembers from earlier requests."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence


class BlockCache:
    """Blocks in the order of their last use; past its capacity, the least recently used go first.

    Args:
        capacity: blocks; None: without limit.
    """

    def __init__(self, capacity: int | None = None) -> None:
        self._capacity = capacity
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def look_up(self, blocks: Sequence[int]) -> int:
        """How many of the first blocks are remembered without a gap; all of them are remembered afterwards.

        A key-value cache can be reused up to the first block that differs: every later one depends on it.
        """
        hits = next((index for index, block in enumerate(blocks) if block not in self._blocks), len(blocks))
        for block in reversed(blocks):  # the first blocks, which most prompts share, are the last to go
            self._blocks[block] = None
            self._blocks.move_to_end(block)
        while self._capacity is not None and len(self._blocks) > self._capacity:
            self._blocks.popitem(last=False)
        return hits
