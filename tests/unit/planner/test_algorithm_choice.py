"""Which algorithm plays which communication."""

import pytest

from emulator.errors import PlanError
from emulator.planner.algorithm_choice import AlgorithmChoice
from emulator.planner.algorithms import (
    PARALLEL_BLOCK_BYTES,
    PARALLEL_GROUP,
    POINT_TO_POINT,
    default_algorithm,
    load_algorithm,
    parse_overrides,
)
from emulator.planner.group_layout import Layouts
from emulator.trace.meaning.model import CommKind, Workload
from emulator.trace.meaning.workload import build_workload
from tests.support.msccl_files import all_pairs_all_to_all, ring_all_reduce
from tests.support.playing import everyone
from tests.support.traces import coll, rank_trace, recv, send

SIZES = (8, 1 << 14, 1 << 26)


def names(workload: Workload, *overrides: str, rank: int = 0) -> list[str]:
    choice = AlgorithmChoice(workload, parse_overrides(overrides))
    return [choice.name_of(communication) for communication in workload.programs[rank].communications.values()]


def test_every_class_gets_the_default_of_its_kind_size_and_group() -> None:
    nodes = [coll(k, "all_reduce", size) for k, size in enumerate(SIZES)]
    for ranks in (2, 5, 16):
        expected = [default_algorithm(CommKind.ALL_REDUCE, members=ranks, size_bytes=size) for size in SIZES]
        assert names(build_workload(everyone(ranks, nodes))) == expected
    assert len(set(expected)) > 1


def test_what_the_user_asked_for_wins_for_its_kind_alone() -> None:
    workload = build_workload(everyone(4, [coll(1, "all_reduce", 8), coll(2, "all_gather", 8)]))
    before = names(workload)
    assert names(workload, "all_reduce=double_binary_tree") == ["double_binary_tree", before[1]]


def test_send_and_receive_have_nothing_to_choose() -> None:
    workload = build_workload([rank_trace(0, [send(1, 1)]), rank_trace(1, [recv(1, 0)])])
    assert names(workload) == names(workload, rank=1) == [POINT_TO_POINT]


def test_names_are_distinct_and_indexed() -> None:
    nodes = [coll(1, "all_reduce", 8), coll(2, "all_gather", 8), coll(3, "all_reduce", 8), coll(4, "barrier", 0)]
    workload = build_workload(everyone(4, nodes))
    choice = AlgorithmChoice(workload, parse_overrides(["all_reduce=ring", "all_gather=ring"]))
    assert sorted(choice.names) == sorted(set(choice.names))
    for communication in workload.programs[3].communications.values():
        assert choice.names[choice.index_of(communication)] == choice.name_of(communication)
    assert choice.names[0] == "ring"


def test_members_of_an_uneven_all_to_all_choose_alike() -> None:
    # Rank 0 sends everything, the others nothing: by their own sizes they would choose differently.
    ranks, share = PARALLEL_GROUP + 1, PARALLEL_BLOCK_BYTES
    from_root, nothing = (share,) + (0,) * (ranks - 1), (0,) * ranks
    traces = [
        rank_trace(0, [coll(1, "all_to_all", ranks * share, in_splits=(share,) * ranks, out_splits=from_root)]),
        *(
            rank_trace(rank, [coll(1, "all_to_all", 0, in_splits=nothing, out_splits=from_root)])
            for rank in range(1, ranks)
        ),
    ]
    workload = build_workload(traces)
    alone = [default_algorithm(CommKind.ALL_TO_ALL, members=ranks, size_bytes=size) for size in (0, ranks * share)]
    assert alone == ["parallel", "pairwise"]
    assert {tuple(names(workload, rank=rank)) for rank in range(ranks)} == {("pairwise",)}


def test_an_algorithm_from_a_file_plays_where_it_fits() -> None:
    name = load_algorithm(ring_all_reduce(3), "ring.xml").name
    groups = {"1": (0, 1, 2)}
    nodes = [coll(1, "all_reduce", 8, pg_name="1"), coll(2, "all_reduce", 8)]
    traces = [rank_trace(rank, nodes if rank < 3 else nodes[1:]) for rank in range(4)]
    choice = AlgorithmChoice(build_workload(traces, groups=groups), {"all_reduce": name})
    assert list(choice.files) == [name]
    assert "nchunksperloop" in choice.files[name]
    assert len(choice.names) == 2


def test_an_algorithm_from_a_file_that_fits_nothing_is_refused() -> None:
    name = load_algorithm(all_pairs_all_to_all(2), "pairs.xml").name
    even = build_workload(everyone(2, [coll(1, "all_to_all", 8)]))
    assert AlgorithmChoice(even, {"all_to_all": name}).names == [name]
    splits = {"in_splits": (5, 3), "out_splits": (5, 5)}
    other = {"in_splits": (5, 1), "out_splits": (3, 1)}
    uneven = [rank_trace(0, [coll(1, "all_to_all", 8, **splits)]), rank_trace(1, [coll(1, "all_to_all", 6, **other)])]
    with pytest.raises(PlanError, match=r"--algorithm all_to_all=pairs.xml: is for all_to_all of 2 ranks"):
        AlgorithmChoice(build_workload(uneven), {"all_to_all": name})


def test_pxn_is_for_even_all_to_all() -> None:
    asked = parse_overrides(["all_to_all=pxn"])
    even = everyone(2, [coll(2, "all_to_all", 8)])
    assert AlgorithmChoice(build_workload(even), asked).names == ["pxn"]
    splits = [{"in_splits": (5, 3), "out_splits": (5, 5)}, {"in_splits": (5, 1), "out_splits": (3, 1)}]
    uneven = [coll(1, "all_to_all", 8 - 2 * rank, **splits[rank]) for rank in range(2)]
    both = [rank_trace(rank, [uneven[rank], coll(2, "all_to_all", 8)]) for rank in range(2)]
    assert AlgorithmChoice(build_workload(both), asked).names == ["parallel", "pxn"]
    alone = build_workload([rank_trace(rank, [uneven[rank]]) for rank in range(2)])
    with pytest.raises(PlanError, match="all of this workload are uneven: use pairwise or parallel"):
        AlgorithmChoice(alone, asked)


def test_agents_are_told_layouts_only_where_an_algorithm_depends_on_them() -> None:
    layouts = Layouts([0, 0, 1, 1], [0, 1, 0, 1])
    workload = build_workload(everyone(4, [coll(1, "all_reduce", 8)]))
    assert AlgorithmChoice(workload, {}, layouts).layouts == Layouts()
    assert AlgorithmChoice(workload, {"all_reduce": "hierarchical"}, layouts).layouts is layouts


@pytest.mark.parametrize(
    ("hosts", "names"),
    [
        ((0, 0, 1, 1), ["ring:channels=2", "pxn", "ring"]),
        ((0, 0, 0, 0), ["ring", "parallel"]),
        ((0, 1, 2, 3), ["ring", "parallel"]),
    ],
)
def test_in_scale_up_domains_all_rails_are_used(hosts: tuple[int, ...], names: list[str]) -> None:
    kinds = ("all_reduce", "all_gather", "reduce_scatter_block", "all_to_all", "broadcast")
    workload = build_workload(everyone(4, [coll(at, kind, 1 << 22) for at, kind in enumerate(kinds, 1)]))
    layouts = Layouts(hosts, [0, 1, 0, 1], domains=frozenset(hosts))
    assert AlgorithmChoice(workload, {}, layouts).names == names
    assert AlgorithmChoice(workload, {}, Layouts(hosts, layouts.rails)).names == ["ring", "parallel"]
