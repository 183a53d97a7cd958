from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.errors import TraceError
from emulator.trace.meaning import Meaning
from emulator.trace.model import CommKind, NodeType, RawCommunication
from emulator.trace.splits import split_matrix

Splits = tuple[int, ...] | None


def member(rank: int, size: int, send: Splits = None, recv: Splits = None) -> Meaning:
    raw = RawCommunication(row=0, node_id=40 + rank, name="a2a", node_type=NodeType.COMM_COLL)
    kind = CommKind.ALL_TO_ALL
    return Meaning(f"trace.{rank}.et", rank, 0, raw, kind, 0, size, send_splits=send, recv_splits=recv)


def matrix(*members: Meaning) -> list[list[int]] | None:
    found = split_matrix(members)
    return None if found is None else found.tolist()


def test_without_any_splits_there_is_no_matrix() -> None:
    assert matrix(member(0, 10), member(1, 10)) is None


def test_the_senders_alone_fill_the_matrix() -> None:
    assert matrix(member(0, 10, (3, 7)), member(1, 6, (6, 0))) == [[3, 7], [6, 0]]


def test_the_receivers_alone_fill_the_matrix() -> None:
    assert matrix(member(0, 10, recv=(3, 6)), member(1, 6, recv=(7, 0))) == [[3, 7], [6, 0]]


def test_what_a_sender_does_not_say_its_receivers_do() -> None:
    assert matrix(member(0, 10, recv=(3, 6)), member(1, 6, (6, 0), (7, 0))) == [[3, 7], [6, 0]]


def test_a_member_that_says_nothing_sends_near_equal_blocks_longer_ones_first() -> None:
    assert matrix(member(0, 8), member(1, 6, (0, 5, 1)), member(2, 0, (0, 0, 0))) == [[3, 3, 2], [0, 5, 1], [0, 0, 0]]


def test_a_receiver_that_expects_something_else_is_named_with_both_files() -> None:
    with pytest.raises(TraceError) as error:
        split_matrix([member(0, 10, (3, 7)), member(1, 6, (6, 0), (8, 0))])
    assert str(error.value) == (
        "trace.0.et, node 40: sends 7 bytes to rank 1, whose node 41 (trace.1.et) expects 8 bytes from it"
    )


@pytest.mark.parametrize(
    "members", [(member(0, 10, (3, 6)), member(1, 6)), (member(0, 10, recv=(3, 3)), member(1, 6, recv=(6, 3)))]
)
def test_a_row_that_is_not_the_size_of_its_member_is_an_error(members: tuple[Meaning, ...]) -> None:
    with pytest.raises(
        TraceError, match=r"node 40: sends 9 bytes by the splits of its all_to_all, but .* says 10 bytes"
    ):
        split_matrix(members)


@given(
    st.integers(2, 6).flatmap(
        lambda n: st.lists(st.lists(st.integers(0, 99), min_size=n, max_size=n), min_size=n, max_size=n)
    ),
    st.data(),
)
def test_any_mixture_that_covers_the_matrix_gives_it_back(rows: list[list[int]], data: st.DataObject) -> None:
    whole = np.array(rows)
    says_sends = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    members = [
        member(
            rank,
            int(whole[rank].sum()),
            tuple(rows[rank]) if says_sends[rank] else None,
            None if all(says_sends) else tuple(whole[:, rank].tolist()),
        )
        for rank in range(len(rows))
    ]
    assert matrix(*members) == rows
