"""The slowest instance of each class so far, while a run goes on.

Memory: one entry per instance in progress, and one per class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from emulator.results.run_folder.schema import Columns
from emulator.trace.meaning.model import CommKind

_PAIR_MEMBERS = 2
_COLUMNS = ("kind", "group_size", "size_bytes", "algorithm", "instance", "rank", "post_ns", "done_ns", "arrival_ns")


class Class(NamedTuple):
    """What instances have in common that the summary puts into one row."""

    kind: str
    members: int
    size_bytes: int
    algorithm: str
    is_between_hosts: bool


class Instance(NamedTuple):
    """A collective or pair of an iteration."""

    iteration: int
    number: int


@dataclass(slots=True)
class _Progress:
    """Members of an instance that are done; times as the statistics of collectives take them."""

    missing: int
    last_post_ns: int
    last_done_ns: int
    last_arrival_ns: int  # 0: none yet
    size_bytes: int
    hosts: set[int]


class WorstInstances:
    """Finds the slowest instance of each class.

    Args:
        hosts: host of each rank.
    """

    def __init__(self, hosts: Sequence[int]) -> None:
        self._hosts = hosts
        self._open: dict[Instance, _Progress] = {}
        self._slowest: dict[Class, tuple[int, Instance]] = {}  # time in ns

    @property
    def found(self) -> frozenset[Instance]:
        """The slowest instance of each class."""
        return frozenset(instance for _, instance in self._slowest.values())

    def note(self, iteration: int, samples: Columns) -> list[int]:
        """Take members that are done; returns the instances that are now the slowest of their class.

        Args:
            iteration: of all samples; warm-up, below 0, does not count.
            samples: columns as of the samples table.
        """
        if iteration < 0 or not len(samples["rank"]):
            return []
        columns = [samples[name] for name in _COLUMNS]
        rows = zip(*(one.tolist() if hasattr(one, "tolist") else one for one in columns), strict=True)
        return [instance for row in rows if (instance := self._note(iteration, *row)) is not None]

    def _note(
        self,
        iteration: int,
        kind: str,
        members: int,
        size_bytes: int,
        algorithm: str,
        number: int,
        rank: int,
        post_ns: int,
        done_ns: int,
        arrival_ns: int | None,
    ) -> int | None:
        if members < 2 or not (size_bytes or kind == CommKind.BARRIER.label):
            return None  # complete at once
        is_pair = kind in (CommKind.SEND.label, CommKind.RECV.label)
        if is_pair:  # from the post of the send to the arrival of the last byte
            members, algorithm = _PAIR_MEMBERS, ""
            post_ns, done_ns = (post_ns, 0) if kind == CommKind.SEND.label else (0, done_ns)
            kind = CommKind.SEND.label
        instance = Instance(iteration, number)
        progress = self._open.setdefault(instance, _Progress(members, 0, 0, 0, 0, set()))
        progress.missing -= 1
        progress.last_post_ns = max(progress.last_post_ns, post_ns)
        progress.last_done_ns = max(progress.last_done_ns, done_ns)
        progress.last_arrival_ns = max(progress.last_arrival_ns, arrival_ns or 0)
        progress.size_bytes = max(progress.size_bytes, size_bytes)
        progress.hosts.add(self._hosts[rank])
        if progress.missing:
            return None
        del self._open[instance]
        of = Class(kind, members, progress.size_bytes, algorithm, len(progress.hosts) > 1)
        return self._compare(instance, of, (progress.last_arrival_ns or progress.last_done_ns) - progress.last_post_ns)

    def _compare(self, instance: Instance, of: Class, time_ns: int) -> int | None:
        if of in self._slowest and self._slowest[of][0] >= time_ns:
            return None
        self._slowest[of] = (time_ns, instance)
        return instance.number
