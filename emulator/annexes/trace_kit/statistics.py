"""What is counted of a trace set so that another one like it can be drawn."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from emulator.trace.meaning.model import CommKind, Communication, IntArray, RankProgram, Workload

Ranks = tuple[int, ...]


class MemberPart(NamedTuple):
    """What one member contributes to an operation: size and splits in bytes."""

    size_bytes: int
    send_splits: tuple[int, ...] | None
    recv_splits: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Family:
    """Process groups, or pairs of sender and receiver, that perform the same operations; they perform them together.

    Attributes:
        ranks: of each group; of a pair (sender, receiver).
        groups: index of each group in the workload; empty for pairs.
        kinds: kind of each operation in order; SEND for messages.
        roots: world rank of the root of each operation, by group; -1: none.
        parts: of each operation, by group and member.
    """

    ranks: Sequence[Ranks]
    groups: Sequence[int]
    kinds: Sequence[CommKind]
    roots: Sequence[Sequence[int]]
    parts: Sequence[Sequence[Sequence[MemberPart]]]


class Symbol(NamedTuple):
    """A kind of step: which family performs which collective; SEND for messages."""

    family: int
    kind: CommKind


class GapKey(NamedTuple):
    """Gaps before an operation: of which role, in which family, of which kind. family -1: after the last operation."""

    role: int
    family: int
    kind: CommKind


@dataclass(frozen=True, slots=True)
class Statistics:
    """The statistics of a trace set.

    Attributes:
        roles: rank → role; ranks that perform operations of the same kinds and sizes in the same order have one role
            (uneven all-to-alls: of any sizes).
        families: see `Family`.
        steps: the operations of the set, those of a family together, in the order of their mean place.
        gaps_ns: key → compute time before such an operation, each int64, shape (times observed,), ns.
    """

    ranks: int
    roles: Sequence[int]
    families: Sequence[Family]
    steps: Sequence[Symbol]
    gaps_ns: Mapping[GapKey, IntArray]


_END = -1


def statistics_of(workload: Workload) -> Statistics:
    """Count a trace set. About 1 µs a node."""
    roles = _roles(workload)
    streams = _streams(workload)
    families, family_of = _families(workload, streams, roles)
    return Statistics(
        ranks=len(workload.programs),
        roles=roles,
        families=families,
        steps=_steps(workload, families, family_of, streams),
        gaps_ns=_gaps(workload, roles, family_of),
    )


def gaps_ns(program: RankProgram) -> IntArray:
    """Compute time of a rank before each communication and after the last: int64, shape (communications + 1,), ns.

    That of all nodes between two communications in canonical order.
    """
    done = np.concatenate([[0], np.cumsum(program.duration_ns)])
    positions = np.fromiter(program.communications, dtype=np.int64)
    marks = np.concatenate([[0], done[positions], done[-1:]])
    return np.diff(marks)


class Stream(NamedTuple):
    """What carries operations one after the other: a process group, or (sender, receiver, tag)."""

    group: int
    sender: int = -1
    receiver: int = -1
    tag: int = 0


def stream_of(rank: int, node: Communication) -> Stream:
    """The stream of a rank's communication."""
    if node.kind.is_collective:
        return Stream(node.group)
    sender, receiver = (rank, node.peer) if node.kind is CommKind.SEND else (node.peer, rank)
    return Stream(node.group, sender, receiver, node.tag)


def _roles(workload: Workload) -> list[int]:
    known: dict[object, int] = {}
    return [known.setdefault(_signature(workload, program), len(known)) for program in workload.programs]


def _signature(workload: Workload, program: RankProgram) -> object:
    return tuple((*_shape(node), len(workload.groups[node.group])) for node in program.communications.values())


def _shape(node: Communication) -> tuple[CommKind, int]:
    """Kind and size; the size of an uneven all-to-all is that of one rank, and tells nothing of its role."""
    return node.kind, node.size_bytes if node.send_splits is None else -1


def _streams(workload: Workload) -> dict[Stream, dict[int, list[Communication]]]:
    """Stream → its members, by rank, each with its nodes in order; of a pair only the sender."""
    found: dict[Stream, dict[int, list[Communication]]] = defaultdict(lambda: defaultdict(list))
    for program in workload.programs:
        for node in program.communications.values():
            if node.kind is not CommKind.RECV:
                found[stream_of(program.rank, node)][program.rank].append(node)
    return found


def _families(
    workload: Workload, streams: Mapping[Stream, Mapping[int, Sequence[Communication]]], roles: Sequence[int]
) -> tuple[list[Family], dict[Stream, int]]:
    """Families, and stream → number of its family."""
    alike: dict[object, list[Stream]] = defaultdict(list)
    for stream, by_rank in streams.items():
        ranks = _ranks(workload, stream)
        first = next(iter(by_rank.values()))
        key = (
            stream.sender < 0,
            tuple(roles[rank] for rank in ranks),
            tuple(_shape(one) for one in first),
        )
        alike[key].append(stream)
    families = [_family(workload, members, streams) for members in alike.values()]
    return families, {stream: number for number, members in enumerate(alike.values()) for stream in members}


def _ranks(workload: Workload, stream: Stream) -> Ranks:
    return workload.groups[stream.group].ranks if stream.sender < 0 else (stream.sender, stream.receiver)


def _family(
    workload: Workload, members: Sequence[Stream], streams: Mapping[Stream, Mapping[int, Sequence[Communication]]]
) -> Family:
    first = next(iter(streams[members[0]].values()))
    count = range(len(first))
    by_stream = [streams[stream] for stream in members]
    return Family(
        ranks=[_ranks(workload, stream) for stream in members],
        groups=[stream.group for stream in members if stream.sender < 0],
        kinds=[node.kind for node in first],
        roots=[[next(iter(one.values()))[at].root for one in by_stream] for at in count],
        parts=[[[_part(nodes[at]) for nodes in one.values()] for one in by_stream] for at in count],
    )


def _part(node: Communication) -> MemberPart:
    return MemberPart(node.size_bytes, node.send_splits, node.recv_splits)


def _steps(
    workload: Workload,
    families: Sequence[Family],
    family_of: Mapping[Stream, int],
    streams: Mapping[Stream, Mapping[int, Sequence[Communication]]],
) -> list[Symbol]:
    """The k-th operations of a family's streams are one step; its place is their mean place in their ranks' order."""
    place: dict[tuple[int, int], list[float]] = defaultdict(list)
    for program in workload.programs:
        total = len(program.communications)
        seen: dict[Stream, int] = defaultdict(int)
        for number, node in enumerate(program.communications.values()):
            stream = stream_of(program.rank, node)
            place[family_of[stream], seen[stream]].append(number / total)
            seen[stream] += 1
    ordered = sorted(place, key=lambda step: (float(np.mean(place[step])), step))
    return [Symbol(family, families[family].kinds[at]) for family, at in ordered]


def _gaps(workload: Workload, roles: Sequence[int], family_of: Mapping[Stream, int]) -> dict[GapKey, IntArray]:
    found: dict[GapKey, list[int]] = defaultdict(list)
    for program in workload.programs:
        role, times = roles[program.rank], gaps_ns(program).tolist()
        for node, time in zip(program.communications.values(), times, strict=False):
            found[GapKey(role, family_of[stream_of(program.rank, node)], node.kind)].append(time)
        found[GapKey(role, _END, CommKind.BARRIER)].append(times[-1])
    return {key: np.array(values, dtype=np.int64) for key, values in found.items()}


def last_gap(role: int) -> GapKey:
    """The key of the compute time after the last operation of a role."""
    return GapKey(role, _END, CommKind.BARRIER)
