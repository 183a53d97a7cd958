"""The measured trace in the subset of Chakra that ASTRA-sim reads, one plain file per rank.

ASTRA-sim aborts on collectives it does not know, nodes on the CPU, METADATA nodes and dangling dependencies. It waits
forever in an all-to-all whose ranks have different sizes, and ends with exit code 0 all the same. It identifies process
groups by positive integers. Changes are counted, and an attribute keeps the true type.
Source: ASTRA-sim, astra-sim/workload/Workload.cc, Statistics.cc (extract_comp_comm_overlap: no times on the CPU).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from emulator.errors import ResultError
from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.schema import RunTable
from emulator.results.statistics.samples.measured_rows import labels_and_codes, to_ints
from emulator.trace.files.astra_sim import (
    Node,
    has_uneven_splits,
    is_cpu_op,
    make_compute,
    replace_attributes,
    takes_time,
)
from emulator.trace.files.et import read_rank
from emulator.trace.files.files import find_trace
from emulator.trace.files.records import read_nodes
from emulator.trace.files.rewrite import write_trace
from emulator.trace.meaning.model import CommKind
from emulator.trace.meaning.program import exclusive_micros

PREFIX = "trace"
TRUE_TYPE = "charkha.comm_type"
"""Attribute with the true collective of a node that ASTRA-sim gets as another one."""
_KNOWN = (CommKind.ALL_REDUCE, CommKind.ALL_GATHER, CommKind.ALL_TO_ALL, CommKind.REDUCE_SCATTER, CommKind.BROADCAST)
_SAME = {CommKind.REDUCE_SCATTER_BLOCK: CommKind.REDUCE_SCATTER}


@dataclass(frozen=True, slots=True)
class Played:
    """A communication node as it was played.

    Attributes:
        kind: what it is.
        size_bytes: as played, so after any scaling; of an all-to-all, the mean over its ranks.
        was_even: whether all ranks of an all-to-all have that size.
        group: number of its process group, 0 for all ranks.
        members: ranks in it.
        peer: the other rank of a send or receive, else -1.
        pair: number of the pair of a send and its receive.
    """

    kind: CommKind
    size_bytes: int
    group: int
    members: int
    peer: int
    pair: int
    was_even: bool = True


@dataclass(frozen=True, slots=True)
class Groups:
    """Process groups by their number for ASTRA-sim, from 1; the group of all ranks has no number."""

    ranks: Mapping[int, Sequence[int]]


def write_workload(run: Run, folder: Path) -> tuple[Groups, Mapping[str, int]]:
    """Write `trace.<rank>.et`.

    Args:
        run: a closed run with its measured trace.
        folder: exists.

    Returns:
        The process groups, and change → number of nodes.

    Raises:
        ResultError: the samples are missing or damaged.
        TraceError: the measured trace is missing or damaged.
        HostError: a file cannot be written.
    """
    if not (run.folder / "trace").exists():
        raise ResultError("has no measured trace: only a run that was played to its end has one", path=run.folder)
    source = find_trace(run.folder / "trace", ranks=run.manifest.trace.ranks)
    played, groups = _played(run)
    changes: Counter[str] = Counter()
    for rank, path in enumerate(source.paths):
        trace = read_rank(path, rank)
        micros = np.rint(exclusive_micros(trace) * _compute_factor(run)).astype(np.int64)
        encoder = _Encoder(rank, played[rank], dict(zip(trace.node_id.tolist(), micros.tolist(), strict=True)), changes)
        nodes = map(encoder.encode, read_nodes(path))
        write_trace(folder / f"{PREFIX}.{rank}.et", nodes, attributes={"schema": "charkha.astra-sim"})
    return groups, {what: count for what, count in changes.items() if count}


def _compute_factor(run: Run) -> float:
    label = run.manifest.scaling.compute
    return {"replay": 1.0, "skip": 0.0}[label] if label in ("replay", "skip") else float(label)


def _played(run: Run) -> tuple[Sequence[Mapping[int, Played]], Groups]:
    """Per rank node id → how it was played, from the last iteration; and the groups. Storage is not among them."""
    names = ["iteration", "rank", "node_id", "kind", "size_bytes", "instance", "peer"]
    table = run.table(RunTable.SAMPLES, names)
    labels, codes = labels_and_codes(table["kind"])
    columns = {name: to_ints(table[name]) for name in ("iteration", "rank", "size_bytes", "instance", "peer")}
    node_id = table["node_id"].to_numpy()
    is_network = np.array([not CommKind[label.upper()].is_storage for label in labels], bool)[codes]
    rows = np.flatnonzero(is_network & (columns["iteration"] == columns["iteration"].max(initial=-1)))
    members: dict[int, list[int]] = {}
    sizes: dict[int, list[int]] = {}
    for row in rows.tolist():
        members.setdefault(int(columns["instance"][row]), []).append(int(columns["rank"][row]))
        sizes.setdefault(int(columns["instance"][row]), []).append(int(columns["size_bytes"][row]))
    numbers: dict[tuple[int, ...], int] = {tuple(range(run.manifest.trace.ranks)): 0}
    found: list[dict[int, Played]] = [{} for _ in range(run.manifest.trace.ranks)]
    for row in rows.tolist():
        kind = CommKind[labels[codes[row]].upper()]
        instance = int(columns["instance"][row])
        ranks = tuple(sorted(members[instance]))
        group = numbers.setdefault(ranks, len(numbers)) if kind.is_collective else 0
        peer, size, own = int(columns["peer"][row]), int(columns["size_bytes"][row]), sizes[instance]
        is_even = kind is not CommKind.ALL_TO_ALL or len(set(own)) == 1
        found[int(columns["rank"][row])][int(node_id[row])] = Played(
            kind, size if is_even else -(-sum(own) // len(own)), group, len(ranks), peer, instance, is_even
        )
    return found, Groups({number: ranks for ranks, number in numbers.items() if number})


class _Encoder:
    """Converts the nodes of one rank for ASTRA-sim and counts the changes."""

    def __init__(
        self, rank: int, played: Mapping[int, Played], micros: Mapping[int, int], changes: Counter[str]
    ) -> None:
        self._rank, self._played, self._micros, self._changes = rank, played, micros, changes

    def encode(self, node: Node) -> Node:
        self._drop_dangling(node)
        played = self._played.get(node.id)
        if played is None:
            self._encode_compute(node)
        elif played.kind.is_collective:
            self._encode_collective(node, played)
        else:
            src, dst = self._rank, played.peer
            src, dst = (src, dst) if played.kind is CommKind.SEND else (dst, src)
            facts = {"comm_size": played.size_bytes, "comm_src": src, "comm_dst": dst, "comm_tag": played.pair}
            replace_attributes(node, {"is_cpu_op": False, **facts})
        return node

    def _drop_dangling(self, node: Node) -> None:
        for dependencies in (node.ctrl_deps, node.data_deps):
            there = [one for one in dependencies if one in self._micros]
            self._changes["dependency on a node that is not there: dropped"] += len(dependencies) - len(there)
            dependencies[:] = there

    def _encode_compute(self, node: Node) -> None:
        """A node that is not traffic takes the time it was played with, on the device."""
        is_cpu = is_cpu_op(node) and takes_time(node)
        self._changes["compute on the CPU: compute of the device, which runs one node at a time"] += is_cpu
        if takes_time(node):
            self._changes["duration as played: without that of called operators, scaled"] += int(
                node.duration_micros != self._micros[node.id]
            )
            node.duration_micros = self._micros[node.id]
        else:
            node.duration_micros = 0
        kind = make_compute(node)
        if kind is not None:
            self._changes[f"{kind} that is not traffic: a COMP_NODE of its duration"] += 1
        replace_attributes(node, {"is_cpu_op": False})

    def _encode_collective(self, node: Node, played: Played) -> None:
        kind = _SAME.get(played.kind, played.kind)
        is_uneven = not played.was_even or has_uneven_splits(node)
        self._changes["all_to_all of uneven sizes: every rank sends the mean, in even parts"] += is_uneven
        facts: dict[str, bool | int | str] = {"is_cpu_op": False, "comm_size": played.size_bytes}
        if played.group:
            facts["pg_name"] = str(played.group)
        is_alone = played.members == 1  # it waits forever for others, and for shares of no bytes
        if kind not in _KNOWN or is_alone or played.size_bytes < played.members:
            why = " of a group of one" if is_alone else " of fewer bytes than ranks"
            what = played.kind.label + (why if kind in _KNOWN else "")
            self._changes[f"{what}: a broadcast, whose measured duration is replayed"] += 1
            facts[TRUE_TYPE], kind = int(played.kind), CommKind.BROADCAST
        replace_attributes(node, {"comm_type": int(kind), **facts})
