"""Facts about every communication node that are known before the run: a completion adds only numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from emulator.control.observations import Completions
from emulator.errors import RemoteProtocolError
from emulator.run_folder.schema import Columns
from emulator.trace.model import CommKind, Communication, Group, IdArray, IntArray, RankProgram, Workload
from emulator.units import NS_PER_US

WORLD = "world"


class Catalogue:
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
        self._ideal_ns = ideal_ns
        self._ranks = [_RankRows(program, workload.groups, algorithm_of) for program in workload.programs]

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return len(self._ranks)

    def members(self, rank: int, node_id: int) -> int:
        """How many ranks take part in a communication.

        Raises:
            RemoteProtocolError: the rank has no such communication.
        """
        return int(self._rank(rank).columns(np.array([node_id], np.uint64))["group_size"][0])

    def samples(self, done: Completions) -> Columns:
        """Columns for `RunWriter.add_samples`, rows ordered by rank.

        Raises:
            RemoteProtocolError: a completion names a node that is not a communication of its rank.
        """
        order = np.argsort(done.rank, kind="stable")
        rank = np.asarray(done.rank)[order]
        node_id = np.asarray(done.node_id, np.uint64)[order]
        fixed = self._fixed(rank, node_id)
        arrival = np.asarray(done.arrival_ns, np.int64)[order]
        delay = np.asarray(done.read_delay_ns, np.int64)[order]
        return fixed | {
            "iteration": np.full(len(rank), done.iteration, np.int32),
            "rank": rank.astype(np.int32),
            "node_id": node_id,
            "post_ns": np.asarray(done.post_ns, np.int64)[order],
            "done_ns": np.asarray(done.done_ns, np.int64)[order],
            "arrival_ns": _nullable(arrival, arrival == 0),
            "bytes_sent": np.asarray(done.bytes_sent, np.int64)[order],
            "bytes_received": np.asarray(done.bytes_received, np.int64)[order],
            "early": np.asarray(done.early, np.bool_)[order],
            "read_delay_ns": _nullable(delay, delay < 0),
        }

    def _fixed(self, rank: IntArray, node_id: IdArray) -> dict[str, Any]:
        if not len(rank):
            return {}
        starts = np.flatnonzero(np.diff(rank, prepend=rank[0] - 1))
        parts = [
            self._rank(int(rank[low])).columns(node_id[low:high])
            for low, high in zip(starts, [*starts[1:], len(rank)], strict=True)
        ]
        joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        ideal = self._ideal(joined["instance"])
        return {
            **{name: column.tolist() if column.dtype == object else column for name, column in joined.items()},
            "peer": _nullable(joined["peer"], joined["peer"] < 0),
            "traced_ns": _nullable(joined["traced_ns"], joined["traced_ns"] <= 0),
            "ideal_ns": _nullable(ideal, ideal < 0),
        }

    def _rank(self, rank: int) -> _RankRows:
        if not 0 <= rank < len(self._ranks):
            raise RemoteProtocolError(f"an agent reports a completion of rank {rank}, which the trace does not have")
        return self._ranks[rank]

    def _ideal(self, instance: IntArray) -> IntArray:
        return np.full(len(instance), -1, np.int64) if self._ideal_ns is None else self._ideal_ns[instance]


class _RankRows:
    """The fixed columns of one rank, ordered by node id."""

    def __init__(
        self, program: RankProgram, groups: Sequence[Group], algorithm_of: Callable[[Communication], str]
    ) -> None:
        nodes = sorted(program.communications.values(), key=lambda node: node.node_id)
        self._rank = program.rank
        self._node_id = np.array([node.node_id for node in nodes], np.uint64)
        self._columns: dict[str, npt.NDArray[Any]] = {
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

    def columns(self, node_id: IdArray) -> dict[str, npt.NDArray[Any]]:
        at = np.searchsorted(self._node_id, node_id)
        unknown = node_id if not len(self._node_id) else node_id[np.take(self._node_id, at, mode="clip") != node_id]
        if len(unknown):
            raise RemoteProtocolError(
                f"an agent reports node {unknown[0]} of rank {self._rank}, which is not a communication of its trace"
            )
        return {name: column[at] for name, column in self._columns.items()}


def _group_name(group: Group) -> str:
    return group.name or WORLD


def _members(node: Communication, groups: Sequence[Group]) -> int:
    kind = CommKind(node.kind)
    return len(groups[node.group]) if kind.is_collective else kind.rows


def _nullable(values: npt.NDArray[Any], missing: npt.NDArray[np.bool_]) -> Any:
    return np.ma.masked_array(values, missing)
