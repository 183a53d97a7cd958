"""The process group of every call: named by the call, by a note of the user, or guessed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from emulator.annexes.importers.model import Fate, Losses, RecordedOperation
from emulator.errors import TraceError

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
        if operation.peer < 0 <= operation.peer_in_world:
            self._settle_peer(operation)

    def _settle_peer(self, operation: RecordedOperation) -> None:
        """From the world rank of the peer to its rank within the group."""
        peer, members = operation.peer_in_world, operation.ranks
        if members and peer not in members:
            shown = f"{list(members)[:8]}{' …' if len(members) > 8 else ''}"
            problem = f"{operation.where}: the peer, rank {peer}, is not in the process group, which has ranks {shown}"
            raise TraceError(problem, rank=self._rank)
        operation.peer = members.index(peer) if members else peer

    def _ranks(self, operation: RecordedOperation) -> tuple[int, ...]:
        group = operation.group or ""
        if group in self._known:
            return self._all_as_empty(self._known[group])
        if operation.ranks:
            return self._all_as_empty(operation.ranks)
        if self._world_size and operation.group_size == self._world_size:
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
        return not operation.group_size or not size or operation.group_size == size

    def _all_as_empty(self, ranks: Sequence[int]) -> tuple[int, ...]:
        return () if self._world_size and len(set(ranks)) == self._world_size else tuple(ranks)
