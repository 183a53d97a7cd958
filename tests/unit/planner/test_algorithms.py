"""The default table at its thresholds, for every collective."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from emulator.errors import PlanError
from emulator.planner.algorithms import (
    CHAIN_BLOCK_BYTES,
    PARALLEL_BLOCK_BYTES,
    PARALLEL_GROUP,
    RING_BLOCK_BYTES,
    SMALL_GROUP,
    TINY_BYTES,
    algorithm_names,
    choose,
    default_algorithm,
    default_table,
    installed_algorithms,
    parse_overrides,
    schedule,
)
from emulator.planner.built_in import BUILT_IN
from emulator.planner.schedule import Collective
from emulator.trace.meaning.model import CommKind
from tests.support.installed import install

K = CommKind


@pytest.mark.parametrize(
    ("kind", "members", "size_bytes", "name"),
    [
        *((kind, SMALL_GROUP, TINY_BYTES, "direct") for kind in (K.ALL_REDUCE, K.ALL_GATHER, K.REDUCE_SCATTER)),
        (K.ALL_REDUCE, SMALL_GROUP + 1, TINY_BYTES, "recursive_doubling"),
        (K.ALL_REDUCE, SMALL_GROUP + 1, TINY_BYTES + 1, "halving_doubling"),
        (K.ALL_REDUCE, SMALL_GROUP, TINY_BYTES + 1, "halving_doubling"),
        (K.ALL_REDUCE, 2, TINY_BYTES + 1, "ring"),
        (K.ALL_REDUCE, 3, TINY_BYTES + 1, "halving_doubling"),
        (K.ALL_REDUCE, 3, 3 * RING_BLOCK_BYTES, "ring"),
        (K.ALL_REDUCE, 3, 3 * RING_BLOCK_BYTES - 1, "halving_doubling"),
        (K.ALL_GATHER, SMALL_GROUP + 1, TINY_BYTES, "halving_doubling"),
        (K.ALL_GATHER, 2, TINY_BYTES + 1, "ring"),
        (K.ALL_GATHER, 9, RING_BLOCK_BYTES, "ring"),
        (K.ALL_GATHER, 9, RING_BLOCK_BYTES - 1, "halving_doubling"),
        (K.REDUCE_SCATTER, SMALL_GROUP + 1, TINY_BYTES, "halving_doubling"),
        (K.REDUCE_SCATTER, 2, TINY_BYTES + 1, "ring"),
        (K.REDUCE_SCATTER, 9, 9 * RING_BLOCK_BYTES, "ring"),
        (K.REDUCE_SCATTER, 9, 9 * RING_BLOCK_BYTES - 1, "halving_doubling"),
        (K.ALL_TO_ALL, PARALLEL_GROUP, 1 << 40, "parallel"),
        (K.ALL_TO_ALL, PARALLEL_GROUP + 1, (PARALLEL_GROUP + 1) * PARALLEL_BLOCK_BYTES - 1, "parallel"),
        (K.ALL_TO_ALL, PARALLEL_GROUP + 1, (PARALLEL_GROUP + 1) * PARALLEL_BLOCK_BYTES, "pairwise"),
        *((kind, 2, 1 << 40, "tree") for kind in (K.BROADCAST, K.REDUCE)),
        *((kind, 3, 3 * CHAIN_BLOCK_BYTES, "ring") for kind in (K.BROADCAST, K.REDUCE)),
        *((kind, 3, 3 * CHAIN_BLOCK_BYTES - 1, "tree") for kind in (K.BROADCAST, K.REDUCE)),
        (K.GATHER, 9, PARALLEL_BLOCK_BYTES, "parallel"),
        (K.GATHER, 9, PARALLEL_BLOCK_BYTES - 1, "tree"),
        (K.SCATTER, 9, 9 * PARALLEL_BLOCK_BYTES, "parallel"),
        (K.SCATTER, 9, 9 * PARALLEL_BLOCK_BYTES - 1, "tree"),
        (K.BARRIER, 1, 0, "dissemination"),
        (K.BARRIER, 1000, 0, "dissemination"),
    ],
)
def test_each_threshold_belongs_to_the_row_that_states_it(
    kind: CommKind, members: int, size_bytes: int, name: str
) -> None:
    assert default_algorithm(kind, members=members, size_bytes=size_bytes) == name


def test_thresholds_are_those_of_the_page() -> None:
    assert (SMALL_GROUP, PARALLEL_GROUP, TINY_BYTES) == (4, 8, 4 * 1024)
    assert (RING_BLOCK_BYTES, CHAIN_BLOCK_BYTES, PARALLEL_BLOCK_BYTES) == (64 * 1024, 128 * 1024, 32 * 1024)


def test_rows_are_in_words_and_the_last_of_each_collective_applies_always() -> None:
    rows = default_table()
    last = {collective: condition for collective, condition, _ in rows}
    assert set(last) == {kind.label for kind in K if kind.is_collective and kind is not K.REDUCE_SCATTER_BLOCK}
    assert set(last.values()) == {"otherwise", "always"}


OWN = """
from emulator.planner.schedule import Step, Transfer

def to_neighbour(collective):
    return [iter([Step(sends=[Transfer((collective.member + 1) % collective.members, 0, 7)])])]

no_function = 5
"""
SCATTERED = CommKind.REDUCE_SCATTER_BLOCK
KIB = 1024


@pytest.fixture(autouse=True)
def forget_installed() -> Iterator[None]:
    yield
    installed_algorithms.cache_clear()
    for name in [name for name in sys.modules if name.startswith("own_")]:
        del sys.modules[name]


def test_every_collective_has_algorithms_and_point_to_point_has_none() -> None:
    for kind in CommKind:
        if kind.is_collective:
            assert len(algorithm_names(kind)) >= 2
        else:
            with pytest.raises(PlanError, match="not a collective"):
                algorithm_names(kind)


@pytest.mark.parametrize(
    ("kind", "members", "size_bytes", "name"),
    [
        (CommKind.ALL_REDUCE, 4, 4 * KIB, "direct"),
        (CommKind.ALL_REDUCE, 5, 4 * KIB, "recursive_doubling"),
        (CommKind.ALL_REDUCE, 5, 5 * KIB, "halving_doubling"),
        (CommKind.ALL_REDUCE, 2, 5 * KIB, "ring"),
        (CommKind.ALL_REDUCE, 16, 16 * 64 * KIB - 1, "halving_doubling"),
        (CommKind.ALL_REDUCE, 16, 16 * 64 * KIB, "ring"),
        (CommKind.ALL_GATHER, 16, 64 * KIB, "ring"),
        (CommKind.ALL_GATHER, 16, 63 * KIB, "halving_doubling"),
        (SCATTERED, 16, 16 * 64 * KIB, "ring"),
        (CommKind.ALL_TO_ALL, 8, 1 << 30, "parallel"),
        (CommKind.ALL_TO_ALL, 64, 64 * KIB, "parallel"),
        (CommKind.ALL_TO_ALL, 64, 64 * 32 * KIB, "pairwise"),
        (CommKind.BROADCAST, 2, 1 << 30, "tree"),
        (CommKind.BROADCAST, 8, 8 * 128 * KIB, "ring"),
        (CommKind.REDUCE, 8, 128 * KIB, "tree"),
        (CommKind.GATHER, 8, 32 * KIB, "parallel"),
        (CommKind.SCATTER, 8, 32 * KIB, "tree"),
        (CommKind.BARRIER, 8, 0, "dissemination"),
    ],
)
def test_default_follows_kind_size_and_members(kind: CommKind, members: int, size_bytes: int, name: str) -> None:
    assert choose(kind, members=members, size_bytes=size_bytes, overrides={}) == name


def test_default_exists_for_every_group_and_size() -> None:
    for kind in (kind for kind in CommKind if kind.is_collective):
        for members in (1, 2, 3, 8, 9, 1024, 100_000):
            for size_bytes in (0, 1, 4096, 1 << 20, 1 << 40):
                assert choose(kind, members=members, size_bytes=size_bytes, overrides={}) in algorithm_names(kind)


def test_override_beats_the_default_for_its_collective_alone() -> None:
    overrides = parse_overrides(["all_reduce=direct", "all_reduce=double_binary_tree"])
    assert choose(CommKind.ALL_REDUCE, members=64, size_bytes=1 << 30, overrides=overrides) == "double_binary_tree"
    assert choose(CommKind.ALL_GATHER, members=64, size_bytes=1 << 30, overrides=overrides) == "ring"


def test_override_of_reduce_scatter_speaks_for_reduce_scatter_block() -> None:
    both = parse_overrides(["reduce_scatter=direct", "reduce_scatter_block=halving_doubling"])
    asked = {"members": 64, "size_bytes": 1 << 30}
    assert choose(SCATTERED, **asked, overrides=both) == "halving_doubling"
    assert choose(SCATTERED, **asked, overrides=parse_overrides(["reduce_scatter=direct"])) == "direct"


def test_overrides_know_the_spellings_of_nccl() -> None:
    found = parse_overrides(["allreduce=ring", "ReduceScatter=direct"])
    assert found == {"all_reduce": "ring", "reduce_scatter": "direct"}


@pytest.mark.parametrize(
    ("item", "told"),
    [
        ("ring", "COLLECTIVE=NAME"),
        ("warp=ring", "all_reduce, reduce, all_gather"),
        ("all_reduce=rnig", "has no algorithm 'rnig'; did you mean 'ring'?"),
        ("send=ring", "no collective 'send'"),
        (
            "all_reduce=tree",
            "ring, bidirectional_ring, halving_doubling, recursive_doubling, double_binary_tree, direct",
        ),
        ("all_reduce=", "has no algorithm ''"),
        ("sendrecv=ring", "'sendrecv' is not a collective but a pair of ranks"),
    ],
)
def test_impossible_override_lists_what_exists(item: str, told: str) -> None:
    with pytest.raises(PlanError, match=r"\S") as caught:
        parse_overrides([item])
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_default_table_names_existing_algorithms_and_ends_in_a_row_for_all() -> None:
    rows = default_table()
    for kind, named in BUILT_IN.items():
        own = [row for row in rows if row[0] == kind.label]
        assert {algorithm for _, _, algorithm in own} <= set(named)
        assert own[-1][1] in ("otherwise", "always")


def test_unknown_algorithm_is_refused_even_where_nothing_moves() -> None:
    for members, size_bytes in ((4, 100), (1, 100), (4, 0)):
        with pytest.raises(PlanError, match="no algorithm 'zigzag'; there are ring"):
            schedule("zigzag", Collective(CommKind.ALL_REDUCE, members=members, member=0, size_bytes=size_bytes))


@pytest.mark.parametrize(
    ("send_splits", "recv_splits", "told"),
    [
        ((1, 2), (1, 2, 3), "send_splits have 2 entries"),
        ((1, 2, 3), (1, 2, 3, 4), "recv_splits have 4 entries"),
        ((1, 2, 3), None, "recv_splits are missing"),
        (None, (1, 2, 3), "send_splits are missing"),
        ((1, -2, 3), (1, 2, 3), "-2"),
    ],
)
def test_splits_that_do_not_fit_are_refused(
    send_splits: tuple[int, ...] | None, recv_splits: tuple[int, ...] | None, told: str
) -> None:
    view = Collective(CommKind.ALL_TO_ALL, 3, 0, 6, send_splits=send_splits, recv_splits=recv_splits)
    with pytest.raises(PlanError, match=told):
        schedule("pairwise", view)


def test_splits_are_for_all_to_all_only() -> None:
    view = Collective(CommKind.ALL_GATHER, 2, 0, 6, send_splits=(3, 3), recv_splits=(3, 3))
    with pytest.raises(PlanError, match="all_gather takes no splits"):
        schedule("ring", view)


def test_installed_algorithm_is_found_chosen_and_played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, modules={"own_a": OWN}, points={"broadcast.round": "own_a:to_neighbour"})
    assert "own_a" not in sys.modules
    assert list(algorithm_names(CommKind.BROADCAST)) == ["tree", "ring", "parallel", "round"]
    overrides = parse_overrides(["broadcast=round"])
    assert "own_a" not in sys.modules, "imported before it was used"
    assert choose(CommKind.BROADCAST, members=9, size_bytes=1, overrides=overrides) == "round"
    view = Collective(CommKind.BROADCAST, members=3, member=2, size_bytes=9)
    (lane,) = schedule("round", view)
    (send,) = next(lane).sends
    assert (send.peer, send.size) == (0, 7)


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("own_absent:run", "ModuleNotFoundError"),
        ("own_b:absent", "AttributeError"),
        ("own_b:no_function", "must name a function"),
    ],
)
def test_broken_entry_point_is_named_when_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, told: str
) -> None:
    install(tmp_path, monkeypatch, modules={"own_b": OWN}, points={"gather.mine": target})
    schedule("tree", Collective(CommKind.GATHER, members=3, member=0, size_bytes=9))
    with pytest.raises(PlanError, match=told) as caught:
        schedule("mine", Collective(CommKind.GATHER, members=3, member=0, size_bytes=9))
    assert "gather.mine" in str(caught.value)
    assert "my-collectives" in str(caught.value)


@pytest.mark.parametrize(
    ("point", "told"),
    [
        ("mine", "COLLECTIVE.NAME"),
        ("all_reduce", "COLLECTIVE.NAME"),
        ("allreduce.mine", "COLLECTIVE.NAME"),
        ("all_reduce.ring", "already"),
    ],
)
def test_entry_point_with_an_impossible_name_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, told: str
) -> None:
    install(tmp_path, monkeypatch, modules={"own_c": OWN}, points={point: "own_c:to_neighbour"})
    with pytest.raises(PlanError, match=told) as caught:
        parse_overrides(["barrier=mine"])
    assert parse_overrides(["barrier=tree"]) == {"barrier": "tree"}
    assert repr(point) in str(caught.value)


def test_two_entry_points_of_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = {"reduce_scatter.mine": "own_d:to_neighbour", "reduce_scatter_block.mine": "own_d:no_function"}
    install(tmp_path, monkeypatch, modules={"own_d": OWN}, points=points)
    with pytest.raises(PlanError, match="already has an algorithm 'mine'"):
        parse_overrides(["reduce_scatter=mine"])
