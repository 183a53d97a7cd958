"""Closed forms of broadcast and reduce: every root, bytes per member, and reduce as the reverse of broadcast."""

from __future__ import annotations

import pytest

from emulator.planner.collectives.trees import CHUNK_BYTES, binomial
from emulator.trace.meaning.model import CommKind
from tests.support.schedules import bytes_per_member, lanes_by_member, view

BROADCAST, REDUCE = CommKind.BROADCAST, CommKind.REDUCE
GROUPS = [(2, 0), (2, 1), (3, 2), (5, 0), (8, 3)]


@pytest.mark.parametrize(("members", "root"), GROUPS)
def test_bytes_by_algorithm(members: int, root: int) -> None:
    for member in range(members):
        position = (member - root) % members
        received = 0 if position == 0 else 100
        children = len(binomial(members, member, root).children)
        sent = {"tree": children * 100, "ring": 100 * (position < members - 1)}
        sent["parallel"] = (members - 1) * 100 if position == 0 else 0
        for name, size in sent.items():
            assert bytes_per_member(name, view(BROADCAST, members, member, 100, root)) == (size, received)


@pytest.mark.parametrize("chunks", [1, 2, 5])
def test_a_ring_is_pipelined_in_chunks(chunks: int) -> None:
    first, middle, last = lanes_by_member("ring", BROADCAST, 3, chunks * CHUNK_BYTES)
    assert [len(lane) for (lane,) in (first, middle, last)] == [chunks, chunks + 1, chunks]
    assert all(send.size == CHUNK_BYTES for step in first[0] for send in step.sends)


def test_trees_and_parallel_send_the_array_at_once() -> None:
    for name in ("tree", "parallel"):
        for lanes in lanes_by_member(name, BROADCAST, 4, 5 * CHUNK_BYTES):
            sizes = {transfer.size for step in lanes[0] for transfer in (*step.sends, *step.recvs)}
            assert sizes == {5 * CHUNK_BYTES}
