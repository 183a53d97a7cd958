"""Two trace sets compared: everything that matters to a run, aspect by aspect.

What makes a communication of one set the counterpart of one in another is its place, not its names.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from emulator.errors import format_ranks
from emulator.trace.meaning.model import CommKind, Communication, IntArray, RankProgram, RankTrace, Workload
from emulator.trace.meaning.order import communication_dependencies
from emulator.units import NS_PER_US, format_duration, format_size

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


SHOWN_PLACES = 3
_Waits = dict[tuple[int, OperationPlace], frozenset[OperationPlace]]


class Aspect(StrEnum):
    """What is compared; the order is that of the report."""

    RANKS = "ranks"
    GROUPS = "process groups"
    OPERATIONS = "operations"
    TYPES = "types"
    SIZES = "sizes"
    ROOTS = "roots"
    DEPENDENCIES = "dependencies"
    STORAGE = "storage"
    COMPUTE = "compute nodes"
    NAMES = "names"
    DURATIONS = "durations"


@dataclass(slots=True)
class TraceFinding:
    """How two sets differ in one aspect.

    Attributes:
        differing: how many things differ, or are in one set only.
        compared: how many were compared.
        first: the first of them in words.
    """

    differing: int = 0
    compared: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, differs: bool, words: Callable[[], str]) -> None:
        """Count one thing that was compared."""
        self.compared += 1
        if differs:
            self.differing += 1
            if len(self.first) < SHOWN_PLACES:
                self.first.append(words())


@dataclass(frozen=True, slots=True)
class ComparedSet:
    """A trace set: its traces by rank, and the workload they make."""

    traces: Sequence[RankTrace]
    workload: Workload


@dataclass(frozen=True, slots=True)
class Difference:
    """How two trace sets differ.

    Attributes:
        findings: aspect → finding; an aspect that could not be compared is absent.
        duration_ratio: least, median and largest ratio (other / first) of the durations that are above 0 in both; None:
            there are none.
        tolerance: durations whose ratio is within 1 ± this count as equal.
    """

    findings: Mapping[Aspect, TraceFinding]
    duration_ratio: tuple[float, float, float] | None
    tolerance: float

    @property
    def aspects(self) -> list[Aspect]:
        """Those in which they differ."""
        return [aspect for aspect, finding in self.findings.items() if finding.differing]

    @property
    def is_same(self) -> bool:
        """Nothing differs."""
        return not self.aspects


def difference(one: ComparedSet, other: ComparedSet, *, tolerance: float = 0.0) -> Difference:
    """Compare two trace sets; names of groups and numbers of nodes and tags do not count.

    Args:
        one, other: the sets, as they were proven to be playable.
        tolerance: see `Difference`.
    """
    found = {Aspect.RANKS: _ranks(one, other), Aspect.GROUPS: _groups(one.workload, other.workload)}
    place = places(one.workload), places(other.workload)
    found |= _operations(_by_place(one.workload, place[0]), _by_place(other.workload, place[1]))
    found[Aspect.DEPENDENCIES] = _dependencies(_waits(one.workload, place[0]), _waits(other.workload, place[1]))
    found[Aspect.STORAGE] = _storage(one, other)
    found[Aspect.COMPUTE] = _compute_nodes(one.workload, other.workload)
    found[Aspect.DURATIONS], ratio = _durations(one.workload, other.workload, tolerance)
    return Difference({aspect: found[aspect] for aspect in Aspect}, ratio, tolerance)


def _ranks(one: ComparedSet, other: ComparedSet) -> TraceFinding:
    finding = TraceFinding()
    here, there = len(one.traces), len(other.traces)
    finding.add(here != there, lambda: f"{here:,} against {there:,} ranks")
    return finding


def _groups(one: Workload, other: Workload) -> TraceFinding:
    finding = TraceFinding()
    here, there = used_groups(one), used_groups(other)
    for ranks in sorted({*here, *there}):
        for number in range(max(here[ranks], there[ranks])):
            only = _only_in(number < here[ranks], number < there[ranks])
            finding.add(bool(only), lambda ranks=ranks, only=only: f"ranks {format_ranks(ranks)} {only}")  # type: ignore[misc]
    return finding


def _operations(
    here: Mapping[OperationPlace, Sequence[Member]], there: Mapping[OperationPlace, Sequence[Member]]
) -> dict[Aspect, TraceFinding]:
    """Operations by their place: presence, type, sizes, root, names."""
    aspects = (Aspect.OPERATIONS, Aspect.TYPES, Aspect.SIZES, Aspect.ROOTS, Aspect.NAMES)
    found = {aspect: TraceFinding() for aspect in aspects}
    for place in sorted({*here, *there}):
        only = _only_in(place in here, place in there)
        found[Aspect.OPERATIONS].add(bool(only), lambda place=place, only=only: f"{place} {only}")  # type: ignore[misc]
        if not only:
            _compare_operation(found, place, here[place], there[place])
    return found


def _by_place(workload: Workload, place: Mapping[int, OperationPlace]) -> dict[OperationPlace, list[Member]]:
    of_instance = members(workload)
    return {one: of_instance[instance] for instance, one in place.items()}


def _compare_operation(
    found: Mapping[Aspect, TraceFinding], place: OperationPlace, here: Sequence[Member], there: Sequence[Member]
) -> None:
    first, second = here[0].node, there[0].node
    found[Aspect.TYPES].add(
        first.kind != second.kind, lambda: f"{place}: {first.kind.label} against {second.kind.label}"
    )
    found[Aspect.SIZES].add(_sizes(here) != _sizes(there), lambda: f"{place}: {_size_text(here, there)}")
    found[Aspect.ROOTS].add(first.root != second.root, lambda: f"{place}: root {first.root} against {second.root}")
    for mine, theirs in zip(here, there, strict=True):
        names = mine.node.name, theirs.node.name
        found[Aspect.NAMES].add(
            names[0] != names[1],
            lambda rank=mine.rank, names=names: f"{place}, rank {rank}: {names[0]!r} against {names[1]!r}",  # type: ignore[misc]
        )


def _sizes(nodes: Iterable[Member]) -> list[tuple[int, object]]:
    return [(one.node.size_bytes, one.node.send_splits) for one in nodes]


def _size_text(here: Sequence[Member], there: Sequence[Member]) -> str:
    for mine, theirs in zip(here, there, strict=True):
        if mine.node.size_bytes != theirs.node.size_bytes:
            return f"{format_size(mine.node.size_bytes)} against {format_size(theirs.node.size_bytes)}"
    return "the same sizes with other splits"


def _dependencies(here: _Waits, there: _Waits) -> TraceFinding:
    """What each communication waits for, among communications."""
    finding = TraceFinding()
    for key in sorted({*here} & {*there}):
        rank, place = key
        finding.add(
            here[key] != there[key],
            lambda rank=rank, place=place, key=key: (  # type: ignore[misc]
                f"{place}, rank {rank}: waits for {len(here[key]):,} against {len(there[key]):,} communications"
                if len(here[key]) != len(there[key])
                else f"{place}, rank {rank}: waits for others"
            ),
        )
    return finding


def _waits(workload: Workload, place: Mapping[int, OperationPlace]) -> _Waits:
    """(rank, place) → places of what it waits for."""
    found: _Waits = {}
    for program in workload.programs:
        mine = [place[node.instance] for node in program.communications.values()]
        for number, waits in enumerate(communication_dependencies(program)):
            found[program.rank, mine[number]] = frozenset(mine[earlier] for earlier in waits)
    return found


def _storage(one: ComparedSet, other: ComparedSet) -> TraceFinding:
    """Reads and writes of files, in canonical order, per rank: each is traffic where there are storage hosts."""
    finding = TraceFinding()
    for rank, (here, there) in enumerate(zip(_transfers(one), _transfers(other), strict=False)):
        for number, (mine, theirs) in enumerate(zip_longest(here, there, fillvalue="none"), 1):
            finding.add(
                mine != theirs,
                lambda rank=rank, number=number, mine=mine, theirs=theirs: (  # type: ignore[misc]
                    f"rank {rank}, transfer {number:,}: {mine} against {theirs}"
                ),
            )
    return finding


def _transfers(of: ComparedSet) -> Iterator[list[str]]:
    """What each rank reads and writes, in words."""
    for trace, program in zip(sorted(of.traces, key=lambda trace: trace.rank), of.workload.programs, strict=True):
        position = np.argsort(program.order)
        moving = sorted((one for one in trace.storage if one.moves), key=lambda one: int(position[one.row]))
        yield [f"{one.action.name.lower()} of {one.size_bytes:,} bytes" for one in moving]


def _compute_nodes(one: Workload, other: Workload) -> TraceFinding:
    """Nodes that are no network communication, by what they occupy, per rank."""
    finding = TraceFinding()
    for here, there in _paired(one, other):
        counts = [Counter(program.resource.tolist()) for program in (here, there)]
        sums = [len(program) - len(program.communications) for program in (here, there)]
        finding.add(
            counts[0] != counts[1],
            lambda rank=here.rank, sums=sums: f"rank {rank}: {sums[0]:,} against {sums[1]:,} nodes",  # type: ignore[misc]
        )
    return finding


def _durations(
    one: Workload, other: Workload, tolerance: float
) -> tuple[TraceFinding, tuple[float, float, float] | None]:
    """Durations node by node in canonical order where ranks have the same nodes, else the sums of ranks."""
    finding, ratios = TraceFinding(), [np.ones(0)]
    for here, there in _paired(one, other):
        is_alike = len(here) == len(there) and bool(np.array_equal(here.resource, there.resource))
        first, second = (_times(program) if is_alike else _sums(program) for program in (here, there))
        differs = np.abs(second - first) > tolerance * first
        finding.compared += len(first)
        finding.differing += int(np.count_nonzero(differs))
        for at in np.flatnonzero(differs)[: SHOWN_PLACES - len(finding.first)].tolist():
            what = f"node {at + 1} in canonical order" if is_alike else ("compute" if at == 0 else "communication")
            times = f"{format_duration(int(first[at]))} against {format_duration(int(second[at]))}"
            finding.first.append(f"rank {here.rank}, {what}: {times}")
        both = (first > 0) & (second > 0)
        ratios.append(second[both] / first[both])
    joined = np.concatenate(ratios)
    ratio = (float(joined.min()), float(np.median(joined)), float(joined.max())) if len(joined) else None
    return finding, ratio


def _times(program: RankProgram) -> IntArray:
    """Compute time as it is played, and recorded time of communications, by position."""
    times = program.duration_ns.copy()
    for position, node in program.communications.items():
        times[position] = node.traced_duration_micros * NS_PER_US
    return times


def _sums(program: RankProgram) -> IntArray:
    communication = sum(node.traced_duration_micros for node in program.communications.values()) * NS_PER_US
    return np.array([int(program.duration_ns.sum()), communication], dtype=np.int64)


def _paired(one: Workload, other: Workload) -> Iterator[tuple[RankProgram, RankProgram]]:
    return zip(one.programs, other.programs, strict=False)


def _only_in(is_here: bool, is_there: bool) -> str:
    if is_here == is_there:
        return ""
    return "only in the first set" if is_here else "only in the second set"
