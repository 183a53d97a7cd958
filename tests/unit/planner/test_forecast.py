"""What a run will move and how long that takes at least."""

import numpy as np
import pytest

from emulator.planner.forecast import Forecast, forecast, sent_bytes
from emulator.planner.group_layout import Layouts
from emulator.planner.network.ideal_times import UNKNOWN_NS
from emulator.trace.meaning.model import Communication, Workload
from emulator.trace.meaning.workload import build_workload
from tests.support.playing import everyone
from tests.support.traces import coll, node, rank_trace, recv, send


def ring(item: Communication) -> str:
    return "ring" if item.kind.is_collective else ""


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_a_ring_sends_two_times_all_but_one_block(ranks: int) -> None:
    size = 840 * ranks
    workload = build_workload(everyone(ranks, [coll(1, "all_reduce", size), coll(2, "all_reduce", size)]))
    assert sent_bytes(workload, algorithm_of=ring) == [2 * 2 * (ranks - 1) * 840] * ranks


def test_what_is_sent_depends_on_the_layout() -> None:
    workload = build_workload(everyone(3, [coll(1, "all_gather", 100)]))
    layouts = Layouts([0, 0, 1], [0, 1, 0])
    # Everybody sends a shard to the other node; on its node, rank 0 gives rank 1 that of rank 2 besides its own.
    assert sent_bytes(workload, algorithm_of=lambda _: "hierarchical", layouts=layouts) == [300, 200, 100]
    assert sent_bytes(workload, algorithm_of=lambda _: "hierarchical") == [200, 200, 200]


def test_a_send_counts_for_its_sender() -> None:
    workload = build_workload([rank_trace(0, [send(1, 1, 500)]), rank_trace(1, [recv(1, 0, 500)])])
    assert sent_bytes(workload, algorithm_of=ring) == [500, 0]


def test_an_uneven_all_to_all_sends_its_splits() -> None:
    workload = build_workload(
        [
            rank_trace(0, [coll(1, "all_to_all", 30, in_splits=(10, 20), out_splits=(10, 5))]),
            rank_trace(1, [coll(1, "all_to_all", 12, in_splits=(5, 7), out_splits=(20, 7))]),
        ]
    )
    assert sent_bytes(workload, algorithm_of=lambda _: "pairwise") == [20, 5]


def of(workload: Workload, ideal_ns: list[int]) -> Forecast:
    return forecast(workload, algorithm_of=ring, ideal_ns=np.array(ideal_ns, np.int64), iterations=5, warmup=1)


def test_an_iteration_takes_at_least_compute_and_ideal_communication() -> None:
    workload = build_workload(everyone(2, [node(1, duration=7), coll(2, "all_reduce", 800, deps=[1])]))
    found = of(workload, [3_000])
    assert found == Forecast(6, 1, 2, [800, 800], 10_000, has_rates=True)
    assert of(workload, [UNKNOWN_NS]) == Forecast(6, 1, 2, [800, 800], 7_000, has_rates=False)
