"""Ranks made to agree: the k-th of a group, the k-th message, uneven all-to-all, roots."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.errors import TraceError
from emulator.trace.meaning.meaning import Meaning, TraceOptions
from emulator.trace.meaning.model import CommKind, Communication, NodeType, RawCommunication, Workload
from emulator.trace.meaning.pairing import split_matrix
from emulator.trace.meaning.workload import build_workload
from tests.support.traces import Node, coll, node, rank_trace, recv, send


def build(*ranks: list[Node], groups: dict[str, tuple[int, ...]] | None = None, scale: float = 1.0) -> Workload:
    traces = [rank_trace(rank, nodes) for rank, nodes in enumerate(ranks)]
    return build_workload(traces, groups=groups, options=TraceOptions(scale_bytes=scale))


def refusal(*ranks: list[Node], groups: dict[str, tuple[int, ...]] | None = None) -> str:
    with pytest.raises(TraceError) as error:
        build(*ranks, groups=groups)
    return str(error.value)


def communications(workload: Workload, rank: int) -> dict[int, Communication]:
    return {item.node_id: item for item in workload.programs[rank].communications.values()}


# --- collectives ---


def test_kth_of_a_group_is_one_operation_whatever_the_ids() -> None:
    workload = build(
        [coll(1, "all_reduce", 8), coll(2, "all_gather", 4)],
        [coll(70, "all_gather", 4, deps=[90]), coll(90, "all_reduce", 8)],
    )
    first, second = communications(workload, 0), communications(workload, 1)
    assert first[1].instance == second[90].instance
    assert first[2].instance == second[70].instance
    assert [item.index_in_group for item in second.values()] == [0, 1]
    assert list(workload.programs[1].communications) == [0, 1]
    assert workload.instances == 2


def test_groups_count_on_their_own() -> None:
    nodes = [coll(1, "barrier", pg="a"), coll(2, "barrier", pg="b"), coll(3, "barrier", pg="a")]
    workload = build(nodes, nodes, groups={"a": (0, 1), "b": (0, 1)})
    assert [item.index_in_group for item in communications(workload, 0).values()] == [0, 0, 1]
    assert len({item.instance for item in communications(workload, 0).values()}) == 3


def test_disagreement_names_both_ranks_nodes_and_which_collective() -> None:
    groups = {"g": (0, 1)}
    message = refusal(
        [coll(1, "barrier", pg="g"), coll(2, "all_reduce", 8, "g")],
        [coll(5, "barrier", pg="g"), coll(6, "all_gather", 8, "g")],
        groups=groups,
    )
    assert message == (
        "trace.1.et, node 6: disagrees with rank 0 node 2 (trace.0.et) on collective number 2 of group g: "
        "all_gather of 8 bytes here, all_reduce of 8 bytes there"
    )
    assert "of 9 bytes here" in refusal([coll(2, "all_gather", 8)], [coll(6, "all_gather", 9)])
    assert "reduce_scatter_block" in refusal([coll(2, "reduce_scatter", 8)], [coll(6, "reduce_scatter_block", 8)])


def test_missing_collective_names_the_rank_and_the_unmatched_node() -> None:
    message = refusal([coll(1, "barrier"), coll(2, "all_reduce")], [coll(1, "barrier")], [coll(1, "barrier")])
    assert message == (
        "trace.0.et, node 2: is collective number 2 (all_reduce) of group of ranks 0-2, "
        "but rank 1 has only 1 of that group (ranks 0-2)"
    )


def test_roots_must_agree_where_several_are_named() -> None:
    assert "names root 0, but rank 0 node 1 (trace.0.et) names 1" in refusal(
        [coll(1, "reduce", root=1)], [coll(1, "reduce", root=0)]
    )
    workload = build([coll(1, "reduce")], [coll(1, "reduce", root=1)])
    assert communications(workload, 0)[1].root == 1
    assert workload.warnings == {"root named by some members only": 1}


# --- uneven all-to-all ---


def splits(workload: Workload) -> list[tuple[int, tuple[int, ...] | None, tuple[int, ...] | None]]:
    items = [next(iter(program.communications.values())) for program in workload.programs]
    return [(item.size_bytes, item.send_splits, item.recv_splits) for item in items]


def a2a(size: int | None, sends: tuple[int, ...] | None = None, recvs: tuple[int, ...] | None = None) -> list[Node]:
    return [coll(1, "all_to_all", size, in_splits=sends, out_splits=recvs)]


EXPECTED = [(10, (3, 7), (3, 1)), (6, (1, 5), (7, 5))]


@pytest.mark.parametrize(
    "ranks",
    [
        (a2a(10, (3, 7), (3, 1)), a2a(6, (1, 5), (7, 5))),
        (a2a(10, (3, 7)), a2a(6, (1, 5))),
        (a2a(10, None, (3, 1)), a2a(6, None, (7, 5))),
        (a2a(10, (3, 7)), a2a(6, (1, 5), (7, 5))),
        (a2a(10, (3, 7), (3, 1)), a2a(6, None, (7, 5))),
    ],
)
def test_what_one_side_does_not_say_is_taken_from_the_other(ranks: tuple[list[Node], ...]) -> None:
    assert splits(build(*ranks)) == EXPECTED


@pytest.mark.parametrize(
    ("ranks", "scale", "expected", "warnings"),
    [
        ((a2a(10, (3, 7)), a2a(5)), 1, [(10, (3, 7), (3, 3)), (5, (3, 2), (7, 2))], {}),
        ((a2a(10), a2a(10, ())), 1, [(10, None, None), (10, None, None)], {}),
        (
            (a2a(100, (3, 7), (3, 1)), a2a(60, (1, 5), (7, 5))),
            1,
            [(100, (30, 70), (30, 10)), (60, (10, 50), (70, 50))],
            {"all-to-all splits count rows": 2},
        ),
        ((a2a(None, (3, 7)), a2a(None, (1, 5))), 1, EXPECTED, {"all-to-all size taken from its splits": 2}),
        ((a2a(10, (1, 9)), a2a(6, (6, 0))), 0.25, [(3, (1, 2), (1, 2)), (2, (2, 0), (2, 0))], {}),
    ],
    ids=["even blocks", "no splits", "rows", "no size", "scaled"],
)
def test_splits_are_bytes_that_add_up(
    ranks: tuple[list[Node], ...], scale: float, expected: object, warnings: dict[str, int]
) -> None:
    workload = build(*ranks, scale=scale)
    assert splits(workload) == expected
    assert workload.warnings == warnings


def test_an_even_all_to_all_is_of_one_size() -> None:
    assert "disagrees" in refusal(a2a(10), a2a(11))


@pytest.mark.parametrize(
    ("ranks", "problem"),
    [
        ((a2a(10, (3, 7, 0)), a2a(6)), "sends in 3 splits, but its group has 2 ranks"),
        ((a2a(10, None, (3,)), a2a(6)), "receives in 1 splits, but its group has 2 ranks"),
        ((a2a(10, (-3, 13)), a2a(6)), "has a split of -3, which is not a valid payload"),
        ((a2a(10, None, (2**62, 0)), a2a(6)), f"has a split of {2**62}, which is not a valid payload"),
        ((a2a(10, (3, 8)), a2a(6)), "sends 11 in all by its splits, but comm_size is 10"),
        ((a2a(10, (0, 0)), a2a(6)), "sends 0 in all by its splits, but comm_size is 10"),
        (
            (a2a(10, (3, 7)), a2a(6, (1, 5), (6, 5))),
            "sends 7 bytes to rank 1, whose node 1 (trace.1.et) expects 6 bytes from it",
        ),
        (
            (a2a(10, None, (3, 1)), a2a(6, None, (8, 5))),
            "sends 11 bytes by the splits of its all_to_all, but its comm_size says 10 bytes",
        ),
    ],
)
def test_splits_that_contradict_are_refused(ranks: tuple[list[Node], ...], problem: str) -> None:
    assert refusal(*ranks) == f"trace.0.et, node 1: {problem}"


# --- messages ---


def test_messages_pair_by_peer_and_tag_in_canonical_order() -> None:
    workload = build(
        [send(1, 1, 10, tag=5), send(2, 1, 20, tag=5), send(3, 1, 30, tag=6)],
        [recv(1, 0, 30, tag=6), recv(8, 0, 20, tag=5, deps=[9]), recv(9, 0, 10, tag=5)],
    )
    sends, recvs = communications(workload, 0), communications(workload, 1)
    pairs = [(1, 9), (2, 8), (3, 1)]
    for sent, received in pairs:
        assert sends[sent].instance == recvs[received].instance
        assert sends[sent].index_in_group == recvs[received].index_in_group
    assert (sends[2].peer, sends[2].tag, sends[2].index_in_group, sends[2].group) == (1, 5, 1, 0)
    assert (recvs[8].peer, recvs[8].kind, workload.instances) == (0, CommKind.RECV, 3)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (
            [send(1, 1), send(2, 1)],
            [recv(1, 0)],
            "trace.0.et, node 2: sends message 2 with tag 0 to rank 1, which has only 1 such receives",
        ),
        (
            [send(1, 1, tag=4)],
            [recv(7, 0, tag=5)],
            "trace.0.et, node 1: sends message 1 with tag 4 to rank 1, which has only 0 such receives",
        ),
        (
            [node(1)],
            [recv(7, 0)],
            "trace.1.et, node 7: receives message 1 with tag 0 from rank 0, which has only 0 such sends",
        ),
        (
            [send(1, 1, 8)],
            [recv(7, 0, 9)],
            (
                "trace.1.et, node 7: receives 9 bytes, but its partner, rank 0 node 1 (trace.0.et), sends 8 bytes "
                "(message 1 from rank 0 with tag 0)"
            ),
        ),
    ],
)
def test_message_without_its_partner_is_refused(first: list[Node], second: list[Node], message: str) -> None:
    assert refusal(first, second) == message


def test_messages_are_scaled() -> None:
    workload = build([send(1, 1, 8)], [recv(1, 0, 8)], scale=0.5)
    assert {communications(workload, rank)[1].size_bytes for rank in (0, 1)} == {4}


Splits = tuple[int, ...] | None


def member(rank: int, size: int, send: Splits = None, recv: Splits = None) -> Meaning:
    raw = RawCommunication(row=0, node_id=40 + rank, name="a2a", node_type=NodeType.COMM_COLL)
    kind = CommKind.ALL_TO_ALL
    return Meaning(f"trace.{rank}.et", rank, 0, raw, kind, 0, size, send_splits=send, recv_splits=recv)


def matrix(*members: Meaning) -> list[list[int]] | None:
    found = split_matrix(members)
    return None if found is None else found.tolist()


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ([member(0, 10), member(1, 10)], None),
        ([member(0, 10, (3, 7)), member(1, 6, (6, 0))], [[3, 7], [6, 0]]),
        ([member(0, 10, recv=(3, 6)), member(1, 6, recv=(7, 0))], [[3, 7], [6, 0]]),
        ([member(0, 10, recv=(3, 6)), member(1, 6, (6, 0), (7, 0))], [[3, 7], [6, 0]]),
        ([member(0, 8), member(1, 6, (0, 5, 1)), member(2, 0, (0, 0, 0))], [[3, 3, 2], [0, 5, 1], [0, 0, 0]]),
    ],
    ids=["no splits", "senders", "receivers", "both", "near-equal blocks, longer ones first"],
)
def test_the_matrix_is_filled_by_what_members_say(members: list[Meaning], expected: list[list[int]] | None) -> None:
    assert matrix(*members) == expected


UNEXPECTED = "sends 7 bytes to rank 1, whose node 41 (trace.1.et) expects 8 bytes from it"
OTHER_SIZE = "sends 9 bytes by the splits of its all_to_all, but its comm_size says 10 bytes"


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ((member(0, 10, (3, 7)), member(1, 6, (6, 0), (8, 0))), UNEXPECTED),
        ((member(0, 10, (3, 6)), member(1, 6)), OTHER_SIZE),
        ((member(0, 10, recv=(3, 3)), member(1, 6, recv=(6, 3))), OTHER_SIZE),
    ],
)
def test_a_matrix_that_contradicts_is_refused(members: tuple[Meaning, ...], problem: str) -> None:
    with pytest.raises(TraceError) as error:
        split_matrix(members)
    assert str(error.value) == f"trace.0.et, node 40: {problem}"


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
