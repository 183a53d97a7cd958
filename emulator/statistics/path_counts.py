"""What happened on each path of sprayed flows, from the facts that agents report at the end of a run."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from emulator.run_folder.manifest import Manifest

_PREFIX = "multipath.path"


@dataclass(frozen=True, slots=True)
class PathCounts:
    """One entropy value, over all flows of a run, warm-up included.

    Attributes:
        path: number of the entropy value, from 0.
        packets, retransmits: sent, and those of them that had been sent before.
        lost, trimmed, marked: packets, as senders have learned.
        retirements: how often a sender stopped using it.
    """

    path: int
    packets: int
    retransmits: int
    lost: int
    trimmed: int
    marked: int
    retirements: int


def path_counts(manifest: Manifest) -> tuple[PathCounts, ...]:
    """By path; empty if no flow was sprayed, or the run did not complete."""
    found: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for host in manifest.hosts:
        for name, fact in host.transport.items():
            if name.startswith(_PREFIX) and isinstance(fact.value, int):
                path, _, counter = name.removeprefix(_PREFIX).partition(".")
                found[int(path)][counter] += fact.value
    return tuple(PathCounts(path, **found[path]) for path in sorted(found))
