"""What a chain knows of its transfers, which instances have one, and what the controller gets."""

from agents.play import chain
from agents.play.chain import ChainKeeper, RankChain
from emulator.control.observations import BEHIND, ChainRecords
from emulator.controller.recording.network_time import Split, split
from emulator.planner.algorithms import schedule
from emulator.planner.schedule import Collective
from emulator.roce.connection.messages import FirstSent
from emulator.trace.meaning.model import CommKind


class End:
    """An endpoint that knows when everything leaves: all at once, `at_ns` after it was asked."""

    def __init__(self) -> None:
        self.stalled_ns = self.clock_steps = self.collected = self.lead_bytes = 0
        self.spans: list[tuple[int, int]] = []

    def usual_ns(self, since_ns: int, until_ns: int) -> int:
        self.spans.append((since_ns, until_ns))
        return 7_000

    def collect(self) -> None:
        self.collected += 1


def keeper(sent: list[ChainRecords], *, waiting: int = 0, most: int = chain.MOST_HELD) -> ChainKeeper:
    groups = ([0, 1], [0, 2], [], list(range(64)))
    hosts = [rank % 2 for rank in range(64)]
    return ChainKeeper(hosts, groups, send=sent.append, waiting=lambda: waiting, most=most)


def take(keep: ChainKeeper, end: End, *, iteration: int = 0, instance: int = 0) -> None:
    one = RankChain(5, 0, 0)
    one.begin(0, [1])
    one.sends(1, 0).at_ns = 10
    one.received(1, 0, 20, 1)
    keep.take(one, end, iteration=iteration, instance=instance, rank=0, node_id=3)


def test_a_step_waits_for_the_last_of_what_came_before_it_by_the_stamp() -> None:
    one = RankChain(0, 0, 0)
    one.begin(0, [1, 2])
    one.sends(1, 0)
    one.received(2, 0, 900, 1)  # read first, came last
    one.received(1, 0, 300, 1)
    one.received(1, 0, 950, 1)  # for the step after the next one
    one.begin(0, [1])
    one.sends(2, 0)
    assert one.cause == [0, 1]


def test_only_groups_on_several_hosts_have_chains_and_large_ones_now_and_then() -> None:
    keep = keeper([])
    assert all(keep.wants(0, serial) for serial in range(5))
    assert not any(keep.wants(1, serial) or keep.wants(2, serial) for serial in range(5))
    assert sum(keep.wants(3, serial) for serial in range(1500)) == 1500 // (2 * 64 * 63 // 512)
    assert keep.wants_pair(0, 1)
    assert not keep.wants_pair(0, 2)
    assert not keep.wants_pair(0, 64)  # a storage endpoint


def test_chains_leave_in_one_message_for_each_iteration_and_warm_up_does_not() -> None:
    sent: list[ChainRecords] = []
    keep, end = keeper(sent), End()
    for iteration in (-1, 0, 0, 1):
        take(keep, end, iteration=iteration)
    keep.flush()
    assert [(one.iteration, len(one.blocks)) for one in sent] == [(0, 2), (1, 1)]
    assert end.collected == 1
    block = sent[0].blocks[0]
    assert (list(block.sent_ns), list(block.received_ns), block.post_ns) == ([10], [20], 5)


def test_what_the_port_takes_for_what_came_until_the_last_transfer_counts_unless_its_own_sends_were_late() -> None:
    sent: list[ChainRecords] = []
    keep, end = keeper(sent), End()
    take(keep, end)
    end.lead_bytes = -1
    take(keep, end)
    keep.flush()
    assert [one.port_ns for one in sent[0].blocks] == [7_000, BEHIND]
    assert end.spans == [(5, 20)]


def test_a_busy_control_stream_is_spared_and_memory_bounded() -> None:
    sent: list[ChainRecords] = []
    keep, end = keeper(sent, waiting=chain.MOST_WAITING, most=10), End()
    for instance in range(20):
        take(keep, end, instance=instance)
    keep.flush()
    assert not sent
    keep.flush(is_over=True)
    assert [len(one.blocks) for one in sent] == [5]


def test_no_stamp_is_trusted_if_the_clock_was_set() -> None:
    sent: list[ChainRecords] = []
    keep, end = keeper(sent), End()
    take(keep, end)
    end.clock_steps += 1
    keep.flush()
    assert list(sent[0].blocks[0].sent_ns) == list(sent[0].blocks[0].received_ns) == [0]


def test_a_ring_of_four_is_in_the_network_for_its_six_steps() -> None:
    """Ranks on two hosts in turn, so that every transfer crosses; a step lasts 1 ms, the tester takes 0.2 between."""
    ranks, step_ns, gap_ns = 4, 1_000_000, 200_000
    chains = [RankChain(0, 0, 0) for _ in range(ranks)]
    pending: list[tuple[int, int, FirstSent]] = []
    steps = [list(next(iter(schedule("ring", _view(ranks, rank))))) for rank in range(ranks)]
    now = gap_ns
    for number in range(len(steps[0])):
        for rank, one in enumerate(chains):
            step = steps[rank][number]
            one.begin(0, [peer for peer, _, _ in step.recvs])
            for peer, _, _ in step.sends:
                sent = one.sends(peer, 0)
                sent.at_ns = now
                pending.append((rank, peer, sent))
        for rank, peer, _ in pending:
            chains[peer].received(rank, 0, now + step_ns, 1)
        pending.clear()
        now += step_ns + gap_ns
    found: list[ChainRecords] = []
    keep = ChainKeeper([0, 1, 0, 1], [range(ranks)], send=found.append, waiting=lambda: 0)
    for rank, one in enumerate(chains):
        keep.take(one, End(), iteration=0, instance=0, rank=rank, node_id=1)
    keep.flush()
    assert split(found[0].blocks, [0, 1, 0, 1]) == Split(6 * step_ns, 6)


def _view(ranks: int, rank: int) -> Collective:
    return Collective(CommKind.ALL_REDUCE, ranks, rank, 4096)
