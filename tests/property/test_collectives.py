"""Every built-in algorithm, for any group and size and in any order of events: each member ends with what the
collective promises, nobody sends what it does not have, and the bytes moved are those of the closed form."""

import tracemalloc
from collections.abc import Sequence
from functools import partial
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.planner.algorithms import schedule
from emulator.planner.built_in import BUILT_IN
from emulator.planner.built_in import BY_LAYOUT as LAID_OUT
from emulator.planner.collectives.patterns import CHUNK_BYTES, TreePlace, two_trees
from emulator.planner.group_layout import GroupLayout, layout_of
from emulator.planner.schedule import Collective, Lane, Step
from emulator.trace.meaning.model import CommKind
from tests.support.collective_simulator import members_of, play, rounds, uneven_all_to_all, unroll
from tests.support.full import IS_FULL, examples
from tests.support.schedules import bytes_by_member, bytes_per_member

ROOTED = {CommKind.BROADCAST, CommKind.REDUCE, CommKind.GATHER, CommKind.SCATTER}
EVERY = [(kind, name) for kind, named in BUILT_IN.items() for name in named]
GROUPS = [*range(1, 10), 12, 13, 16, 17]


def prove(
    kind: CommKind,
    name: str,
    *,
    members: int,
    size_bytes: int,
    root: int = 0,
    seed: int = 0,
    layout: GroupLayout | None = None,
) -> None:
    view = Collective(kind, members=members, member=0, size_bytes=size_bytes, root=root, layout=layout)
    prove_views(name, members_of(view), seed=seed)


def prove_views(name: str, views: Sequence[Collective], *, seed: int = 0) -> None:
    outcome = play(views, unroll(partial(schedule, name), views), seed=seed)
    assert outcome.moved == bytes_by_member(name, views)


def ident(case: object) -> str:
    return case.label if isinstance(case, CommKind) else str(case)


@pytest.mark.parametrize(("kind", "name"), EVERY, ids=ident)
def test_keeps_its_promise_for_every_small_group_size_and_root(kind: CommKind, name: str) -> None:
    for members in GROUPS:
        sizes = {0, 1, 2, members - 1, members, members + 1, 1000, 65537}
        for size_bytes in sizes if kind is not CommKind.BARRIER else {0}:
            for root in roots_to_try(kind, members):
                prove(kind, name, members=members, size_bytes=size_bytes, root=root, seed=members + size_bytes)


RINGS = [
    (kind, f"ring:channels={channels}")
    for kind in (CommKind.ALL_REDUCE, CommKind.ALL_GATHER, CommKind.REDUCE_SCATTER)
    for channels in (1, 3)
]
BY_LAYOUT = [(kind, name) for kind, names in BUILT_IN.items() for name in names if name in LAID_OUT] + RINGS


@pytest.mark.parametrize(("kind", "name"), BY_LAYOUT, ids=ident)
@settings(max_examples=examples(40), deadline=None)
@given(data=st.data())
def test_keeps_its_promise_on_any_layout(kind: CommKind, name: str, data: st.DataObject) -> None:
    places = data.draw(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=16), label="at")
    prove(
        kind,
        name,
        members=len(places),
        size_bytes=data.draw(st.integers(0, 300) | st.integers(0, 1 << 24), label="size_bytes"),
        seed=data.draw(st.integers(0, 2**32), label="seed"),
        layout=layout_of([node for node, _ in places], [rail for _, rail in places]),
    )


def roots_to_try(kind: CommKind, members: int) -> Sequence[int]:
    if kind not in ROOTED:
        return (0,)
    return range(members) if members <= 7 else (0, members // 2, members - 1)


@pytest.mark.parametrize(("kind", "name"), EVERY, ids=ident)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_keeps_its_promise_in_any_order_of_events(kind: CommKind, name: str, data: st.DataObject) -> None:
    members = data.draw(st.integers(1, 24), label="members")
    size_bytes = data.draw(st.integers(0, 3000) | st.integers(1, 12 * CHUNK_BYTES), label="size_bytes")
    root = data.draw(st.integers(0, members - 1), label="root") if kind in ROOTED else 0
    seed = data.draw(st.integers(0, 2**32), label="seed")
    prove(kind, name, members=members, size_bytes=size_bytes, root=root, seed=seed)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name"), EVERY, ids=ident)
def test_keeps_its_promise_in_large_groups(kind: CommKind, name: str) -> None:
    for members in (31, 32, 33, 64, *((100, 127) if IS_FULL else ())):
        for size_bytes in (1, members * 3 + 1, 5 * CHUNK_BYTES + 7):
            for root in {0, members - 1} if kind in ROOTED else {0}:
                prove(kind, name, members=members, size_bytes=size_bytes, root=root, seed=size_bytes)


@pytest.mark.parametrize("name", ["pairwise", "parallel"])
@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_uneven_all_to_all_moves_each_part_to_its_member(name: str, data: st.DataObject) -> None:
    members = data.draw(st.integers(1, 12), label="members")
    row = st.lists(st.integers(0, 50) | st.just(0), min_size=members, max_size=members)
    matrix = data.draw(st.lists(row, min_size=members, max_size=members), label="matrix")
    prove_views(name, uneven_all_to_all(matrix), seed=data.draw(st.integers(0, 2**32), label="seed"))


def test_all_to_all_completes_where_members_play_different_algorithms() -> None:
    # Sizes of an uneven all-to-all differ between members, and so may what each is given.
    views = uneven_all_to_all([[3, 0, 5, 1], [9, 9, 0, 2], [1, 1, 1, 1], [0, 70, 0, 4]])
    for seed in range(20):
        play(views, unroll(lambda view: schedule(("pairwise", "parallel")[view.member % 2], view), views), seed=seed)


@pytest.mark.parametrize("name", list(BUILT_IN[CommKind.REDUCE_SCATTER]))
def test_reduce_scatter_block_is_reduce_scatter(name: str) -> None:
    for members in (1, 5, 8):
        prove(CommKind.REDUCE_SCATTER_BLOCK, name, members=members, size_bytes=1001)


@pytest.mark.parametrize(("kind", "name"), EVERY, ids=ident)
def test_a_group_of_one_and_no_bytes_need_no_transfer(kind: CommKind, name: str) -> None:
    algorithm = BUILT_IN[kind][name]
    alone = Collective(kind, members=1, member=0, size_bytes=1 << 20)
    assert steps_of(name, alone) == []
    assert not moves(algorithm(alone))
    if kind is not CommKind.BARRIER:
        for member in range(6):
            nothing = Collective(kind, members=6, member=member, size_bytes=0)
            assert steps_of(name, nothing) == []
            assert not moves(algorithm(nothing))


def moves(lanes: Sequence[Lane]) -> bool:
    return any(step.sends or step.recvs for lane in lanes for step in lane)


def steps_of(name: str, collective: Collective) -> list[Step]:
    return [step for lane in schedule(name, collective) for step in lane]


@pytest.mark.parametrize("name", ["ring", "bidirectional_ring", "halving_doubling", "double_binary_tree"])
@pytest.mark.parametrize("members", [2, 3, 8, 13])
def test_all_reduce_divides_the_work_evenly(name: str, members: int) -> None:
    size_bytes = 2 * members * 16 * 1024
    views = members_of(Collective(CommKind.ALL_REDUCE, members=members, member=0, size_bytes=size_bytes))
    most = max(bytes_per_member(name, view)[0] for view in views)
    least = 2 * size_bytes * (members - 1) / members
    folds = name == "halving_doubling" and members & (members - 1)
    assert least <= most <= (3 * size_bytes if folds else 2 * size_bytes)
    if "ring" in name:
        assert most == least


def rounds_of(kind: CommKind, name: str, *, members: int, size_bytes: int) -> int:
    views = members_of(Collective(kind, members=members, member=0, size_bytes=size_bytes))
    return rounds(unroll(partial(schedule, name), views))


@pytest.mark.parametrize("members", [2, 3, 7, 8, 12, 17, 32])
def test_logarithmic_algorithms_take_logarithmically_many_rounds(members: int) -> None:
    log = (members - 1).bit_length()
    size_bytes = 64 * members
    for kind in (CommKind.ALL_GATHER, CommKind.REDUCE_SCATTER):
        assert rounds_of(kind, "halving_doubling", members=members, size_bytes=size_bytes) == log
        assert rounds_of(kind, "pat", members=members, size_bytes=size_bytes) == log
    for kind in (CommKind.BROADCAST, CommKind.REDUCE, CommKind.GATHER, CommKind.SCATTER):
        assert rounds_of(kind, "tree", members=members, size_bytes=size_bytes) <= log
    assert rounds_of(CommKind.BARRIER, "dissemination", members=members, size_bytes=0) == log
    assert rounds_of(CommKind.BARRIER, "tree", members=members, size_bytes=0) <= 2 * log
    folded = 0 if members & (members - 1) == 0 else 2
    halving = 2 * (members.bit_length() - 1) + folded
    assert rounds_of(CommKind.ALL_REDUCE, "halving_doubling", members=members, size_bytes=size_bytes) == halving
    whole = members.bit_length() - 1 + folded
    assert rounds_of(CommKind.ALL_REDUCE, "recursive_doubling", members=members, size_bytes=size_bytes) <= whole


@pytest.mark.parametrize("kind", [CommKind.ALL_REDUCE, CommKind.ALL_GATHER, CommKind.REDUCE_SCATTER], ids=ident)
@pytest.mark.parametrize(("members", "lanes"), [(2, 1), (3, 2), (5, 2)])
def test_large_blocks_go_round_a_ring_in_two_slices(kind: CommKind, members: int, lanes: int) -> None:
    block_bytes = 512 << 10
    size_bytes = block_bytes if kind is CommKind.ALL_GATHER else members * block_bytes
    for size, count in ((size_bytes - 1, 1), (size_bytes, lanes), (size_bytes + members // 2, lanes)):
        one = Collective(kind, members=members, member=0, size_bytes=size)
        assert len(schedule("ring", one)) == count
        prove(kind, "ring", members=members, size_bytes=size)


@pytest.mark.parametrize("members", [2, 3, 7, 16])
def test_rings_and_pairwise_take_one_round_per_peer(members: int) -> None:
    size_bytes = 64 * members
    for name in ("ring", "bidirectional_ring"):
        assert rounds_of(CommKind.ALL_REDUCE, name, members=members, size_bytes=size_bytes) == 2 * (members - 1)
    for kind in (CommKind.ALL_GATHER, CommKind.REDUCE_SCATTER):
        assert rounds_of(kind, "ring", members=members, size_bytes=size_bytes) == members - 1
    assert rounds_of(CommKind.ALL_TO_ALL, "pairwise", members=members, size_bytes=size_bytes) == members - 1
    assert rounds_of(CommKind.ALL_TO_ALL, "parallel", members=members, size_bytes=size_bytes) == 1


@pytest.mark.parametrize("members", [2, 5, 16, 31])
def test_pipelines_overlap_their_chunks(members: int) -> None:
    chunks = 20
    log = members.bit_length()
    chain = chunks + members - 2
    for kind in (CommKind.BROADCAST, CommKind.REDUCE):
        assert rounds_of(kind, "ring", members=members, size_bytes=chunks * CHUNK_BYTES) <= chain
    up_and_down = rounds_of(
        CommKind.ALL_REDUCE, "double_binary_tree", members=members, size_bytes=2 * chunks * CHUNK_BYTES
    )
    assert up_and_down <= 2 * (chunks + log)


@given(members=st.integers(2, 300))
def test_two_trees_have_distinct_inner_members_and_least_height(members: int) -> None:
    places = [two_trees(members, member) for member in range(members)]
    assert not any(first.children and second.children for first, second in places)
    for tree in (0, 1):
        shape = [place[tree] for place in places]
        assert sum(place.parent is None for place in shape) == 1
        assert all(shape[child].parent == member for member, place in enumerate(shape) for child in place.children)
        assert sum(len(place.children) for place in shape) == members - 1
        assert max(depth(shape, member) for member in range(members)) <= members.bit_length()


def depth(shape: Sequence[TreePlace], member: int) -> int:
    parent = shape[member].parent
    return 0 if parent is None else 1 + depth(shape, parent)


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, name in EVERY if name not in ("direct", "parallel")], ids=ident
)
def test_a_member_of_a_huge_group_computes_only_the_steps_it_plays(kind: CommKind, name: str) -> None:
    layout = layout_of([rank // 8 for rank in range(100_000)], [rank % 8 for rank in range(100_000)])
    view = Collective(kind, members=100_000, member=77_777, size_bytes=1 << 30, layout=layout)
    if name in LAID_OUT:  # what members of a process share
        _ = [step for lane in schedule(name, view) for step in islice(lane, 50)]
    tracemalloc.start()
    lanes = schedule(name, view)
    started = [step for lane in lanes for step in islice(lane, 50)]
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert started
    assert peak_bytes < 100_000


def test_chunks_are_bounded_however_large_the_array() -> None:
    view = Collective(CommKind.BROADCAST, members=4, member=1, size_bytes=1 << 36)
    assert len(steps_of("ring", view)) < 1000
