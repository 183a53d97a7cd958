"""What a run says about its links: a median time per class of collectives, sorted by the kind of link they cross."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import pyarrow as pa

from emulator.errors import PlanError
from emulator.export.astra_sim.fit import Observation
from emulator.planner.algorithms import bytes_per_member
from emulator.planner.depth import message_depth
from emulator.planner.schedule import Collective
from emulator.results.collectives import MERGE_COLUMNS, Merged, merge, nccl_size, to_ints
from emulator.results.record import Run
from emulator.results.schema import Part
from emulator.results.stats import median
from emulator.results.summary import SEND_RECV, read_measured
from emulator.trace.model import CommKind, IntArray
from emulator.units import format_size

_LARGEST_GROUP = 512
"""Beyond this the chains of messages are not followed: a ring of 512 has half a million steps."""


class LinkClass(Enum):
    """What the messages of a group cross."""

    WITHIN_HOST = "within a host"
    BETWEEN_HOSTS = "between hosts"


@dataclass(frozen=True, slots=True)
class Observed:
    """The observations of a run by link class; `left_out`: why classes gave none → how many."""

    by_link: Mapping[LinkClass, Sequence[Observation]]
    left_out: Mapping[str, int]


def observe(run: Run) -> Observed:
    """Sort the classes of a run.

    Raises:
        ResultError: the samples are missing or damaged.
    """
    samples = read_measured(run, Part.SAMPLES, [*MERGE_COLUMNS, "rank"])
    merged = merge(samples)
    links = _links(samples, run.manifest.topology.get("host_index") or [])
    found: dict[LinkClass, list[Observation]] = {link: [] for link in LinkClass}
    left_out: dict[str, int] = {}
    for key, rows in _classes(merged, links):
        link = _LINKS.get(key[4])
        made = _observation(key, merged, rows) if link else "of groups partly within a host, partly between hosts"
        if isinstance(made, Observation) and link:
            found[link].append(made)
        else:
            left_out[str(made)] = left_out.get(str(made), 0) + 1
    return Observed({link: made for link, made in found.items() if made}, left_out)


_WITHIN, _BETWEEN, _MIXED = 0, 1, 2
_LINKS = {_WITHIN: LinkClass.WITHIN_HOST, _BETWEEN: LinkClass.BETWEEN_HOSTS}


def _links(samples: pa.Table, host_index: Sequence[int]) -> dict[int, int]:
    """Instance → _WITHIN, _BETWEEN or _MIXED."""
    rank, instance = to_ints(samples["rank"]), to_ints(samples["instance"])
    hosts = np.asarray(host_index, np.int64) if len(host_index) else np.zeros(int(rank.max(initial=0)) + 1, np.int64)
    members = np.unique(np.stack([instance, rank], axis=1), axis=0)
    pairs = np.unique(np.stack([members[:, 0], hosts[members[:, 1]]], axis=1), axis=0)
    instances, ranks = np.unique(members[:, 0], return_counts=True)
    _, distinct = np.unique(pairs[:, 0], return_counts=True)
    kinds = np.where(distinct == 1, _WITHIN, np.where(distinct == ranks, _BETWEEN, _MIXED))
    return dict(zip(instances.tolist(), kinds.tolist(), strict=True))


def _classes(merged: Merged, links: Mapping[int, int]) -> list[tuple[tuple[int, ...], IntArray]]:
    """((kind, members, size, algorithm, link), rows) of every class."""
    if not len(merged):
        return []
    link = np.array([links[instance] for instance in merged.instance.tolist()], np.int64)
    keys = np.stack([merged.kind, merged.members, merged.size_bytes, merged.algorithm, link], axis=1)
    distinct, which = np.unique(keys, axis=0, return_inverse=True)
    return [(tuple(map(int, key)), np.flatnonzero(which.ravel() == n)) for n, key in enumerate(distinct)]


def _observation(key: tuple[int, ...], merged: Merged, rows: IntArray) -> Observation | str:
    """An observation, or why there is none."""
    kind, members, size, algorithm = CommKind(key[0]), key[1], key[2], merged.algorithms[key[3]]
    valid = rows[(merged.cct_ns[rows] > 0) & ~merged.early[rows]]
    cct_ns = median(merged.cct_ns[valid])
    if members < 2 or not size or cct_ns is None:
        return "without a time: groups of one, size 0, or payload before the post"
    if members > _LARGEST_GROUP:
        return f"of more than {_LARGEST_GROUP} ranks"
    name = SEND_RECV if kind is CommKind.SEND else kind.label
    whole = nccl_size(kind, size_bytes=size, members=members)
    label = " ".join(part for part in (name, f"{members} ranks", format_size(whole), algorithm) if part)
    try:
        messages, port_bytes = _cost(kind, members, size, algorithm)
    except PlanError:
        return f"played with {algorithm}, which is not installed here"
    return Observation(label, messages, port_bytes, int(cct_ns), len(valid))


def _cost(kind: CommKind, members: int, size: int, algorithm: str) -> tuple[int, int]:
    """(messages one after another, bytes on the busiest port)."""
    if kind is CommKind.SEND:
        return 1, size
    views = [Collective(kind, members, member, size) for member in range(members)]
    return message_depth(algorithm, views), max(max(bytes_per_member(algorithm, view)) for view in views)
