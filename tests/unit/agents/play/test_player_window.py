"""Programs that do not fit the window: delivered piece by piece, they give the same times as whole ones."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from agents.play import tags
from agents.play.player import IDLE_REPORT_NS, RankPlayer
from agents.play.window import REMEMBERED_ENDS
from emulator.control.observations import Completion
from emulator.controller.program_stream import ProgramStream
from emulator.errors import LocalProtocolError
from emulator.planner.rank_program import Chunk, PlaySettings
from emulator.trace.meaning.model import CommKind, RankTrace
from emulator.trace.meaning.workload import build_workload, prove
from tests.support.memory_transport.transport import MemoryNetwork
from tests.support.playing import Played, check_bytes, check_order, play
from tests.support.traces import METADATA, Node, coll, node, rank_trace, recv, send
from tests.support.virtual_clock import VirtualClock

US = 1_000


def chain(length: int, *, every: int = 5) -> list[Node]:
    """Compute nodes of 3 us one after the other, on CPU and device in turn; each `every`-th is an all-reduce."""
    deps = [[k - 1] if k > 1 else [] for k in range(length + 1)]
    return [
        coll(k, "all_reduce", 100, deps=deps[k])
        if k % every == 0
        else node(k, duration=3, deps=deps[k], cpu=k % 2 == 0)
        for k in range(1, length + 1)
    ]


@pytest.mark.parametrize("window", [1, 2, 7, 64, 1000])
@pytest.mark.parametrize("batch", [1, 16])
def test_a_chain_takes_as_long_through_a_window(window: int, batch: int) -> None:
    traces = [rank_trace(rank, chain(200)) for rank in range(2)]
    whole = play(traces, iterations=(-1, 0))
    narrow = play(traces, iterations=(-1, 0), window=window, retire_batch=min(batch, max(1, window // 4)))
    assert narrow.by_node() == whole.by_node()
    assert [narrow.summaries[k].compute_ns for k in sorted(narrow.summaries)] == [80 * 3 * US] * 4


def test_room_is_reported_for_every_node_of_every_iteration() -> None:
    traces = [rank_trace(rank, chain(100)) for rank in range(2)]
    played = play(traces, iterations=(-1, 0), window=10, retire_batch=3)
    total: Counter[int] = Counter()
    for rank, nodes in played.retired:
        total[rank] += nodes
    assert total == {0: 200, 1: 200}


def test_a_node_that_comes_late_begins_where_its_dependencies_ended_not_before() -> None:
    # Window 2, chunks 40 us late. The device is idle from 5 on; node 4 depends on the receive, which ends at 100.
    nodes = [node(1, duration=5), recv(2, 1, 8), node(3, METADATA, deps=[2]), node(4, duration=50, deps=[2])]
    sender = [node(1, duration=99), send(2, 0, 8, deps=[1])]
    played = play([rank_trace(0, nodes), rank_trace(1, sender)], window=2, feed_ns=40 * US, latency_ns=US)
    assert played.done(0, 2) == 100 * US
    assert played.length(0) == 150 * US


def test_a_node_that_comes_late_still_runs_on_schedule() -> None:
    # Each chunk of one node is 40 us late, but the 5 us of each node follow one another.
    nodes = [node(k, duration=5, deps=[k - 1] if k > 1 else []) for k in range(1, 11)]
    played = play([rank_trace(0, nodes), rank_trace(1, [])], window=1, feed_ns=40 * US)
    assert played.length(0) == 50 * US
    assert played.summaries[0, 0].compute_ns == 50 * US


def test_dependencies_that_ended_long_ago_hold_nothing_up() -> None:
    # More nodes than ends are remembered; the last depends on the first receive, and begins when the device is free.
    count = REMEMBERED_ENDS + 50
    fill = [node(k, duration=1, deps=[k - 1] if k > 2 else []) for k in range(2, count)]
    nodes = [recv(1, 1, 8), *fill, node(count, duration=7, deps=[1])]
    played = play([rank_trace(0, nodes), rank_trace(1, [send(1, 0, 8)])], window=64, retire_batch=16)
    assert played.length(0) == (count - 2 + 7) * US


def stuck_without_room() -> list[RankTrace]:
    """Rank 0 needs its last node, position 8, for rank 1 to go on; with a window of 8, 7 receives before it wait."""
    receives = [recv(2 + k, 1, 8, tag=k) for k in range(7)]
    answers = [send(2 + k, 0, 8, tag=k, deps=[1]) for k in range(7)]
    return [
        rank_trace(0, [node(1, duration=1), *receives, send(9, 1, 8, tag=99)]),
        rank_trace(1, [recv(1, 0, 8, tag=99), *answers]),
    ]


def test_the_window_that_was_proven_suffices_though_room_is_reported_in_batches() -> None:
    traces = stuck_without_room()
    workload = build_workload(traces)
    window = prove(workload.programs, groups=workload.groups, instances=workload.instances, window=8)
    assert window == 8
    played = play(traces, workload=workload, window=window, retire_batch=2, latency_ns=US)
    check_order(played)
    assert played.done(0, 9) <= IDLE_REPORT_NS + 100 * US


def test_room_is_reported_in_batches_while_there_is_something_to_compute() -> None:
    nodes = [node(k, duration=5000, deps=[k - 1] if k > 1 else []) for k in range(1, 13)]
    played = play([rank_trace(0, nodes), rank_trace(1, [])], window=8, retire_batch=3)
    assert [nodes for _, nodes in played.retired] == [3, 3, 3, 3]


def test_wide_programs_play_through_the_smallest_window_that_is_proven() -> None:
    traces = crossing(40)
    workload = build_workload(traces)
    for start in (1, 3):
        window = prove(workload.programs, groups=workload.groups, instances=workload.instances, window=start)
        assert window < len(workload.programs[0])
        for batch in (1, max(1, window // 4)):
            played = play(traces, workload=workload, window=window, retire_batch=batch, iterations=(0, 1))
            check_order(played)
            check_bytes(played)


def crossing(count: int) -> list[RankTrace]:
    """Two ranks that meet in pairs of communications in opposite orders: (1, 2), (3, 4) … against (2, 1), (4, 3) …"""

    def nodes(rank: int) -> Sequence[Node]:
        peer, made = 1 - rank, []
        for k in range(0, count, 2):
            first, second = (k, k + 1) if rank == 0 else (k + 1, k)
            made += [
                (send if rank == 0 else recv)(10 * k + 1, peer, 8, tag=first),
                (send if rank == 0 else recv)(10 * k + 2, peer, 8, tag=second),
                node(10 * k + 3, duration=1),
                (recv if rank == 0 else send)(10 * k + 4, peer, 8, tag=100 + first, deps=[10 * k + 1]),
            ]
            made += [(recv if rank == 0 else send)(10 * k + 5, peer, 8, tag=100 + second, deps=[10 * k + 2])]
        return made

    return [rank_trace(rank, nodes(rank)) for rank in range(2)]


# --- one player by hand ---------------------------------------------------------------------------------------------


class Heard:
    """A PlayObserver that keeps what it is told."""

    def __init__(self) -> None:
        self.completions: list[Completion] = []
        self.summaries: list[object] = []
        self.failures: list[tuple[int, str]] = []
        self.retired_nodes = 0

    def completed(self, completion: Completion) -> None:
        self.completions.append(completion)

    def retired(self, rank: int, nodes: int) -> None:
        self.retired_nodes += nodes

    def computed(self, *_: object) -> None: ...

    def iteration_done(self, iteration: int, summary: object) -> None:
        self.summaries.append(summary)

    def failed(self, rank: int, peer: int, reason: str) -> None:
        self.failures.append((rank, reason))


def alone(nodes: list[Node], *, batch: int = 1) -> tuple[RankPlayer, list[Chunk], VirtualClock, Heard]:
    """A player of rank 0 of two, of which rank 1 never speaks, and its program in chunks of one node."""
    traces = [rank_trace(0, nodes), rank_trace(1, [coll(1, "all_reduce", 8)])]
    workload = build_workload(traces)
    clock, heard = VirtualClock(), Heard()
    network = MemoryNetwork(clock)
    endpoints = [network.attach(rank) for rank in range(2)]
    settings = PlaySettings(credits=True, instances=workload.instances, algorithms=("ring",), groups=[(0, 1)])
    player = RankPlayer(endpoints[0], clock, heard, settings=settings, nodes=len(nodes), retire_batch=batch)
    for endpoint in endpoints:
        endpoint.connect({one.rank: one.address for one in endpoints}, player)
    stream = ProgramStream(workload.programs[0], traces[0].node_id, window=1, algorithm_of=lambda _: 0)
    chunks = []
    for _ in nodes:
        chunks += stream.chunks()
        stream.grant(1)
    return player, chunks, clock, heard


WAITING = [node(1, duration=10), node(2, duration=10, cpu=True), coll(3, "all_reduce", 8, deps=[1])]


def test_what_a_player_says_about_itself() -> None:
    player, chunks, clock, heard = alone(WAITING, batch=2)
    assert player.prefetched(0)
    assert not player.prefetched(1)
    player.deliver(chunks[0])
    assert player.prefetched(1)
    assert not player.prefetched(3)
    player.deliver(chunks[1])
    player.deliver(chunks[2])
    assert player.prefetched(3)
    assert player.prefetched(4096)
    assert (player.is_computing, player.completed_nodes, player.waiting_on()) == (False, 0, "")
    player.begin(0, 100)
    clock.run(105)
    assert (player.is_computing, player.waiting_on()) == (True, "")
    clock.run(100 + 10 * US)
    assert (player.is_computing, heard.retired_nodes, player.completed_nodes) == (False, 2, 0)
    assert player.waiting_on() == "rank 0: all_reduce (node 3) waits for payload from ranks 1"
    assert heard.summaries == []


def test_completed_nodes_are_those_not_yet_retired() -> None:
    player, chunks, clock, heard = alone(WAITING, batch=3)
    for chunk in chunks:
        player.deliver(chunk)
    player.begin(0, 0)
    clock.run(10 * US)
    assert (heard.retired_nodes, player.completed_nodes) == (0, 2)


def test_a_receive_that_waits_says_for_whom() -> None:
    player, chunks, clock, heard = alone([coll(1, "all_reduce", 8)])
    planned = chunks[0].communications[0]
    player.deliver(replace(chunks[0], communications={0: replace(planned, kind=CommKind.RECV, peer=1)}))
    player.begin(0, 0)
    clock.run(10 * US)
    assert player.waiting_on() == "rank 0: recv (node 1) waits for rank 1"
    player.arrived(1, tags.pair_tag(planned.instance), 8, -5)  # read off the network just before it was posted
    assert [(done.post_ns, done.done_ns) for done in heard.completions] == [(0, 0)]


def test_chunks_out_of_order_are_refused() -> None:
    player, chunks, _, _ = alone(WAITING)
    with pytest.raises(LocalProtocolError, match="rank 0 received position 1 instead of 0"):
        player.deliver(chunks[1])


def test_a_failed_transfer_fails_the_rank_in_words() -> None:
    player, _, _, heard = alone(WAITING)
    player.failed(1, "it went away")
    assert heard.failures == [(0, "transfers between ranks 0 and 1 failed: it went away")]


def test_an_iteration_begins_when_the_clock_says() -> None:
    played: Played = play([rank_trace(0, [node(1, duration=1)]), rank_trace(1, [])], head_start_ns={1: 5 * US})
    assert played.summaries[0, 1].start_ns - played.summaries[0, 0].start_ns == 5 * US
