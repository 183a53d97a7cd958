"""Collectives, sends and receives of whole worlds: when they are posted, when they are done, what they moved."""

import pytest

from emulator.annexes.workloads.collective_loop import CollectiveLoop, collective_workload
from emulator.annexes.workloads.transformer import Transformer
from emulator.annexes.workloads.transformer_workload import transformer_workload
from emulator.host.core_wait import CoreWait
from emulator.planner.algorithms import algorithm_names
from emulator.planner.group_layout import Layouts
from emulator.trace.meaning.model import CommKind, RankTrace
from tests.support.playing import Played, check_bytes, check_order, everyone, play, traces_of
from tests.support.traces import coll, node, rank_trace, recv, send

US = 1_000
PAIR_GROUPS = {"a": (0, 1), "b": (0, 2), "c": (1, 2)}
EVERY_ALGORITHM = [(kind, name) for kind in CommKind if kind.is_collective for name in sorted(algorithm_names(kind))]


def cct(played: Played, node_id: int, iteration: int = 0) -> int:
    """Last done minus last post."""
    mine = [c for c in played.completions if (c.node_id, c.iteration) == (node_id, iteration)]
    return max(c.done_ns for c in mine) - max(c.post_ns for c in mine)


@pytest.mark.parametrize("with_credits", [True, False])
@pytest.mark.parametrize("ranks", [1, 2, 3, 7, 8])
@pytest.mark.parametrize(("kind", "name"), EVERY_ALGORITHM, ids=lambda value: getattr(value, "label", value))
def test_every_algorithm_moves_its_bytes(kind: CommKind, name: str, ranks: int, with_credits: bool) -> None:
    sizes = [0] if kind is CommKind.BARRIER else [0, 1, 13, 1000]
    nodes = [coll(k, kind.label, size, deps=[k - 1] if k > 1 else []) for k, size in enumerate(sizes, 1)]
    label = "reduce_scatter" if kind is CommKind.REDUCE_SCATTER_BLOCK else kind.label
    played = play(
        everyone(ranks, nodes),
        with_credits=with_credits,
        algorithms=[f"{label}={name}"],
        message_bytes=100,
        bytes_per_s=10**9,
    )
    assert {played.choice.name_of(meant) for meant in played.communications().values()} == {name}
    check_order(played)
    check_bytes(played)


@pytest.mark.parametrize("places", ["aabb", "abab", "aab", "aaab", "abcde"])
def test_algorithms_play_by_the_layout_that_agents_are_told(places: str) -> None:
    layouts = Layouts([ord(node) for node in places], [places[:at].count(node) for at, node in enumerate(places)])
    named = {
        "all_reduce": "hierarchical",
        "all_gather": "pat",
        "reduce_scatter": "ring:channels=2",
        "all_to_all": "pxn",
    }
    nodes = [coll(at, label, 1001, deps=[at - 1] if at > 1 else []) for at, label in enumerate(named, 1)]
    asked = [f"{label}={name}" for label, name in named.items()]
    played = play(everyone(len(places), nodes), algorithms=asked, layouts=layouts)
    assert sorted(played.choice.names) == sorted(named.values())
    check_order(played)
    check_bytes(played)


def test_uneven_all_to_all_moves_its_splits() -> None:
    splits = [(5, 0, 7), (1, 2, 3), (0, 0, 0)]
    received = list(zip(*splits, strict=True))
    traces = [
        rank_trace(rank, [coll(1, "all_to_all", sum(splits[rank]), in_splits=splits[rank], out_splits=received[rank])])
        for rank in range(3)
    ]
    played = play(traces)
    check_bytes(played)
    assert [(played.at(rank, 1).bytes_sent, played.at(rank, 1).bytes_received) for rank in range(3)] == [
        (7, 1),
        (4, 0),
        (0, 10),
    ]


def test_a_network_without_latency_takes_no_time() -> None:
    nodes = [coll(1, "all_reduce", 1000), coll(2, "all_to_all", 1000, deps=[1])]
    played = play(everyone(4, nodes), latency_ns=0)
    assert [cct(played, 1), cct(played, 2)] == [0, 0]
    check_order(played)


def test_cct_is_the_network_and_skew_is_not_in_it() -> None:
    nodes = [coll(1, "all_reduce", 1000)]
    together = play(everyone(4, nodes), latency_ns=US)
    apart = play(everyone(4, nodes), latency_ns=US, head_start_ns={0: 0, 1: 70 * US, 2: 900 * US, 3: 30 * US})
    assert cct(together, 1) == cct(apart, 1) > 0
    posts = [apart.at(rank, 1).post_ns for rank in range(4)]
    assert max(posts) - min(posts) == 900 * US
    own = [apart.at(rank, 1).done_ns - apart.at(rank, 1).post_ns for rank in range(4)]
    assert min(own[0], own[1], own[3]) > 800 * US > own[2]


def late_world() -> list[RankTrace]:
    """Three ranks; rank 2 posts a millisecond after the others, rank 1 half of one."""
    delays = [0, 500, 1000]
    return [
        rank_trace(rank, [node(1, duration=delay), coll(2, "all_gather", 5000, deps=[1])])
        for rank, delay in enumerate(delays)
    ]


def arrivals_before_posts(played: Played) -> set[int]:
    """Ranks that payload of a collective reached before they had posted it."""
    nodes = {
        (program.rank, communication.instance): communication.node_id
        for program in played.workload.programs
        for communication in program.communications.values()
        if communication.kind.is_collective
    }
    iterations = sorted({iteration for iteration, _ in played.summaries})
    return {
        one.rank
        for one in played.arrivals
        if (one.rank, one.instance) in nodes
        and one.now < played.at(one.rank, nodes[one.rank, one.instance], iterations[one.epoch]).post_ns
    }


@pytest.mark.parametrize("algorithm", sorted(algorithm_names(CommKind.ALL_GATHER)))
def test_with_credits_no_payload_arrives_before_its_receiver_posted(algorithm: str) -> None:
    played = play(late_world(), algorithms=[f"all_gather={algorithm}"], iterations=(-1, 0, 1), message_bytes=1000)
    assert arrivals_before_posts(played) == set()
    assert not any(one.early for one in played.completions)
    check_bytes(played)


def test_without_credits_payload_that_came_early_is_flagged_and_still_counts() -> None:
    played = play(late_world(), with_credits=False, algorithms=["all_gather=direct"], iterations=(-1, 0))
    assert arrivals_before_posts(played) == {1, 2}
    assert {one.rank for one in played.completions if one.early} == {1, 2}
    check_bytes(played)
    check_order(played)


def test_a_receiver_may_begin_the_iteration_after_its_sender_has() -> None:
    nodes = [coll(1, "all_reduce", 100), coll(2, "all_reduce", 100, deps=[1])]
    for with_credits in (True, False):
        played = play(everyone(3, nodes), iterations=(0, 1, 2), head_start_ns={2: 400 * US}, with_credits=with_credits)
        check_order(played)
        check_bytes(played)


# --- order ----------------------------------------------------------------------------------------------------------


def test_a_collective_that_is_ready_early_waits_for_its_turn() -> None:
    # Node 2 is first in canonical order, but its compute takes long; node 3 is ready at once.
    nodes = [node(1, duration=100), coll(2, "all_reduce", 8, deps=[1]), coll(3, "all_gather", 8)]
    played = play(everyone(2, nodes), latency_ns=US)
    assert played.post(0, 2) == 100 * US
    assert played.post(0, 3) == played.done(0, 2)
    check_order(played)


def test_a_group_has_one_collective_at_a_time_and_groups_overlap() -> None:
    slow = 10_000
    traces = [
        rank_trace(
            0, [coll(1, "all_reduce", slow, "a"), coll(2, "all_reduce", slow, "a"), coll(3, "broadcast", 8, "b")]
        ),
        rank_trace(1, [coll(1, "all_reduce", slow, "a"), coll(2, "all_reduce", slow, "a")]),
        rank_trace(2, [coll(3, "broadcast", 8, "b")]),
    ]
    played = play(traces, groups={"a": (0, 1), "b": (0, 2)}, bytes_per_s=10**9)
    assert played.post(0, 1) == played.post(0, 3) == 0
    assert played.done(0, 3) < played.done(0, 1)
    assert played.post(0, 2) == played.done(0, 1)
    check_order(played)


def test_groups_in_any_order_do_not_block_each_other() -> None:
    # Each rank is ready for its groups in another order; every pair meets all the same.
    orders = {0: ["a", "b"], 1: ["c", "a"], 2: ["b", "c"]}
    traces = [
        rank_trace(
            rank,
            [
                item
                for place, pg in enumerate(names)
                for item in (
                    node(10 + place, duration=1 + 50 * place),
                    coll(place, "all_reduce", 8, pg, deps=[10 + place]),
                )
            ],
        )
        for rank, names in orders.items()
    ]
    check_order(play(traces, groups=PAIR_GROUPS, iterations=(0, 1)))


# --- at once --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 5000])
def test_a_group_of_one_is_done_at_once_and_recorded(size: int) -> None:
    nodes = [node(1, duration=4), coll(2, "all_reduce", size, "one", deps=[1]), node(3, duration=4, deps=[2])]
    played = play([rank_trace(0, nodes), rank_trace(1, [])], groups={"one": (0,)})
    one = played.at(0, 2)
    assert (played.post(0, 2), played.done(0, 2)) == (4 * US, 4 * US)
    assert (one.bytes_sent, one.bytes_received, one.arrival_ns, one.early) == (0, 0, 0, False)
    assert played.length(0) == 8 * US
    assert played.arrivals == []


def test_thousands_at_once_need_no_stack() -> None:
    nodes = [coll(k, "all_reduce", 0, deps=[k - 1] if k > 1 else []) for k in range(1, 3001)]
    played = play([rank_trace(0, nodes)])
    assert len(played.completions) == 3000
    assert played.length(0) == 0


def test_a_collective_of_no_bytes_does_not_wait_for_the_others() -> None:
    traces = [
        rank_trace(rank, [node(1, duration=1000 * rank), coll(2, "all_gather", 0, deps=[1])]) for rank in range(2)
    ]
    played = play(traces)
    assert (played.done(0, 2), played.done(1, 2)) == (0, 1000 * US)


def test_a_barrier_waits_for_the_others() -> None:
    traces = [rank_trace(rank, [node(1, duration=1000 * rank), coll(2, "barrier", 0, deps=[1])]) for rank in range(2)]
    played = play(traces)
    assert played.done(0, 2) > 1000 * US


def test_a_send_and_a_receive_of_no_bytes_are_done_at_once() -> None:
    traces = [rank_trace(0, [send(1, 1, 0)]), rank_trace(1, [node(1, duration=9), recv(2, 0, 0, deps=[1])])]
    played = play(traces)
    assert (played.post(0, 1), played.done(0, 1)) == (0, 0)
    assert (played.post(1, 2), played.done(1, 2)) == (9 * US, 9 * US)
    assert played.at(1, 2).arrival_ns == 0


# --- send and receive -----------------------------------------------------------------------------------------------


def test_a_send_is_done_when_acknowledged_though_the_receive_is_posted_much_later() -> None:
    traces = [rank_trace(0, [send(1, 1, 500)]), rank_trace(1, [node(1, duration=1000), recv(2, 0, 500, deps=[1])])]
    played = play(traces, latency_ns=US)
    received = played.at(1, 2)
    assert (played.post(0, 1), played.done(0, 1)) == (0, 2 * US)
    assert (played.post(1, 2), played.done(1, 2)) == (1000 * US, 1000 * US)
    assert received.arrival_ns - played.at(0, 1).post_ns == US
    assert received.bytes_received == 500
    assert not received.early


def test_a_receive_that_waits_is_done_when_the_last_byte_arrives() -> None:
    traces = [rank_trace(0, [node(1, duration=30), send(2, 1, 5000, deps=[1])]), rank_trace(1, [recv(1, 0, 5000)])]
    played = play(traces, latency_ns=US, bytes_per_s=10**9, message_bytes=1000)
    assert (played.post(1, 1), played.done(1, 1)) == (0, (30 + 5 + 1) * US)
    assert played.at(1, 1).arrival_ns == played.at(1, 1).done_ns


def test_arrival_of_a_collective_is_its_last_byte_and_done_its_last_acknowledgement() -> None:
    # Direct, 2 ranks: credits take 1 us, payload 1 us, the acknowledgement 1 us more.
    played = play(everyone(2, [coll(1, "all_gather", 8)]), latency_ns=US, algorithms=["all_gather=direct"])
    one = played.at(0, 1)
    assert (one.arrival_ns - one.post_ns, one.done_ns - one.post_ns) == (2 * US, 3 * US)
    played = play(
        everyone(2, [coll(1, "all_gather", 8)]), latency_ns=US, algorithms=["all_gather=direct"], with_credits=False
    )
    one = played.at(0, 1)
    assert (one.arrival_ns - one.post_ns, one.done_ns - one.post_ns) == (US, 2 * US)


def test_pairs_of_a_tag_match_in_order_whatever_is_ready_first() -> None:
    sends = [node(1, duration=50), send(2, 1, 11, deps=[1]), send(3, 1, 22)]
    played = play([rank_trace(0, sends), rank_trace(1, [recv(1, 0, 11), recv(2, 0, 22, deps=[1])])])
    assert [played.at(1, k).bytes_received for k in (1, 2)] == [11, 22]


# --- whole worlds ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_credits", [True, False])
def test_a_transformer_plays_on_all_its_groups(with_credits: bool) -> None:
    model = Transformer(
        layers=4,
        hidden=64,
        sequence=16,
        batch=8,
        micro_batches=2,
        vocabulary=128,
        tensor=2,
        pipeline=2,
        data=2,
        shard_optimizer=True,
    )
    traces, groups = traces_of(transformer_workload(model))
    played = play(traces, groups=groups, iterations=(-1, 0), with_credits=with_credits, bytes_per_s=10**10)
    check_order(played)
    check_bytes(played)
    assert {meant.kind for meant in played.communications().values()} >= {CommKind.SEND, CommKind.RECV}
    for program in played.workload.programs:  # none is shorter than its device is busy
        assert played.length(program.rank) >= played.summaries[0, program.rank].compute_ns > 0


def test_iterations_repeat_each_other_on_a_network_that_does() -> None:
    loop = CollectiveLoop(kind=CommKind.ALL_REDUCE, ranks=5, size_bytes=777, count=4, compute_micros=10)
    traces, groups = traces_of(collective_workload(loop))
    played = play(traces, groups=groups, iterations=(-2, -1, 0, 1), bytes_per_s=10**9)
    check_order(played)
    times = played.by_node()
    first = {key[1:]: value for key, value in times.items() if key[0] == -2}
    for iteration in (-1, 0, 1):
        assert {key[1:]: value for key, value in times.items() if key[0] == iteration} == first
    assert len(played.completions) == 4 * 5 * 4
    assert {one.epoch for one in played.arrivals} == {0, 1, 2, 3}  # tags tell iterations apart


@pytest.mark.parametrize(
    "faults",
    [
        {},
        {"loss": 0.1},
        {"duplication": 0.2},
        {"reordering": 0.3},
        {"loss": 0.1, "duplication": 0.1, "reordering": 0.2},
    ],
)
@pytest.mark.parametrize("with_credits", [True, False])
def test_faults_of_the_network_change_times_and_nothing_else(faults: dict[str, float], with_credits: bool) -> None:
    nodes = [
        coll(1, "all_reduce", 3000),
        coll(2, "all_to_all", 900),
        coll(3, "reduce_scatter", 1001, deps=[1]),
        coll(4, "broadcast", 2000, deps=[2]),
        coll(5, "barrier", 0, deps=[3, 4]),
    ]
    played = play(everyone(5, nodes), with_credits=with_credits, iterations=(0, 1), message_bytes=200, seed=7, **faults)
    check_order(played)
    check_bytes(played)


def test_a_peer_that_cannot_be_reached_fails_the_rank() -> None:
    played = play(everyone(2, [coll(1, "all_reduce", 100)]), loss=1.0, retry_limit=3)
    assert {rank for rank, _ in played.failures} == {0, 1}
    assert "transfers between ranks 0 and 1 failed: no answer after 3 retransmissions" in dict(played.failures).values()


def test_time_stamps_of_the_kernel_set_back_the_end_of_a_communication_and_nothing_else() -> None:
    traces = everyone(2, [coll(1, "all_gather", 8), coll(2, "all_gather", 8)])
    plain, stamped = (
        play(traces, latency_ns=US, algorithms=["all_gather=direct"], read_delay_ns=delay) for delay in (0, 300)
    )
    for rank in (0, 1):
        assert plain.length(rank) == stamped.length(rank)
        for node_id in (1, 2):
            before, after = plain.at(rank, node_id), stamped.at(rank, node_id)
            assert (after.post_ns, after.done_ns, after.arrival_ns) == (
                before.post_ns, before.done_ns - 300, before.arrival_ns - 300,
            )  # fmt: skip
            assert (before.read_delay_ns, after.read_delay_ns) == (-1, 300)


def test_a_communication_is_never_done_before_its_post() -> None:
    traces = everyone(2, [coll(1, "all_gather", 8)])
    played = play(traces, latency_ns=US, algorithms=["all_gather=direct"], read_delay_ns=3 * US + 500)
    for one in played.completions:
        assert (one.done_ns, one.read_delay_ns) == (one.post_ns, 3 * US)
        assert one.arrival_ns <= one.done_ns


def test_a_receive_posted_after_its_payload_has_the_arrival_of_the_kernel_and_ends_with_its_post() -> None:
    traces = [rank_trace(0, [send(1, 1, 500)]), rank_trace(1, [node(1, duration=1000), recv(2, 0, 500, deps=[1])])]
    one = play(traces, latency_ns=US, read_delay_ns=300).at(1, 2)
    assert (one.arrival_ns, one.done_ns, one.read_delay_ns) == (one.post_ns - 999 * US - 300, one.post_ns, -1)


class _HalfBusy(CoreWait):
    """A process that waits for a core during every second nanosecond."""

    def until(self, now: int) -> int:
        return now // 2


def test_a_communication_has_the_wait_for_a_core_between_its_post_and_its_end() -> None:
    traces = everyone(2, [coll(1, "all_gather", 8), coll(2, "all_gather", 8)])
    known = play(traces, latency_ns=4 * US, algorithms=["all_gather=direct"], core_wait=_HalfBusy(None))
    for one in known.completions:
        assert one.core_wait_ns == (one.done_ns - one.post_ns) // 2 > 0
    unknown = play(traces, latency_ns=4 * US, algorithms=["all_gather=direct"])
    assert {one.core_wait_ns for one in unknown.completions} == {-1}
