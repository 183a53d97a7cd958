"""What makes a communication of one trace set the counterpart of one in another: its place, not its names."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from emulator.errors import format_ranks
from emulator.trace.meaning.model import CommKind, Communication, Workload

Ranks = tuple[int, ...]


class OperationPlace(NamedTuple):
    """Where an operation stands in a trace set.

    Attributes:
        ranks: of the process group, or (sender, receiver).
        stream: which of the groups with these ranks, or of the tags between these two, in the order of their first use.
        number: from 0: the k-th operation there.
        is_message: a send with its receive.
    """

    ranks: Ranks
    stream: int
    number: int
    is_message: bool

    def __str__(self) -> str:
        if self.is_message:
            return (
                f"message {self.number + 1} from rank {self.ranks[0]} to {self.ranks[1]}{_ordinal('tag', self.stream)}"
            )
        return f"collective {self.number + 1} of ranks {format_ranks(self.ranks)}{_ordinal('group', self.stream)}"


@dataclass(frozen=True, slots=True)
class Member:
    """A rank's part in an operation."""

    rank: int
    node: Communication


def places(workload: Workload) -> dict[int, OperationPlace]:
    """Instance → its place."""
    group_number = _group_numbers(workload)
    tag_number: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    found: dict[int, OperationPlace] = {}
    for rank, node in _nodes(workload):
        if node.kind.is_collective:
            ranks = workload.groups[node.group].ranks
            found[node.instance] = OperationPlace(
                ranks, group_number[node.group], node.index_in_group, is_message=False
            )
        elif node.kind is CommKind.SEND:
            tags = tag_number[rank, node.peer]
            stream = tags.setdefault(node.tag, len(tags))
            found[node.instance] = OperationPlace((rank, node.peer), stream, node.index_in_group, is_message=True)
    return found


def members(workload: Workload) -> dict[int, list[Member]]:
    """Instance → its members, by rank."""
    found: dict[int, list[Member]] = defaultdict(list)
    for rank, node in _nodes(workload):
        found[node.instance].append(Member(rank, node))
    return found


def used_groups(workload: Workload) -> Counter[Ranks]:
    """Ranks → how many groups with these ranks perform collectives."""
    return Counter(workload.groups[group].ranks for group in _group_numbers(workload))


def _group_numbers(workload: Workload) -> dict[int, int]:
    """Group → which of the groups with its ranks it is, in the order of their first use."""
    of_ranks: dict[Ranks, dict[int, int]] = defaultdict(dict)
    for _, node in _nodes(workload):
        if node.kind.is_collective:
            known = of_ranks[workload.groups[node.group].ranks]
            known.setdefault(node.group, len(known))
    return {group: number for known in of_ranks.values() for group, number in known.items()}


def _nodes(workload: Workload) -> Iterator[tuple[int, Communication]]:
    return ((program.rank, node) for program in workload.programs for node in program.communications.values())


def _ordinal(what: str, stream: int) -> str:
    return f" ({what} {stream + 1} of those)" if stream else ""
