"""How long a run takes at least: by hand, and against other algorithms on random graphs."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.trace.analysis.critical_path import CriticalPath, PathStep, longest_path_ns, traced_ns
from emulator.trace.meaning.model import Workload
from emulator.trace.meaning.trace_graphs import Graph, graph_of
from emulator.trace.meaning.workload import build_workload
from tests.support.random_traces import random_traces
from tests.support.traces import Node, coll, node, rank_trace, recv, send


def build(*ranks: list[Node]) -> Workload:
    return build_workload([rank_trace(rank, nodes) for rank, nodes in enumerate(ranks)])


def test_critical_path_takes_the_slowest_member_and_the_shortest_recorded_duration() -> None:
    workload = build(
        [node(1, duration=5), coll(2, "all_reduce", duration=30, deps=[1]), node(3, duration=2, deps=[2])],
        [node(1, duration=20), coll(2, "all_reduce", duration=10, deps=[1]), node(3, duration=1, deps=[2])],
    )
    assert longest_path_ns(workload, communication_ns=[0]) == 22_000
    assert longest_path_ns(workload, communication_ns=traced_ns(workload)) == 32_000


def test_critical_path_of_a_message() -> None:
    workload = build(
        [node(1, duration=5), send(2, 1, duration=7, deps=[1])], [recv(2, 0), node(3, duration=3, deps=[2])]
    )
    assert longest_path_ns(workload, communication_ns=[100]) == 5_000 + 100 + 3_000
    assert traced_ns(workload).tolist() == [7_000]


BOTH = [coll(1, "all_reduce"), coll(2, "all_reduce")]
LATE_RECEIVE = ([send(1, 1)], [node(1, duration=20), recv(2, 0, deps=[1])])


@pytest.mark.parametrize(
    ("ranks", "communication_ns", "length_ns"),
    [
        pytest.param(LATE_RECEIVE, [100], 20_000, id="a receive waits for its own rank"),
        pytest.param(LATE_RECEIVE, [30_000], 30_000, id="a receive waits for the network"),
        pytest.param((BOTH, BOTH), [3, 4], 7, id="collectives of a group follow each other"),
        pytest.param(
            ([node(1, duration=5), node(2, duration=9), coll(3, "barrier", deps=[1])],), [1_000], 9_000, id="overlap"
        ),
        pytest.param(([],), [], 0, id="an empty trace"),
    ],
)
def test_the_longest_path(ranks: Sequence[list[Node]], communication_ns: list[int], length_ns: int) -> None:
    assert longest_path_ns(build(*ranks), communication_ns=communication_ns) == length_ns


@dataclass
class Shrinking:
    """Collectives that take half of their skew less than 100 µs."""

    instances: Collection[int]
    posts: list[tuple[int, Mapping[int, int]]] = field(default_factory=list)

    def remaining_ns(self, instance: int, post_ns: Mapping[int, int]) -> int:
        self.posts.append((instance, dict(post_ns)))
        return 100_000 - (max(post_ns.values()) - min(post_ns.values())) // 2


def test_a_late_member_leaves_less_to_do() -> None:
    workload = build(
        [node(1, duration=5), coll(2, "all_reduce", deps=[1]), coll(3, "all_reduce")],
        [node(1, duration=20), coll(2, "all_reduce", deps=[1]), node(4, duration=40, deps=[2]),
         coll(5, "all_reduce", deps=[4])],
    )  # fmt: skip
    late = Shrinking((0, 1))
    # 20 + 100 - 15 / 2 = 112.5 µs; rank 1 posts the second one 40 later: + 40 + 100 - 40 / 2.
    assert longest_path_ns(workload, communication_ns=[100_000] * 2, late=late) == 232_500
    assert late.posts == [(0, {0: 5_000, 1: 20_000}), (1, {0: 112_500, 1: 152_500})]
    only_second = Shrinking((1,))
    assert longest_path_ns(workload, communication_ns=[100_000] * 2, late=only_second) == 240_000
    assert longest_path_ns(workload, communication_ns=[100_000] * 2) == 260_000


def test_one_path_serves_several_durations() -> None:
    path = CriticalPath(build([coll(1, "all_reduce"), node(2, duration=1, deps=[1])]))
    assert [path.length_ns([time]) for time in (500, 0, 500)] == [1_500, 1_000, 1_500]


def test_an_operation_without_a_recorded_duration_has_none() -> None:
    ranks = [[coll(1, "all_reduce", duration=time), coll(2, "all_reduce")] for time in (0, 12)]
    assert traced_ns(build(*ranks)).tolist() == [12_000, 0]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Acyclic graphs: edges go up in a random numbering."""
    size = draw(st.integers(1, 12))
    number = np.array(draw(st.permutations(range(size))), dtype=np.int64)
    pairs = st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)).filter(lambda pair: pair[0] < pair[1])
    edges = draw(st.lists(pairs, max_size=30)) if size > 1 else []
    source, target = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    return graph_of(size, [(number[source], number[target])])


@given(graph=graphs())
def test_every_vertex_comes_once_and_after_its_predecessors(graph: Graph) -> None:
    order = graph.order().tolist()
    assert sorted(order) == list(range(graph.vertices))
    place = {vertex: index for index, vertex in enumerate(order)}
    for vertex in order:
        assert all(place[vertex] < place[following] for following in graph.successors(vertex).tolist())


@given(st.data())
def test_the_length_is_that_of_the_longest_of_all_paths(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 8))
    deps = [data.draw(st.sets(st.integers(0, index - 1), max_size=3)) if index else set() for index in range(size)]
    durations = data.draw(st.lists(st.integers(1, 50), min_size=size, max_size=size))
    nodes = [node(index, duration=durations[index], deps=sorted(deps[index])) for index in range(size)]

    @cache
    def ends(index: int) -> int:
        return durations[index] + max((ends(dep) for dep in deps[index]), default=0)

    assert longest_path_ns(build(nodes), communication_ns=[]) == 1000 * max(map(ends, range(size)))


def test_the_steps_of_the_path_are_those_that_take_time() -> None:
    workload = build(
        [node(1, duration=5), coll(2, "all_reduce", deps=[1]), node(3, duration=2, deps=[2])],
        [node(1, duration=20), coll(2, "all_reduce", deps=[1]), node(3, duration=1, deps=[2])],
    )
    assert CriticalPath(workload).steps([10_000]) == [
        PathStep(0, 20_000, rank=1, position=0),
        PathStep(20_000, 30_000, instance=0),
        PathStep(30_000, 32_000, rank=0, position=2),
    ]


@pytest.mark.parametrize("seed", range(20))
def test_the_steps_of_a_random_path_add_up_to_its_length(seed: int) -> None:
    workload = build_workload(random_traces(seed))
    path, lasting = CriticalPath(workload), np.arange(workload.instances, dtype=np.int64) * 1000
    steps = path.steps(lasting)
    assert sum(step.end_ns - step.start_ns for step in steps) == path.length_ns(lasting) == steps[-1].end_ns
    assert all(before.end_ns == after.start_ns for before, after in pairwise(steps))
