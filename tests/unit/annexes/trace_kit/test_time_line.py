"""When nodes run: by hand, and against the rules on random sets."""

import numpy as np
import pytest

from emulator.annexes.trace_kit.time_line import computed_time_line, recorded_time_line
from emulator.trace.meaning.model import Resource, Workload
from emulator.trace.meaning.workload import build_workload
from tests.support.random_traces import random_traces
from tests.support.traces import Node, coll, node, rank_trace, recv, send


def played(*ranks: list[Node], lasting: list[int]) -> list[list[tuple[int, int]]]:
    """(start, end) in µs of every node by position, for each rank; `lasting` is in µs by instance."""
    workload = build_workload([rank_trace(rank, nodes) for rank, nodes in enumerate(ranks)])
    line = computed_time_line(workload, np.array(lasting, dtype=np.int64) * 1000)
    assert not line.is_recorded
    pairs = zip(line.start_ns, line.end_ns, strict=True)
    return [[(s // 1000, e // 1000) for s, e in zip(one.tolist(), two.tolist(), strict=True)] for one, two in pairs]


def test_a_collective_ends_together_and_lasts_from_the_last_post() -> None:
    assert played(
        [node(1, duration=5), coll(2, "all_reduce", deps=[1])],
        [node(1, duration=20), coll(2, "all_reduce", deps=[1])],
        lasting=[7],
    ) == [[(0, 5), (5, 27)], [(0, 20), (20, 27)]]


def test_a_resource_runs_one_node_at_a_time_in_ready_order() -> None:
    line = played(
        [node(1, duration=5), node(2, duration=3), node(3, duration=4, cpu=True), node(4, duration=1, deps=[3])],
        lasting=[],
    )
    assert line == [[(0, 5), (5, 8), (0, 4), (8, 9)]]


def test_collectives_of_a_group_wait_for_the_one_before() -> None:
    """The second one is ready first."""
    both = [node(1, duration=10), coll(2, "barrier", 0, deps=[1]), coll(3, "barrier", 0)]
    assert played(both, both, lasting=[4, 1])[0] == [(0, 10), (10, 14), (14, 15)]


def test_a_receive_ends_when_the_message_is_there_and_it_is_ready() -> None:
    assert played(
        [node(1, duration=9), send(2, 1, deps=[1])], [recv(1, 0), node(2, duration=1, deps=[1])], lasting=[3]
    ) == [[(0, 9), (9, 12)], [(0, 12), (12, 13)]]
    assert played([send(1, 1)], [node(1, duration=30), recv(2, 0, deps=[1])], lasting=[3])[1] == [(0, 30), (30, 30)]


def _overlaps(start: np.ndarray, end: np.ndarray) -> bool:
    order = np.lexsort((end, start))
    return bool(np.any(end[order][:-1] > start[order][1:]))


@pytest.mark.parametrize("seed", range(40))
def test_random_sets_keep_the_rules(seed: int) -> None:
    workload = build_workload(random_traces(seed))
    lasting = np.arange(workload.instances, dtype=np.int64) * 7
    line = computed_time_line(workload, lasting)
    ends: dict[int, set[int]] = {}
    for program, start, end in zip(workload.programs, line.start_ns, line.end_ns, strict=True):
        owner = np.repeat(np.arange(len(program)), np.diff(program.dep_offset))
        assert np.all(end[program.dep_position] <= start[owner])
        for resource in (Resource.CPU, Resource.DEVICE):
            mine = program.resource == resource
            assert np.array_equal((end - start)[mine], program.duration_ns[mine])
            assert not _overlaps(start[mine], end[mine])
        for position, item in program.communications.items():
            if item.kind.is_collective:
                ends.setdefault(item.instance, set()).add(int(end[position]))
    assert all(len(found) == 1 for found in ends.values())
    assert line.length_ns >= _critical(workload, lasting)


def _critical(workload: Workload, lasting: np.ndarray) -> int:
    from emulator.trace.analysis.critical_path import longest_path_ns

    return longest_path_ns(workload, communication_ns=lasting)


def test_recorded_times_begin_at_the_first_start_of_the_set() -> None:
    traces = [
        rank_trace(0, [node(1, start=1000, duration=5), coll(2, "barrier", 0, start=1010, duration=4)]),
        rank_trace(1, [node(1, start=1003, duration=5), coll(2, "barrier", 0, start=1011, duration=3)]),
    ]
    line = recorded_time_line(build_workload(traces), traces)
    assert line.is_recorded
    assert [one.tolist() for one in line.start_ns] == [[0, 10_000], [3_000, 11_000]]
    assert line.length_ns == 14_000


def test_a_set_without_start_times_of_communications_has_no_recorded_ones() -> None:
    traces = [rank_trace(0, [node(1, start=1000, duration=5), coll(2, "barrier", 0)])]
    assert recorded_time_line(build_workload(traces), traces) is None
