"""The process group of every call: named by the call, by a note of the user, or settled by what all ranks did.

A call can only be in a process group whose other members made such a call as well: of the same kind and size, or the
other end of a message. What leaves one process group is taken; what leaves several that differ is refused.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from emulator.annexes.importers.model import Fate, ImportedRank, Losses, RecordedOperation
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


DEFAULT_GROUP = "0"
"""Name that PyTorch gives to the group of init_process_group."""
WORLD_NOTES = ("world", "default_pg")


class GroupFinder:
    """Finds the process groups of one rank's operations.

    Args:
        known: process group → world ranks, () for all.
        descriptions: description → name.
        handles: what the operations tell their unnamed process groups apart by, in the order of their use.
        world_size: 0 if unknown.
    """

    def __init__(
        self,
        known: Mapping[str, tuple[int, ...]],
        descriptions: Mapping[str, str],
        *,
        handles: Iterable[object] = (),
        rank: int,
        world_size: int,
        losses: Losses,
    ) -> None:
        self._known, self._descriptions = known, descriptions
        self._rank, self._world_size, self._losses = rank, world_size, losses
        distinct = dict.fromkeys(one for one in handles if one is not None)
        self._numbers = {handle: number for number, handle in enumerate(distinct, 1)}

    def settle(self, operation: RecordedOperation, note: str | None) -> None:
        """Set group and ranks of an operation; () stands for all ranks.

        Raises:
            TraceError: the group is not defined, or the note names none.
        """
        if operation.group is not None:
            operation.ranks = self._ranks(operation)
        elif note is not None:
            operation.group, operation.ranks = self._noted(note, operation)
        else:
            self._guess(operation)
        if operation.peer_in_world >= 0:
            self._settle_peer(operation)
        size = len(operation.ranks or ()) or self._world_size
        if operation.group_size is not None and size not in (0, operation.group_size) and not operation.candidates:
            what = "size of a process group is not that of its list of ranks: by its ranks"
            self._losses.count(Fate.GUESSED, what, operation.where)

    def _settle_peer(self, operation: RecordedOperation) -> None:
        """From the world rank of the peer to its rank within the group."""
        peer, members = operation.peer_in_world, operation.ranks
        if members and peer not in members:
            shown = f"{list(members)[:8]}{' …' if len(members) > 8 else ''}"
            problem = f"{operation.where}: the peer, rank {peer}, is not in the process group, which has ranks {shown}"
            raise TraceError(problem, rank=self._rank)
        found = members.index(peer) if members else peer
        if operation.peer not in (ANY, found) and not operation.candidates:
            what = f"peer of a {operation.kind.label} differs between two records of its call: the rank of the world"
            self._losses.count(Fate.GUESSED, what, operation.where)
        operation.peer = found

    def _ranks(self, operation: RecordedOperation) -> tuple[int, ...]:
        group = operation.group or ""
        if ranks := self._known.get(group):
            if operation.ranks and tuple(ranks) != operation.ranks:
                problem = f"{operation.where}: process group {group!r} has ranks {list(operation.ranks)[:8]}; it is"
                raise TraceError(f"{problem} defined with {list(ranks)[:8]}", rank=self._rank)
            return self._all_as_empty(ranks)
        if group in self._known:
            return ()
        if operation.ranks:
            return self._all_as_empty(operation.ranks)
        if self._world_size and operation.shown_group_size == self._world_size:
            return ()
        if group == DEFAULT_GROUP:
            self._losses.count(
                Fate.GUESSED, "ranks of process group '0' not recorded: all ranks taken", operation.where
            )
            return ()
        problem = f"{operation.where}: the ranks of process group {group!r} are not recorded"
        raise TraceError(f"{problem}: record with a newer PyTorch, or add Kineto's trace", rank=self._rank)

    def _noted(self, note: str, operation: RecordedOperation) -> tuple[str | None, tuple[int, ...]]:
        name = note if note in self._known else self._descriptions.get(note)
        if name is None and note in WORLD_NOTES:
            return None, ()
        if name is None or name not in self._known:
            known = ", ".join(sorted({*self._known, *self._descriptions})) or "none"
            problem = f"{operation.where}: the note pg={note} names no process group of this rank (there are {known})"
            raise TraceError(problem, rank=self._rank)
        return name, self._all_as_empty(self._known[name])

    def _guess(self, operation: RecordedOperation) -> None:
        """The only group, else those that there are and all ranks: what all ranks recorded settles which of them.

        The handles of unnamed groups are addresses, which differ between ranks; their order of use does not.
        """
        groups = {name: self._all_as_empty(ranks) for name, ranks in self._known.items()}
        distinct = {*groups.values()} if len(groups) <= 1 else {(), *groups.values()}
        fitting = [ranks for ranks in distinct if self._fits(operation, ranks)]
        if len(groups) <= 1:
            operation.group = next((name for name, ranks in groups.items() if ranks in fitting), None)
            operation.ranks = fitting[0] if fitting else ()
        else:
            operation.ranks, operation.candidates = (), tuple(sorted(fitting or distinct))
        operation.is_guess = len(groups) > 1 or len(self._numbers) > 1
        if operation.group is None and len(self._numbers) > 1 and operation.handle is not None:
            operation.group = f"unnamed {self._numbers[operation.handle]}"
        if operation.candidates:
            return
        if operation.is_guess:
            self._losses.count(Fate.GUESSED, "process group not recorded: all ranks taken", operation.where)
        else:
            self._losses.count(Fate.INFERRED, "process group not recorded: the only one taken", operation.where)

    def _fits(self, operation: RecordedOperation, ranks: tuple[int, ...]) -> bool:
        size = len(ranks) or self._world_size
        return not operation.shown_group_size or not size or operation.shown_group_size == size

    def _all_as_empty(self, ranks: Sequence[int]) -> tuple[int, ...]:
        return () if self._world_size and [*ranks] == [*range(self._world_size)] else tuple(ranks)
