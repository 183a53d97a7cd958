"""One rank of many: what it says of its operations, of which nothing else is known."""

import numpy as np
import pytest

from emulator.annexes.trace_kit.time_line import computed_time_line
from emulator.errors import TraceError
from emulator.planner.algorithm_choice import AlgorithmChoice
from emulator.planner.traffic.from_trace import traffic_of_workload
from emulator.planner.traffic.operation import pair_bytes
from emulator.trace.analysis.critical_path import CriticalPath
from emulator.trace.analysis.summary import summarise
from emulator.trace.meaning.model import RankTrace, Workload
from emulator.trace.meaning.workload import build_workload
from tests.support.traces import Node, coll, node, rank_trace, recv, send

RANK, RANKS = 2, 4


def traces(*nodes: Node) -> list[RankTrace]:
    return [rank_trace(rank, nodes) if rank == RANK else RankTrace.empty(rank) for rank in range(RANKS)]


def alone(*nodes: Node) -> Workload:
    return build_workload(traces(*nodes), groups={"pair": (1, 2)}, only=RANK)


def bytes_between(workload: Workload) -> dict[tuple[int, int], int]:
    traffic = traffic_of_workload(workload, name_of=AlgorithmChoice(workload, {"all_reduce": "ring"}).name_of)
    pairs = pair_bytes(traffic).of_rank(RANK)
    columns = (pairs.src.tolist(), pairs.dst.tolist(), pairs.bytes.tolist())
    return {(src, dst): size for src, dst, size in zip(*columns, strict=True)}


def test_every_node_is_an_operation_with_the_others_of_its_group() -> None:
    workload = alone(coll(1, "all_reduce", 400), coll(2, "broadcast", 80, "pair"), send(3, 0, 7), recv(4, 3, 9))
    found = list(workload.programs[RANK].communications.values())
    assert [workload.groups[one.group].ranks for one in found[:2]] == [(0, 1, 2, 3), (1, 2)]
    assert [one.root for one in found] == [-1, 1, -1, -1]  # the lowest of the group, not the lowest recorded
    assert sorted(one.instance for one in found) == [0, 1, 2, 3]
    assert (workload.instances, [len(one) for one in workload.programs]) == (4, [0, 0, 4, 0])
    # A ring of four moves 2 * 3/4 of 400 bytes from every rank to the next.
    assert bytes_between(workload) == {(2, 3): 600, (1, 2): 600 + 80, (2, 0): 7, (3, 2): 9}


def test_the_splits_are_its_own_row_and_column() -> None:
    splits = {"in_splits": (1, 2, 3, 4), "out_splits": (5, 6, 3, 8)}
    assert bytes_between(alone(coll(1, "all_to_all", 10, **splits))) == {
        (2, 0): 1,
        (2, 1): 2,
        (2, 3): 4,
        (0, 2): 5,
        (1, 2): 6,
        (3, 2): 8,
    }


def test_a_receive_lasts_from_its_post() -> None:
    workload = alone(node(1, duration=5), recv(2, 0, deps=[1]), node(3, duration=2, deps=[2]))
    lasting = np.array([7_000], dtype=np.int64)
    line = computed_time_line(workload, lasting)
    assert (line.start_ns[RANK].tolist(), line.end_ns[RANK].tolist()) == ([0, 5_000, 12_000], [5_000, 12_000, 14_000])
    assert CriticalPath(workload).length_ns(lasting) == 14_000


def test_the_summary_is_of_that_rank() -> None:
    given = traces(node(1, duration=5), coll(2, "all_reduce", 8, deps=[1]))
    found = summarise(build_workload(given, only=RANK), given)
    assert (found.ranks, found.only, found.nodes, found.device_ns.least) == (RANKS, RANK, 2, 5_000)
    assert found.not_playable == "1 of 4 ranks: not playable; record all ranks"


def test_a_whole_set_still_needs_the_others() -> None:
    with pytest.raises(TraceError, match="rank 0 has only 0 of that group"):
        build_workload(traces(coll(1, "all_reduce")))
