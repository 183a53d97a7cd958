"""Facts about every communication node that are known before the run: a completion adds only numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from emulator.control.observations import Completions, join_completions
from emulator.errors import RemoteProtocolError
from emulator.results.run_folder.schema import Columns
from emulator.trace.meaning.model import CommKind, Communication, Group, IdArray, IntArray, Workload
from emulator.units import NS_PER_US

WORLD = "world"


class NodeCatalogue:
    """The fixed columns of the samples of a workload, looked up by (rank, node id).

    Args:
        workload: what is played.
        algorithm_of: name of the algorithm of a communication; "" for send and receive.
        ideal_ns: per instance, shape (workload.instances,), negative = unknown; None if all are.
    """

    def __init__(
        self,
        workload: Workload,
        *,
        algorithm_of: Callable[[Communication], str],
        ideal_ns: IntArray | None = None,
    ) -> None:
        self._ideal_ns, self.ranks = ideal_ns, len(workload.programs)
        nodes = [
            (program.rank, node)
            for program in workload.programs
            for node in sorted(program.communications.values(), key=lambda node: node.node_id)
        ]
        rank = np.array([rank for rank, _ in nodes], np.int64)
        node_id = np.array([node.node_id for _, node in nodes], np.uint64)
        self._node_ids, place = np.unique(node_id, return_inverse=True)
        self._keys = rank * len(self._node_ids) + place  # of the rows, ascending
        self._columns = _columns([node for _, node in nodes], workload.groups, algorithm_of)

    def members(self, rank: int, node_id: int) -> int:
        """How many ranks take part in a communication.

        Raises:
            RemoteProtocolError: the rank has no such communication.
        """
        rows = self._rows(np.array([rank], np.int64), np.array([node_id], np.uint64))
        return int(self._columns["group_size"][rows[0]])

    def is_pair(self, rank: int, node_id: int) -> bool:
        """Whether a communication is a send or a receive; errors as of `members`."""
        rows = self._rows(np.array([rank], np.int64), np.array([node_id], np.uint64))
        return bool(self._columns["kind"][rows[0]] in _PAIR)

    def size_bytes(self, rank: int, node_id: int) -> int:
        """Payload of a communication as the trace counts it; errors as of `members`."""
        rows = self._rows(np.array([rank], np.int64), np.array([node_id], np.uint64))
        return int(self._columns["size_bytes"][rows[0]])

    def samples(self, parts: Sequence[Completions]) -> Columns:
        """Columns of the table of samples, rows ordered by iteration and rank.

        Args:
            parts: at least one, of any iterations.

        Raises:
            RemoteProtocolError: a completion names a node that is not a communication of its rank.
        """
        done = join_completions(parts)
        order = np.lexsort((done["rank"], done["iteration"]))
        done = {name: column[order] for name, column in done.items()}
        arrival, delay, wait = done["arrival_ns"], done["read_delay_ns"], done["core_wait_ns"]
        return {
            **self._fixed(done["rank"], done["node_id"]),
            **done,
            "iteration": done["iteration"].astype(np.int32),
            "rank": done["rank"].astype(np.int32),
            "arrival_ns": _nullable(arrival, arrival == 0),
            "read_delay_ns": _nullable(delay, delay < 0),
            "core_wait_ns": _nullable(wait, wait < 0),
        }

    def _fixed(self, rank: IntArray, node_id: IdArray) -> dict[str, Any]:
        if not len(rank):
            return {}
        rows = self._rows(rank, node_id)
        taken = {name: column[rows] for name, column in self._columns.items()}
        ideal = self._ideal(taken["instance"])
        return {
            **{name: column.tolist() if column.dtype == object else column for name, column in taken.items()},
            "peer": _nullable(taken["peer"], taken["peer"] < 0),
            "traced_ns": _nullable(taken["traced_ns"], taken["traced_ns"] <= 0),
            "ideal_ns": _nullable(ideal, ideal < 0),
        }

    def _rows(self, rank: IntArray, node_id: IdArray) -> IntArray:
        """Where the columns have these communications."""
        if len(strange := rank[(rank < 0) | (rank >= self.ranks)]):
            raise RemoteProtocolError(
                f"an agent reports a completion of rank {strange[0]}, which the trace does not have"
            )
        place = np.searchsorted(self._node_ids, node_id)
        keys = rank * len(self._node_ids) + place
        rows = np.searchsorted(self._keys, keys)
        if not len(self._keys):
            known = np.zeros(len(rank), np.bool_)
        else:
            known = np.take(self._node_ids, place, mode="clip") == node_id
            known &= np.take(self._keys, rows, mode="clip") == keys
        if not known.all():
            first = int(np.flatnonzero(~known)[0])
            raise RemoteProtocolError(
                f"an agent reports node {node_id[first]} of rank {rank[first]}, "
                "which is not a communication of its trace"
            )
        return rows

    def _ideal(self, instance: IntArray) -> IntArray:
        return np.full(len(instance), -1, np.int64) if self._ideal_ns is None else self._ideal_ns[instance]


_PAIR = (CommKind.SEND.label, CommKind.RECV.label)


def _columns(
    nodes: Sequence[Communication], groups: Sequence[Group], algorithm_of: Callable[[Communication], str]
) -> dict[str, npt.NDArray[Any]]:
    return {
        "name": np.array([node.name for node in nodes], object),
        "kind": np.array([node.kind.label for node in nodes], object),
        "group": np.array([_group_name(groups[node.group]) for node in nodes], object),
        "group_size": np.array([_members(node, groups) for node in nodes], np.int32),
        "index_in_group": np.array([node.index_in_group for node in nodes], np.int64),
        "instance": np.array([node.instance for node in nodes], np.int64),
        "peer": np.array([node.peer for node in nodes], np.int32),
        "size_bytes": np.array([node.size_bytes for node in nodes], np.int64),
        "algorithm": np.array([algorithm_of(node) for node in nodes], object),
        "traced_ns": np.array([node.traced_duration_micros * NS_PER_US for node in nodes], np.int64),
    }


def _group_name(group: Group) -> str:
    return group.name or WORLD


def _members(node: Communication, groups: Sequence[Group]) -> int:
    kind = CommKind(node.kind)
    return len(groups[node.group]) if kind.is_collective else kind.rows


def _nullable(values: npt.NDArray[Any], missing: npt.NDArray[np.bool_]) -> Any:
    return np.ma.masked_array(values, missing)
