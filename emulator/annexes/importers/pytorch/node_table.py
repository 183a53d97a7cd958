"""The nodes of a rank as columns of numbers: a long trace has millions, and all ranks wait for the last one."""

from __future__ import annotations

import json
import weakref
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from emulator.annexes.importers.model import ImportedNode, NodeResource, RecordedOperation
from emulator.errors import HostError
from emulator.host.files import scratch_folder

Integers = npt.NDArray[np.int64]
PLACES = tuple(NodeResource)
CPU, DEVICE, NETWORK = map(PLACES.index, (NodeResource.CPU, NodeResource.DEVICE, NodeResource.NETWORK))
_BLOCK = 1 << 14
_HELD_NODES = 1 << 12


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

    def __init__(self, columns: NodeColumns | Path, operations: Sequence[RecordedOperation], *, size: int) -> None:
        self._columns, self.operations, self._size = columns, operations, size
        self.shelf: NodeShelf | None = None

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
        """The same nodes, kept in a file until they are asked for; few are kept as they are.

        Raises:
            HostError: it cannot be written.
        """
        if isinstance(self._columns, Path) or self._size <= _HELD_NODES:
            return self
        try:
            self._store(self._columns, path)
        except OSError as error:
            problem = f"cannot keep {self._size} nodes in {path} ({error.strerror or error})"
            raise HostError(f"{problem}: free space, or set TMPDIR to a different folder") from error
        return NodeTable(path, self.operations, size=self._size)

    def _store(self, held: NodeColumns, path: Path) -> None:
        columns = {name: getattr(held, name) for name in _ARRAYS}
        names = np.frombuffer(json.dumps(list(held.names)).encode(), dtype=np.uint8)
        with path.open("wb") as file:
            np.savez(file, names=names, **columns)


class NodeShelf:
    """A folder for the nodes of the ranks of a trace; it goes when the last of their tables has gone."""

    def __init__(self) -> None:
        stack = ExitStack()
        self.folder = stack.enter_context(scratch_folder())
        weakref.finalize(self, stack.close)

    def keep(self, table: object) -> None:
        """Stay as long as a table."""
        if isinstance(table, NodeTable):
            table.shelf = self


_ARRAYS = ("start_ns", "duration_ns", "name", "place", "dep_end", "dep")


def _loaded(path: Path) -> NodeColumns:
    with np.load(path) as stored:
        columns: dict[str, Any] = {name: stored[name] for name in _ARRAYS}
        return NodeColumns(json.loads(stored["names"].tobytes()), **columns)
