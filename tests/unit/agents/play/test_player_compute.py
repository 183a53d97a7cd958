"""Compute as time: what the CPU and the device of a rank do, and when."""

import pytest

from tests.support.playing import everyone, play
from tests.support.traces import INVALID, LOAD, METADATA, coll, node, rank_trace, recv, send

US = 1_000
LATE = [None, (0, 1_000_000), (1_000_000, 1_000_000)]


@pytest.mark.parametrize("lateness", LATE)
def test_a_chain_takes_the_sum_of_its_durations_however_late_alarms_are(lateness: tuple[int, int] | None) -> None:
    chain = [node(k, duration=2, deps=[k - 1] if k > 1 else []) for k in range(1, 1001)]
    played = play([rank_trace(0, chain), rank_trace(1, [])], lateness_ns=lateness)
    assert played.length(0) == 2_000 * US
    assert played.summaries[0, 0].compute_ns == 2_000 * US


@pytest.mark.parametrize("lateness", LATE)
def test_late_alarms_do_not_add_up_across_resources(lateness: tuple[int, int] | None) -> None:
    chain = [node(k, duration=2, deps=[k - 1] if k > 1 else [], cpu=k % 3 == 0) for k in range(1, 301)]
    assert play([rank_trace(0, chain), rank_trace(1, [])], lateness_ns=lateness).length(0) == 600 * US


def test_a_communication_is_posted_when_it_is_seen_to_be_ready_not_before() -> None:
    nodes = [node(1, duration=10), coll(2, "all_reduce", 100, deps=[1]), node(3, duration=10, deps=[1])]
    played = play(everyone(2, nodes), lateness_ns=(700, 700))
    assert played.post(0, 2) == 10 * US + 700
    assert played.length(0) == 20 * US  # node 3 began on schedule


def test_cpu_and_device_run_side_by_side_one_node_at_a_time_each() -> None:
    cpu = [node(k, duration=10, cpu=True) for k in (1, 2, 3)]
    device = [node(k, duration=7) for k in (4, 5)] + [node(6, LOAD, duration=7)]
    nodes = [*cpu, *device, send(7, 1, 0, deps=[1, 2, 3]), send(8, 1, 0, tag=1, deps=[4, 5, 6])]
    played = play([rank_trace(0, nodes), rank_trace(1, [recv(1, 0, 0), recv(2, 0, 0, tag=1)])])
    assert (played.post(0, 7), played.post(0, 8)) == (30 * US, 21 * US)
    assert played.summaries[0, 0].compute_ns == 21 * US


def order_of(*nodes_before: object, sends: dict[int, int]) -> list[int]:
    """Plays nodes on rank 0, with a send of no bytes after each of `sends`; returns these in the order they ended."""
    marks = [send(100 + k, 1, 0, tag=k, deps=[k]) for k in sends]
    received = [recv(100 + k, 0, 0, tag=k) for k in sends]
    played = play([rank_trace(0, [*nodes_before, *marks]), rank_trace(1, received)])  # type: ignore[list-item]
    assert {k: played.post(0, 100 + k) for k in sends} == {k: at * US for k, at in sends.items()}
    return sorted(sends, key=lambda k: sends[k])


def test_ready_first_runs_first_whatever_its_id() -> None:
    # 9 is ready at 5 and 2 only at 6; the device is busy until 10.
    nodes = [
        node(1, duration=10),
        node(8, duration=5, cpu=True),
        node(9, duration=4, deps=[8]),
        node(10, duration=1, cpu=True),
        node(2, duration=3, deps=[10]),
    ]
    assert order_of(*nodes, sends={1: 10, 9: 14, 2: 17}) == [1, 9, 2]


def test_of_those_ready_at_once_the_smallest_id_runs_first() -> None:
    nodes = [node(3, duration=3), node(1, duration=2), node(2, duration=4)]
    assert order_of(*nodes, sends={1: 2, 2: 6, 3: 9}) == [1, 2, 3]


@pytest.mark.parametrize("first_is_cpu", [True, False])
def test_two_nodes_that_end_together_make_others_ready_together(first_is_cpu: bool) -> None:
    # Nodes 5 and 6 end at 10 on different resources: 2 (after 6) and 4 (after 5) are ready at once, 2 goes first.
    nodes = [
        node(5, duration=10, cpu=first_is_cpu),
        node(6, duration=10, cpu=not first_is_cpu),
        node(4, duration=3, deps=[5], cpu=first_is_cpu),
        node(2, duration=1, deps=[6], cpu=first_is_cpu),
    ]
    assert order_of(*nodes, sends={2: 11, 4: 14}) == [2, 4]


def test_what_was_ready_before_an_arrival_runs_first_though_the_alarm_is_late() -> None:
    # Node 3 is ready at 10 (CPU), node 4 when the payload is here, at 50; the CPU's alarm would come at 1,010.
    nodes = [
        node(1, duration=10, cpu=True),
        recv(2, 1, 8),
        node(3, duration=100, deps=[1]),
        node(4, duration=7, deps=[2]),
    ]
    sender = [node(1, duration=49), send(2, 0, 8, deps=[1])]
    late = play(
        [rank_trace(0, nodes), rank_trace(1, sender)],
        lateness_ns=(1_000_000, 1_000_000),
        head_start_ns={0: 1_000_000},  # so that the sender, 1 ms late in posting, is not later than that
        latency_ns=1_000,
    )
    assert late.done(0, 2) == 50 * US
    assert late.length(0) == (10 + 100 + 7) * US


def test_a_short_node_that_begins_beside_a_long_one_ends_on_time() -> None:
    # The device is busy until 100; what the arrival at 20 starts on the CPU ends at 25, and so the answer goes out.
    nodes = [node(1, duration=100), recv(2, 1, 8), node(3, duration=5, cpu=True, deps=[2]), send(4, 1, 8, deps=[3])]
    other = [node(1, duration=19), send(2, 0, 8, deps=[1]), recv(3, 0, 8)]
    played = play([rank_trace(0, nodes), rank_trace(1, other)], latency_ns=US)
    assert played.post(0, 4) == 25 * US


@pytest.mark.parametrize("kind", [METADATA, INVALID])
def test_metadata_takes_no_time(kind: object) -> None:
    nodes = [
        node(1, duration=10),
        node(2, kind, duration=50, deps=[1]),  # type: ignore[arg-type]
        node(3, duration=5, deps=[2]),
        node(4, kind, duration=50, deps=[3]),  # type: ignore[arg-type]
    ]
    played = play([rank_trace(0, nodes), rank_trace(1, [])], lateness_ns=(0, 5_000))
    assert played.length(0) == 15 * US


def test_nodes_without_a_duration_end_where_they_begin() -> None:
    nodes = [node(1, duration=0), node(2, duration=0, deps=[1], cpu=True), node(3, duration=4, deps=[2])]
    assert play([rank_trace(0, nodes), rank_trace(1, [])]).length(0) == 4 * US


def test_recorded_cpu_time_of_a_communication_is_played_and_not_recorded() -> None:
    nodes = [coll(1, "all_reduce", 100, cpu=True, duration=12), node(2, duration=3, deps=[1])]
    played = play(everyone(2, nodes))
    assert played.completions == []
    assert played.length(1) == 15 * US


def test_an_empty_rank_is_done_at_once_in_every_iteration() -> None:
    played = play([rank_trace(0, [node(1, duration=3)]), rank_trace(1, [])], iterations=(-1, 0))
    assert [played.length(1, k) for k in (-1, 0)] == [0, 0]
    assert [played.length(0, k) for k in (-1, 0)] == [3 * US, 3 * US]


# --- how the time was spent -----------------------------------------------------------------------------------------


def usage(played: object, rank: int = 0) -> tuple[int, int, int]:
    summary = played.summaries[0, rank]  # type: ignore[attr-defined]
    return summary.compute_ns, summary.communication_ns, summary.overlap_ns


@pytest.mark.parametrize("lateness", [None, (0, 0)])
def test_usage_of_compute_beside_communication(lateness: tuple[int, int] | None) -> None:
    # Rank 0: device 0-10 and 10-30; a send of 10 bytes at 1 byte/us from 10 on, acknowledged at 20 + 2.
    nodes = [
        node(1, duration=10),
        send(2, 1, 10, deps=[1]),
        node(3, duration=20, deps=[1]),
        node(4, duration=8, cpu=True),
    ]
    played = play(
        [rank_trace(0, nodes), rank_trace(1, [recv(1, 0, 10)])],
        latency_ns=US,
        bytes_per_s=1_000_000,
        lateness_ns=lateness,
    )
    assert usage(played) == (30 * US, 12 * US, 12 * US)
    assert usage(played, 1) == (0, 21 * US, 0)


def test_two_communications_at_once_count_once() -> None:
    # Sends of 10 and 20 bytes from 0 and from 5 on share one port: done at 12 and 32. The device is busy 5-35.
    nodes = [
        send(1, 1, 10),
        node(2, duration=5, cpu=True),
        send(3, 1, 20, tag=1, deps=[2]),
        node(4, duration=30, deps=[2]),
    ]
    played = play(
        [rank_trace(0, nodes), rank_trace(1, [recv(1, 0, 10), recv(2, 0, 20, tag=1)])],
        latency_ns=US,
        bytes_per_s=1_000_000,
    )
    assert (played.done(0, 1), played.done(0, 3)) == (12 * US, 32 * US)
    assert usage(played) == (30 * US, 32 * US, 27 * US)


def test_late_alarms_leave_compute_exact_and_shift_only_communication() -> None:
    # The alarm at 10 comes at 60: the device ran 10-40 meanwhile, the send began at 60, so nothing overlapped.
    nodes = [node(1, duration=10), send(2, 1, 8, deps=[1]), node(3, duration=30, deps=[1])]
    played = play([rank_trace(0, nodes), rank_trace(1, [recv(1, 0, 8)])], lateness_ns=(50 * US, 50 * US), latency_ns=US)
    assert played.post(0, 2) == 60 * US
    assert usage(played) == (40 * US, 2 * US, 0)
