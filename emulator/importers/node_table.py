"""The nodes of a rank as columns of numbers: a long trace has millions, and all ranks wait for the last one."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from emulator.importers.model import ImportedNode, Operation, Place

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
PLACES = tuple(Place)
CPU, DEVICE, NETWORK = map(PLACES.index, (Place.CPU, Place.DEVICE, Place.NETWORK))
_BLOCK = 1 << 14


@dataclass(frozen=True, slots=True)
class NodeColumns:
    """Columns, a row per node; node ids are row numbers from 1.

    Attributes:
        start_ns, duration_ns: int64.
        name: int32, position in `names`.
        place: int8, position in PLACES.
        dep_end: int64; dependencies of row r are dep[dep_end[r - 1] : dep_end[r]].
        dep: int32, ids, ascending within a row.
    """

    names: Sequence[str]
    start_ns: Integers
    duration_ns: Integers
    name: npt.NDArray[np.int32]
    place: npt.NDArray[np.int8]
    dep_end: Integers
    dep: npt.NDArray[np.int32]


class NodeTable(Collection[ImportedNode]):
    """The nodes of a rank.

    Args:
        columns: of them, or the file that `stored` wrote.
        operations: those of the nodes on the network, in order.
    """

    def __init__(self, columns: NodeColumns | Path, operations: Sequence[Operation], *, size: int) -> None:
        self._columns, self.operations, self._size = columns, operations, size

    def __len__(self) -> int:
        return self._size

    def __contains__(self, node: object) -> bool:
        return any(one == node for one in self)

    def __iter__(self) -> Iterator[ImportedNode]:
        columns = _loaded(self._columns) if isinstance(self._columns, Path) else self._columns
        operations = iter(self.operations)
        end = 0
        for first in range(0, self._size, _BLOCK):
            rows = slice(first, first + _BLOCK)
            starts, durations = columns.start_ns[rows].tolist(), columns.duration_ns[rows].tolist()
            names, places, ends = (
                columns.name[rows].tolist(),
                columns.place[rows].tolist(),
                columns.dep_end[rows].tolist(),
            )
            deps = columns.dep[end : ends[-1]].tolist()
            base = begin = end
            for row, (start, duration, name, place, end) in enumerate(
                zip(starts, durations, names, places, ends, strict=True), first + 1
            ):
                yield ImportedNode(
                    node_id=row,
                    name=columns.names[name],
                    place=PLACES[place],
                    deps=tuple(deps[begin - base : end - base]),
                    start_ns=start,
                    duration_ns=duration,
                    operation=next(operations) if place == NETWORK else None,
                )
                begin = end

    def stored(self, path: Path) -> NodeTable:
        """The same nodes, kept in a file until they are asked for.

        Raises:
            OSError: it cannot be written.
        """
        assert isinstance(self._columns, NodeColumns)
        columns = {name: getattr(self._columns, name) for name in _ARRAYS}
        names = np.frombuffer(json.dumps(list(self._columns.names)).encode(), dtype=np.uint8)
        with path.open("wb") as file:
            np.savez(file, names=names, **columns)
        return NodeTable(path, self.operations, size=self._size)


_ARRAYS = ("start_ns", "duration_ns", "name", "place", "dep_end", "dep")


def _loaded(path: Path) -> NodeColumns:
    with np.load(path) as stored:
        columns: dict[str, Any] = {name: stored[name] for name in _ARRAYS}
        return NodeColumns(json.loads(stored["names"].tobytes()), **columns)
