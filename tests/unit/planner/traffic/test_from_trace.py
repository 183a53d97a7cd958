"""The traffic of a trace: which instances are one operation, and how often each group performs it."""

from collections.abc import Sequence

import numpy as np

from emulator.planner.algorithms import POINT_TO_POINT
from emulator.planner.traffic.from_trace import traffic_of_workload
from emulator.planner.traffic.operation import Operation, Traffic, TrafficPlace
from emulator.trace.meaning.model import CommKind, Communication, Group, RankProgram, Workload

GROUPS = (Group("", (0, 1, 2, 3)), Group("a", (0, 1)), Group("b", (2, 3)))


def communication(kind: CommKind, instance: int, group: int = 0, size_bytes: int = 64, **facts: int) -> Communication:
    return Communication(instance, "", instance, kind, group, size_bytes, instance, 0, **facts)


def splits(instance: int, *sends: int) -> Communication:
    return Communication(instance, "", 0, CommKind.ALL_TO_ALL, 0, sum(sends), instance, 0, send_splits=sends)


def traffic_of(*ranks: Sequence[Communication]) -> Traffic:
    nothing = np.zeros(0, dtype=np.int64)
    programs = [
        RankProgram(rank, nothing, np.zeros(0, np.int8), nothing, nothing, nothing, dict(enumerate(nodes)))
        for rank, nodes in enumerate(ranks)
    ]
    instances = 1 + max(node.instance for nodes in ranks for node in nodes)
    workload = Workload(programs, GROUPS, instances, window=1, warnings={}, deducted_ns=())
    return traffic_of_workload(workload, name_of=lambda node: f"algorithm of {node.size_bytes}")


def shape(operation: Operation) -> tuple[CommKind, str, list[list[int]], list[int]]:
    return operation.kind, operation.algorithm, operation.ranks.tolist(), operation.counts.tolist()


def test_equal_collectives_of_several_groups_are_one_operation() -> None:
    in_a = [communication(CommKind.ALL_REDUCE, 0, 1), communication(CommKind.ALL_REDUCE, 1, 1)]
    in_b = [communication(CommKind.ALL_REDUCE, 2, 2)]
    traffic = traffic_of(in_a, in_a, in_b, in_b)
    assert [shape(one) for one in traffic.operations] == [
        (CommKind.ALL_REDUCE, "algorithm of 64", [[0, 1], [2, 3]], [2, 1])
    ]
    assert traffic.places == [TrafficPlace(0, 0), TrafficPlace(0, 0), TrafficPlace(0, 1)]


def test_another_size_or_root_is_another_operation() -> None:
    nodes = [
        communication(CommKind.BROADCAST, 0, size_bytes=64, root=0),
        communication(CommKind.BROADCAST, 1, size_bytes=32, root=0),
        communication(CommKind.BROADCAST, 2, size_bytes=64, root=3),
    ]
    traffic = traffic_of(*[nodes] * 4)
    assert [(one.size_bytes, one.root) for one in traffic.operations] == [(64, 0), (32, 0), (64, 3)]
    assert [place.operation for place in traffic.places] == [0, 1, 2]


def test_the_root_is_a_member_number() -> None:
    node = communication(CommKind.BROADCAST, 0, 2, root=3)
    assert traffic_of([], [], [node], [node]).operations[0].root == 1


def test_a_pair_is_sender_and_receiver_whichever_of_them_comes_first() -> None:
    receive = communication(CommKind.RECV, 0, peer=2)
    send = communication(CommKind.SEND, 0, peer=0)
    traffic = traffic_of([receive], [], [send], [])
    assert [shape(one) for one in traffic.operations] == [(CommKind.SEND, POINT_TO_POINT, [[2, 0]], [1])]


def test_an_uneven_all_to_all_is_an_operation_of_its_own_with_its_transfers() -> None:
    traffic = traffic_of(
        [communication(CommKind.ALL_REDUCE, 0), splits(1, 9, 1, 0, 2)],
        [communication(CommKind.ALL_REDUCE, 0), splits(1, 3, 9, 0, 0)],
        [communication(CommKind.ALL_REDUCE, 0), splits(1, 0, 0, 9, 0)],
        [communication(CommKind.ALL_REDUCE, 0), splits(1, 0, 0, 5, 9)],
    )
    _, uneven = traffic.operations
    columns = uneven.splits.senders, uneven.splits.receivers, uneven.splits.sizes
    assert sorted(zip(*(column.tolist() for column in columns), strict=True)) == [
        (0, 1, 1),
        (0, 3, 2),
        (1, 0, 3),
        (3, 2, 5),
    ]
    assert traffic.places == [TrafficPlace(0, 0), TrafficPlace(1, 0)]
