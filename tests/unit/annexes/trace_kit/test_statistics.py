from emulator.annexes.trace_kit.statistics import Symbol, gaps_ns, last_gap, statistics_of
from emulator.trace.meaning.model import CommKind
from emulator.trace.meaning.workload import build_workload
from tests.support.traces import Node, coll, node, rank_trace, recv, send


def pipeline(stage: int, pair: int) -> list[Node]:
    """Two stages of two ranks: an all-reduce in each pair, then a message from the first stage to the second."""
    group = {"pg": str(stage), "group_ranks": (2 * stage, 2 * stage + 1)}
    nodes = [node(1, duration=5), coll(2, "all_reduce", 64, deps=[1], **group)]
    message = send(4, 2 + pair, 9, deps=[3]) if stage == 0 else recv(4, pair, 9, deps=[3])
    return [*nodes, node(3, duration=7 + pair, deps=[2]), message, node(5, duration=1, deps=[4])]


WORKLOAD = build_workload([rank_trace(rank, pipeline(*divmod(rank, 2))) for rank in range(4)])


def test_roles_are_ranks_that_perform_the_same() -> None:
    assert statistics_of(WORKLOAD).roles == [0, 0, 1, 1]


def test_groups_and_pairs_that_do_the_same_are_families_and_their_operations_steps() -> None:
    found = statistics_of(WORKLOAD)
    assert [list(family.ranks) for family in found.families] == [[(0, 1)], [(0, 2), (1, 3)], [(2, 3)]]
    assert found.steps == [Symbol(0, CommKind.ALL_REDUCE), Symbol(2, CommKind.ALL_REDUCE), Symbol(1, CommKind.SEND)]


def test_gaps_are_the_compute_before_and_after() -> None:
    assert gaps_ns(WORKLOAD.programs[1]).tolist() == [5_000, 8_000, 1_000]
    found = statistics_of(WORKLOAD).gaps_ns
    assert found[last_gap(1)].tolist() == [1_000, 1_000]
    sends = next(times for key, times in found.items() if key.kind is CommKind.SEND)
    assert sends.tolist() == [7_000, 8_000]


def test_ranks_of_an_uneven_all_to_all_have_one_role() -> None:
    first = coll(1, "all_to_all", 4, in_splits=(1, 3), out_splits=(1, 5))
    second = coll(1, "all_to_all", 7, in_splits=(5, 2), out_splits=(3, 2))
    found = statistics_of(build_workload([rank_trace(0, [first]), rank_trace(1, [second])]))
    assert found.roles == [0, 0]
    assert [part.send_splits for part in found.families[0].parts[0][0]] == [(1, 3), (5, 2)]
