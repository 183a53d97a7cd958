"""An array cut into near-equal blocks, and the byte ranges of consecutive blocks."""

from __future__ import annotations

from collections.abc import Iterable

from emulator.planner.schedule import Collective, Transfer, block


class Blocks:
    """`size_bytes` bytes from offset `start`, cut into `parts` blocks in the same way as `schedule.block`.

    Attributes:
        parts: number of blocks; indices are 0 … parts - 1.
    """

    __slots__ = ("_base", "_longer", "_start", "parts")

    def __init__(self, size_bytes: int, parts: int, *, start: int = 0) -> None:
        self.parts = parts
        self._start = start
        self._base, self._longer = divmod(size_bytes, parts)

    def locate(self, index: int) -> tuple[int, int]:
        """(offset, size) of one block."""
        base, longer = self._base, self._longer
        if index < longer:
            return self._start + index * (base + 1), base + 1
        return self._start + index * base + longer, base

    def cut(self, slices: int, index: int) -> BlockSlices:
        """Slice `index` of `slices` of every block."""
        return BlockSlices(self, slices, index)

    def size(self, index: int) -> int:
        """Bytes of one block; the index wraps around, so -1 is the last block."""
        return self._base + (index % self.parts < self._longer)

    def span(self, first: int, count: int) -> tuple[int, int]:
        """(offset, size) of `count` blocks starting at `first`, without wrapping around."""
        begin, end = self._offset(first), self._offset(first + count)
        return begin, end - begin

    def arc(self, first: int, count: int) -> list[tuple[int, int]]:
        """(offset, size) of up to `parts` blocks starting at `first`: one range, or two if it wraps around."""
        tail = first + count - self.parts
        if tail <= 0:
            return [self.span(first, count)]
        return [self.span(first, count - tail), self.span(0, tail)]

    def bytes_in_arc(self, first: int, count: int) -> int:
        """Bytes that `arc` covers."""
        return sum(size for _, size in self.arc(first, count))

    def _offset(self, index: int) -> int:
        return self._start + index * self._base + min(index, self._longer)


class BlockSlices:
    """The same slice of every block, cut as by `schedule.block`; made by `Blocks.cut`."""

    __slots__ = ("_blocks", "_index", "_slices", "parts")

    def __init__(self, blocks: Blocks, slices: int, index: int) -> None:
        self._blocks, self._slices, self._index = blocks, slices, index
        self.parts = blocks.parts

    def locate(self, index: int) -> tuple[int, int]:
        """(offset, size) of the slice of one block."""
        start, size = self._blocks.locate(index)
        offset, part = block(size, self._slices, self._index)
        return start + offset, part


def array_of(collective: Collective) -> Blocks:
    """One array of size_bytes, with a block per member."""
    return Blocks(collective.size_bytes, collective.members)


def shards_of(collective: Collective) -> Blocks:
    """The array that the shards of all members form, size_bytes each."""
    return Blocks(collective.members * collective.size_bytes, collective.members)


def transfer(peer: int, where: tuple[int, int]) -> tuple[Transfer, ...]:
    """The transfer of one (offset, size); none if it is empty."""
    return (Transfer(peer, where[0], where[1]),) if where[1] else ()


def transfers(peer: int, spans: Iterable[tuple[int, int]]) -> tuple[Transfer, ...]:
    """Transfers of several (offset, size), without empty ones."""
    return tuple([Transfer(peer, offset, size) for offset, size in spans if size])
