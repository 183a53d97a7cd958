"""An array cut into near-equal blocks, and the byte ranges of consecutive blocks."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from emulator.planner.schedule import Collective, Transfer, block


class Blocks:
    """`size_bytes` bytes from offset `start`, cut into `parts` blocks in the same way as `schedule.block`.

    Attributes:
        parts: number of blocks; indices are 0 … parts - 1.
        longer: how many blocks, the first ones, are a byte longer than the others.
    """

    __slots__ = ("_base", "_start", "longer", "parts")

    def __init__(self, size_bytes: int, parts: int, *, start: int = 0) -> None:
        self.parts = parts
        self._start = start
        self._base, self.longer = divmod(size_bytes, parts)

    def locate(self, index: int) -> tuple[int, int]:
        """(offset, size) of one block."""
        base, longer = self._base, self.longer
        if index < longer:
            return self._start + index * (base + 1), base + 1
        return self._start + index * base + longer, base

    def cut(self, slices: int, index: int) -> BlockSlices:
        """Slice `index` of `slices` of every block."""
        return BlockSlices(self, slices, index)

    def size(self, index: int) -> int:
        """Bytes of one block; the index wraps around, so -1 is the last block."""
        return self._base + (index % self.parts < self.longer)

    def bytes_of(self, indices: Sequence[int]) -> int:
        """Bytes of several blocks together; indices ascend."""
        return len(indices) * self._base + bisect_left(indices, self.longer)

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

    def _offset(self, index: int) -> int:
        return self._start + index * self._base + min(index, self.longer)


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

    def bytes_of(self, indices: Sequence[int]) -> int:
        """Bytes of the slices of several blocks together; indices ascend."""
        longer = bisect_left(indices, self._blocks.longer)
        sizes = [block(self._blocks.size(index), self._slices, self._index)[1] for index in (0, -1)]
        return longer * sizes[0] + (len(indices) - longer) * sizes[1]


@dataclass(frozen=True, slots=True)
class Scattered:
    """Pieces of a transfer: the non-empty blocks with these indices."""

    locate: Callable[[int], tuple[int, int]]
    indices: Sequence[int]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return (where for index in self.indices if (where := self.locate(index))[1])


def array_of(collective: Collective) -> Blocks:
    """One array of size_bytes, with a block per member."""
    return Blocks(collective.size_bytes, collective.members)


def shards_of(collective: Collective) -> Blocks:
    """The array that the shards of all members form, size_bytes each."""
    return Blocks(collective.members * collective.size_bytes, collective.members)


def transfer(peer: int, where: tuple[int, int]) -> tuple[Transfer, ...]:
    """The transfer of one (offset, size); none if it is empty."""
    return (Transfer(peer, where[0], where[1]),) if where[1] else ()


def scattered(peer: int, blocks: Blocks | BlockSlices, indices: Sequence[int]) -> tuple[Transfer, ...]:
    """One transfer of several blocks, indices ascending; none if they are empty."""
    if len(indices) == 1:
        return transfer(peer, blocks.locate(indices[0]))
    size = blocks.bytes_of(indices)
    return (Transfer(peer, Scattered(blocks.locate, indices), size),) if size else ()


def transfers(peer: int, spans: Iterable[tuple[int, int]]) -> tuple[Transfer, ...]:
    """Transfers of several (offset, size), without empty ones."""
    return tuple([Transfer(peer, offset, size) for offset, size in spans if size])
