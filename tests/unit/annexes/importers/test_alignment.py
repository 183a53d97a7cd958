"""Calls that some ranks lost are left out; holes and unequal parts are errors."""

from collections import defaultdict
from collections.abc import Sequence

import pytest

from emulator.annexes.importers.alignment import LossesOfRanks, align_collectives, align_messages
from emulator.annexes.importers.model import Fate, Losses, RecordedOperation
from emulator.annexes.importers.recorded_calls import RecordedCall
from emulator.errors import TraceError
from emulator.trace.meaning.model import CommKind


def counts() -> LossesOfRanks:
    return defaultdict(Losses)


def collectives(*numbers: int, kind: CommKind = CommKind.ALL_REDUCE, ranks: tuple[int, ...] = ()) -> list[RecordedCall]:
    return [
        RecordedCall(
            RecordedOperation(where=f"call {one}", name="", kind=kind, size_bytes=8, group="g", ranks=ranks), number=one
        )
        for one in numbers
    ]


def messages(kind: CommKind, peer: int, *sizes: int) -> list[RecordedCall]:
    return [
        RecordedCall(RecordedOperation(where="", name="", kind=kind, size_bytes=one, ranks=(), peer=peer))
        for one in sizes
    ]


def numbers(calls: Sequence[RecordedCall]) -> list[int | None]:
    return [one.number for one in calls]


def test_ends_that_some_lack_are_left_out() -> None:
    calls, losses = {0: collectives(2, 3, 4), 1: collectives(1, 2, 3)}, counts()
    align_collectives(calls, range(2), losses)
    assert [numbers(calls[rank]) for rank in (0, 1)] == [[2, 3], [2, 3]]
    assert [losses[rank].number(Fate.DROPPED) for rank in (0, 1)] == [1, 1]


def test_ranks_that_share_nothing_keep_nothing() -> None:
    calls = {0: collectives(1, 2), 1: collectives(5), 2: []}
    align_collectives(calls, range(3), counts())
    assert calls == {0: [], 1: [], 2: []}


def test_a_hole_of_one_rank_is_an_error_and_of_all_none() -> None:
    with pytest.raises(TraceError, match="rank 1: call 1: collective 2 of its process group, which other ranks have"):
        align_collectives({0: collectives(1, 2, 3), 1: collectives(1, 3)}, range(2), counts())
    calls = {rank: collectives(1, 3) for rank in range(2)}
    align_collectives(calls, range(2), counts())
    assert numbers(calls[0]) == [1, 3]


def test_kinds_that_are_numbered_apart_may_have_holes() -> None:
    apart = {kind: kind for kind in CommKind}
    gather = CommKind.ALL_GATHER
    calls = {0: collectives(1, 2, 3), 1: collectives(1, 3) + collectives(2, kind=gather)}
    align_collectives(calls, range(2), counts(), key=apart)
    assert [numbers(calls[rank]) for rank in (0, 1)] == [[1, 3], [1, 3]]


def test_only_ranks_of_the_group_that_are_there_count() -> None:
    calls = {0: collectives(1, 2, ranks=(0, 2)), 1: []}
    align_collectives(calls, range(3), counts())
    assert numbers(calls[0]) == [1, 2]


def test_messages_are_paired_from_the_start_or_from_the_end() -> None:
    for cut, kept in (((), [1, 2]), ((0,), [2, 3])):
        calls = {0: messages(CommKind.SEND, 1, 1, 2, 3), 1: messages(CommKind.RECV, 0, *kept)}
        losses = counts()
        align_messages(calls, range(2), losses, without_beginning=cut)
        assert [one.operation.size_bytes for one in calls[0]] == kept
        assert losses[0].number(Fate.DROPPED) == 1
        assert sum(one.number(Fate.GUESSED) for one in losses.values()) == (4 if cut else 0)


def test_messages_to_ranks_without_a_file_stay() -> None:
    calls = {0: messages(CommKind.SEND, 1, 1)}
    align_messages(calls, range(2), counts())
    assert len(calls[0]) == 1
