import numpy as np
import pytest

from emulator.trace.meaning.communication_order import communication_dependencies
from emulator.trace.meaning.workload import build_workload
from tests.support.random_traces import random_traces
from tests.support.traces import Node, coll, node, rank_trace


def waits(*nodes: Node) -> list[tuple[int, ...]]:
    workload = build_workload([rank_trace(0, nodes)])
    return communication_dependencies(workload.programs[0])


def test_what_lies_between_communications_is_left_out() -> None:
    assert waits(
        coll(1, "all_reduce"), node(2, deps=[1]), node(3, deps=[2]), coll(4, "all_reduce", deps=[3]), coll(5, "barrier")
    ) == [(), (0,), ()]


def test_a_communication_hides_those_before_it() -> None:
    assert waits(coll(1, "barrier"), coll(2, "barrier", deps=[1]), node(3, deps=[2]), coll(4, "barrier", deps=[3])) == [
        (),
        (0,),
        (1,),
    ]


def test_what_follows_from_others_is_left_out() -> None:
    """The third one depends on both of the others, of which the second waits for the first."""
    assert waits(coll(1, "barrier"), coll(2, "barrier", deps=[1]), coll(3, "barrier", deps=[1, 2])) == [(), (0,), (1,)]
    assert waits(
        coll(1, "barrier"),
        node(2, deps=[1]),
        coll(3, "barrier", deps=[2]),
        node(4, deps=[2, 3]),
        coll(5, "barrier", deps=[4]),
    ) == [(), (0,), (1,)]


@pytest.mark.parametrize("seed", range(30))
def test_the_order_of_any_two_is_that_of_the_whole_graph(seed: int) -> None:
    for program in build_workload(random_traces(seed, operations=20)).programs:
        everything: list[set[int]] = []
        for needed in np.split(program.dep_position, program.dep_offset[1:-1]):
            everything.append({int(one) for one in needed}.union(*(everything[one] for one in needed)))
        positions = list(program.communications)
        before: list[set[int]] = []
        for needed in communication_dependencies(program):
            assert not any(one in before[other] for one in needed for other in needed)
            before.append({*needed}.union(*(before[one] for one in needed)))
        assert [{positions[one] for one in mine} for mine in before] == [
            everything[position] & {*positions} for position in positions
        ]


def test_paths_join() -> None:
    assert waits(
        *(
            coll(1, "barrier"),
            coll(2, "barrier"),
            node(3, deps=[1]),
            node(4, ctrl=[2, 3]),
            coll(5, "barrier", deps=[4]),
        ),
    ) == [(), (), (0, 1)]


def test_the_order_is_the_canonical_one() -> None:
    """Node 2 waits for node 9, so it is the second communication."""
    assert waits(coll(2, "barrier", deps=[9]), node(9, deps=[5]), coll(5, "barrier")) == [(), (0,)]
