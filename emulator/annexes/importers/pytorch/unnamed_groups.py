"""What no rank recorded alone, settled by what all of them did: unnamed process groups, and receives from any rank.

A call can only be in a process group whose other members made such a call as well: of the same kind and size, or the
other end of a message. What leaves one process group is taken; what leaves several that differ is refused.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from emulator.annexes.importers.model import Fate, ImportedRank, RecordedOperation
from emulator.errors import TraceError
from emulator.trace.meaning.model import CommKind

_SIZES_DIFFER = {CommKind.ALL_TO_ALL, CommKind.BARRIER, CommKind.SCATTER}
_MOST_SHOWN = 6
ANY = -1


@dataclass(slots=True, eq=False)
class _Open:
    """A call whose process group is not settled, and the members of those that it may be in."""

    rank: int
    operation: RecordedOperation
    choices: list[tuple[int, ...]]

    def peer(self, members: Sequence[int]) -> int | None:
        """World rank of the other end of a message, ANY; None: there cannot be one."""
        one = self.operation
        if one.is_from_any:
            return ANY
        if one.peer_in_world >= 0:
            return one.peer_in_world if one.peer_in_world in members else None
        return members[one.peer] if 0 <= one.peer < len(members) and members[one.peer] != self.rank else None


def settle_unnamed_groups(ranks: Sequence[ImportedRank], world: Sequence[int]) -> None:
    """Set the process groups of operations with candidates, and the senders of receives from any rank.

    Raises:
        TraceError: several process groups are possible, or none; or no send fits a receive.
    """
    names: dict[tuple[int, ...], str] = {}
    for one in ranks:
        for name, members in one.groups.items():
            names.setdefault(members or tuple(world), name)
    by_rank = {one.rank: one for one in ranks}
    waiting = [
        _Open(one.rank, operation, [members or tuple(world) for members in operation.candidates])
        for one in ranks
        for operation in one.operations
        if operation.candidates
    ]
    if waiting:
        _narrow(waiting, ranks, world)
        for call in waiting:
            _settle(call, by_rank[call.rank], names, world)
    _find_senders(by_rank, world)


def _narrow(waiting: Sequence[_Open], ranks: Sequence[ImportedRank], world: Sequence[int]) -> None:
    """Leave out process groups of which a member made no such call, until nothing changes."""
    settled = [
        _Open(one.rank, operation, [operation.ranks or tuple(world)])
        for one in ranks
        for operation in one.operations
        if not operation.candidates
    ]
    present = {one.rank for one in ranks}
    while True:
        callers: defaultdict[Hashable, set[int]] = defaultdict(set)
        for one in (*settled, *waiting):
            for members in one.choices:
                for key in _offered(one, members):
                    callers[key].add(one.rank)
        is_same = True
        for one in waiting:
            left = [members for members in one.choices if _is_possible(one, members, callers, present)]
            is_same = is_same and len(left) == len(one.choices)
            one.choices = left
        if is_same:
            return


def _offered(one: _Open, members: tuple[int, ...]) -> Iterator[Hashable]:
    """What a call in a process group means for the calls of others."""
    kind, size = one.operation.kind, one.operation.size_bytes
    if kind.is_collective:
        yield kind, 0 if kind in _SIZES_DIFFER else size, members
    elif (peer := one.peer(members)) is not None:
        yield kind, size, one.operation.tag, peer


def _is_possible(one: _Open, members: tuple[int, ...], callers: Mapping[Hashable, set[int]], present: set[int]) -> bool:
    operation = one.operation
    if operation.kind.is_collective:
        [key] = _offered(one, members)
        return present.intersection(members) <= callers.get(key, set())
    peer = one.peer(members)
    if peer is None:
        return False
    if peer == ANY or peer not in present:
        return True
    other = CommKind.RECV if operation.kind is CommKind.SEND else CommKind.SEND
    return any(peer in callers.get((other, operation.size_bytes, operation.tag, end), ()) for end in (one.rank, ANY))


def _settle(one: _Open, rank: ImportedRank, names: Mapping[tuple[int, ...], str], world: Sequence[int]) -> None:
    operation = one.operation
    everyone, what = tuple(world), "process group not recorded"
    if not operation.kind.is_collective:
        peers = {one.peer(members) for members in one.choices}
        if len(peers) == 1 and not operation.is_from_any:
            [peer] = peers
            operation.peer = ANY if peer is None else peer
        if len(peers) <= 1 and one.choices:
            one.choices = [everyone]
    if not one.choices:
        listed = _listed([members or everyone for members in operation.candidates], names)
        problem = f"{operation.where}: fits none of the process groups of this rank ({listed})"
        lacking = "not all of their members made this call"
        if not operation.kind.is_collective:
            lacking = f"no rank in them recorded the other end of this {operation.kind.label}"
        raise TraceError(f"{problem}: {lacking}", rank=rank.rank)
    is_barrier = operation.kind is CommKind.BARRIER and everyone in one.choices  # it moves no bytes
    if len(one.choices) > 1 and not is_barrier:
        problem = f"{operation.where}: the process group of this {operation.kind.label} is not recorded; it may be"
        advice = 'name it at the call, `with record_function("pg=NAME"): …`, and record again'
        raise TraceError(f"{problem} {_listed(one.choices, names)}: {advice}", rank=rank.rank)
    chosen = everyone if is_barrier else one.choices[0]
    operation.ranks, operation.candidates = () if chosen == everyone else chosen, ()
    if operation.kind.is_collective and operation.group is None and chosen != everyone:
        operation.group = names.get(chosen)
    if len(one.choices) > 1:
        rank.losses.count(Fate.GUESSED, f"{what}: all ranks taken for a barrier", operation.where)
    else:
        operation.is_guess = False
        rank.losses.count(Fate.INFERRED, f"{what}: the only one that fits the calls of its ranks", operation.where)


def _listed(choices: Sequence[tuple[int, ...]], names: Mapping[tuple[int, ...], str]) -> str:
    shown = [
        f"{list(ranks[:_MOST_SHOWN])}{' …' if len(ranks) > _MOST_SHOWN else ''} "
        f"({repr(names[ranks]) if ranks in names else 'all ranks'})"
        for ranks in choices
    ]
    return ", ".join(shown[:-1]) + f" or {shown[-1]}" if len(shown) > 1 else shown[0]


def _find_senders(ranks: Mapping[int, ImportedRank], world: Sequence[int]) -> None:
    """Give each receive from any rank the first send that no other receive needs, of the same tag and size."""
    takers = [one.rank for one in ranks.values() if any(operation.is_from_any for operation in one.operations)]
    for rank in takers:
        sends: defaultdict[int, defaultdict[int, deque[int]]] = defaultdict(lambda: defaultdict(deque))
        for source, sender in ranks.items():
            for one in sender.operations:
                if one.kind is CommKind.SEND and (one.ranks or world)[one.peer] == rank:
                    sends[one.tag][source].append(one.size_bytes)
        mine = [one for one in ranks[rank].operations if one.kind is CommKind.RECV]
        needed: defaultdict[tuple[int, int], int] = defaultdict(int)
        for one in mine:
            if not one.is_from_any:
                needed[one.tag, (one.ranks or world)[one.peer]] += 1
        for one in mine:
            queues, members = sends[one.tag], one.ranks or world
            if one.is_from_any:
                fitting = [
                    source
                    for source, sizes in queues.items()
                    if source in members and len(sizes) > needed[one.tag, source] and sizes[0] == one.size_bytes
                ]
                if not fitting:
                    problem = f"{one.where}: no rank sends {one.size_bytes} bytes with tag {one.tag} that are not"
                    raise TraceError(f"{problem} received already: record all ranks over the same steps", rank=rank)
                one.peer = list(members).index(fitting[0])
                fate = Fate.GUESSED if len(fitting) > 1 else Fate.INFERRED
                ranks[rank].losses.count(fate, "sender of a receive from any rank: by tag, size and order", one.where)
            else:
                needed[one.tag, members[one.peer]] -= 1
            if queue := queues.get(members[one.peer]):
                queue.popleft()
