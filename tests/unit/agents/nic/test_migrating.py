"""Two ends of queue pairs with two paths each, over a network without sockets, in virtual time."""

import errno
from collections import deque
from collections.abc import Iterator, Sequence

import pytest

from agents.nic.migrating import RankPaths
from emulator.roce.connection.messages import Delivered, Message, Verb
from emulator.roce.connection.migration import ALTERNATE, PEER_RETURNS_NS, PRIMARY, PROBE_INTERVAL_NS, PROBES_TO_RETURN
from emulator.roce.options import RoceOptions
from tests.support.virtual_clock import VirtualClock
from tests.support.wired_paths import HOSTS, WiredEnd, WiredSender

OPTIONS = RoceOptions.parse({"path_mtu": 1024, "retry_count": 2})
QPS = 2


class Net:
    """Carries packets from path to path; those on a lost path go nowhere."""

    def __init__(self) -> None:
        self.clock, self.lost, self.unreachable = VirtualClock(1), set[str](), set[str]()
        self.packets: deque[tuple[str, int, str, bytes]] = deque()
        self.ends: dict[str, End] = {}

    def put(self, source: str, port: int, to: str, packet: bytes) -> None:
        if source in self.unreachable:
            raise OSError(errno.ENETUNREACH, "Network is unreachable")
        self.packets.append((source, port, to, packet))

    def carry(self) -> None:
        """Until nothing is under way, and nobody owes anything."""
        while self.packets or any(end.agenda.owing for end in self.ends.values()):
            while self.packets:
                source, port, to, packet = self.packets.popleft()
                if to not in self.lost:
                    self.ends[to].receive(to, source, port, packet)
            for end in self.ends.values():
                end.agenda.reply()

    def run(self, duration_ns: int) -> None:
        """Let time pass, in steps that are short against a timeout."""
        until = self.clock.now() + duration_ns
        while self.clock.now() < until:
            self.clock.run(self.clock.now() + 1_000_000)
            for end in self.ends.values():
                end.time_out()
            self.carry()


class End(WiredEnd):
    """A rank with two queue pairs to its peer."""

    def __init__(self, net: Net, rank: int) -> None:
        super().__init__(net, rank, OPTIONS)
        self.delivered_: list[Delivered] = []
        self.completed_: list[Message] = []
        self.channels = [self.make(self, index, QPS) for index in range(QPS)]

    def post(self, *sizes: int, index: int = 0) -> None:
        channel = self.channels[index][PRIMARY]  # as a link does, whatever the path
        for size in sizes:
            channel.post(Message(Verb.WRITE_IMM, size, imm=1, rkey=7))
        channel.send(self.net.clock.now())
        self.net.carry()

    @property
    def moves(self) -> list[int]:
        return [one.path for one in self.paths.state.moves]

    @property
    def timeouts(self) -> int:
        return sum(pair.pair.requester.timeouts for pair, _ in self.channels)

    def delivered(self, index: int, delivered: Delivered, now: int) -> None:
        self.delivered_.append(delivered)

    def completed(self, index: int, messages: Sequence[Message], now: int) -> None:
        self.completed_ += messages

    def broke(self, reason: str) -> None:
        self.reasons.append(reason)


@pytest.fixture
def net() -> Iterator[Net]:
    WiredSender.net = made = Net()
    yield made
    for end in set(made.ends.values()):
        end.senders.close()


@pytest.fixture
def ends(net: Net) -> tuple[End, End]:
    return End(net, 0), End(net, 1)


def lose(net: Net, path: int) -> None:
    net.lost |= {HOSTS[0][path], HOSTS[1][path]}


def lose_and_mend_primary(net: Net, a: End) -> None:
    """An end has moved to its alternate path, and the primary one works again."""
    lose(net, PRIMARY)
    a.post(100)
    net.run(EXHAUSTED_NS)
    net.lost.clear()


def repeated(end: End) -> int:
    """Packets that came although they had arrived."""
    return sum(one.pair.responder.copies + one.pair.responder.duplicates for one, _ in end.channels)


EXHAUSTED_NS = 8 * 4096 << OPTIONS.qp_timeout


def test_the_peer_follows_at_once_and_both_return_after_the_probes(net: Net, ends: tuple[End, End]) -> None:
    a, b = ends
    a.post(100)
    lose(net, PRIMARY)
    a.post(100, 5000)
    net.run(EXHAUSTED_NS)
    assert [one.size for one in b.delivered_] == [100, 100, 5000]
    assert [one.size for one in a.completed_] == [100, 100, 5000]
    assert (a.moves, b.moves, b.timeouts) == ([ALTERNATE], [ALTERNATE], 0)
    b.post(300)
    b.post(400, index=1)
    assert [one.size for one in a.delivered_] == [300, 400]  # without a timeout, and the other queue pair as well
    net.run(10 * PROBE_INTERVAL_NS)
    assert (a.moves, b.moves) == ([ALTERNATE], [ALTERNATE])
    net.lost.clear()
    works_ns = net.clock.now()
    net.run((PROBES_TO_RETURN + 1) * PROBE_INTERVAL_NS)
    assert (a.moves, b.moves) == ([ALTERNATE, PRIMARY], [ALTERNATE, PRIMARY])
    for end in ends:
        assert works_ns + (PROBES_TO_RETURN - 1) * PROBE_INTERVAL_NS <= end.paths.state.moves[-1].at_ns
    lose(net, ALTERNATE)
    a.post(600)
    b.post(700)
    assert (b.delivered_[-1].size, a.delivered_[-1].size) == (600, 700)
    assert [repeated(end) for end in ends] == [0, 0]


def test_a_path_that_comes_and_goes_is_not_returned_to(net: Net, ends: tuple[End, End]) -> None:
    a, _ = ends
    lose(net, PRIMARY)
    a.post(100)
    net.run(EXHAUSTED_NS)
    for _ in range(6):  # works for two probes of three
        net.lost.clear()
        net.run((PROBES_TO_RETURN - 1) * PROBE_INTERVAL_NS)
        lose(net, PRIMARY)
        net.run(PROBE_INTERVAL_NS)
    assert a.moves == [ALTERNATE]


def test_an_end_that_has_returned_does_not_follow_a_peer_that_has_not(net: Net, ends: tuple[End, End]) -> None:
    a, b = ends
    lose_and_mend_primary(net, a)
    while a.moves != [ALTERNATE, PRIMARY]:
        net.run(1_000_000)
        b.paths.state._answered = 0  # its probes are lost
    b.post(200)
    assert (a.delivered_[-1].size, a.moves, b.moves) == (200, [ALTERNATE, PRIMARY], [ALTERNATE])
    b.paths.state._answered = PROBES_TO_RETURN - 1
    net.run(PEER_RETURNS_NS)
    assert (a.moves, b.moves) == ([ALTERNATE, PRIMARY], [ALTERNATE, PRIMARY])


def test_packets_that_cannot_be_sent_move_at_once(net: Net, ends: tuple[End, End]) -> None:
    a, b = ends
    lose(net, PRIMARY)
    net.unreachable = {HOSTS[0][PRIMARY]}
    a.post(100, 200)
    assert [one.size for one in b.delivered_] == [100, 200]
    assert (a.moves, a.reasons, a.timeouts) == ([ALTERNATE], [], 0)
    net.run(2 * PROBE_INTERVAL_NS)  # probes cannot be sent either
    assert (a.moves, a.reasons) == ([ALTERNATE], [])


@pytest.mark.parametrize("is_unreachable", [False, True])
def test_a_second_loss_before_the_return_is_outlived_if_the_first_path_answers(
    net: Net, ends: tuple[End, End], is_unreachable: bool
) -> None:
    a, b = ends
    lose_and_mend_primary(net, a)
    while not a.paths.state._is_heard:
        net.run(1_000_000)
    lose(net, ALTERNATE)
    net.unreachable = {HOSTS[0][ALTERNATE]} if is_unreachable else set()
    a.paths.state.probe_ns += EXHAUSTED_NS  # nothing is asked before retries are exhausted
    a.post(200, 5000)
    net.run(EXHAUSTED_NS)
    assert [one.size for one in b.delivered_] == [100, 200, 5000]
    assert (a.moves, a.reasons) == ([ALTERNATE, PRIMARY], [])


def test_what_the_second_path_lost_before_the_return_is_sent_again_at_once(net: Net, ends: tuple[End, End]) -> None:
    a, b = ends
    lose_and_mend_primary(net, a)
    while a.paths.state._answered < PROBES_TO_RETURN - 1 or not a.paths.state._is_heard:
        net.run(1_000_000)
    lose(net, ALTERNATE)
    a.post(200)
    now = net.clock.now()
    a.time_out()
    requester = a.channels[0][PRIMARY].pair.requester
    while not requester.is_unanswered:
        a.channels[0][ALTERNATE].handle_timer(requester.deadline_ns)
    net.packets.clear()
    a.paths._return(now, is_alternate_lost=False)
    net.carry()
    assert [one.size for one in b.delivered_] == [100, 200]


@pytest.mark.parametrize("is_unreachable", [False, True])
def test_a_peer_without_a_path_has_failed(net: Net, ends: tuple[End, End], is_unreachable: bool) -> None:
    a, _ = ends
    lose(net, PRIMARY)
    lose(net, ALTERNATE)
    net.unreachable = set(HOSTS[0]) if is_unreachable else set()
    a.post(100)
    net.run(2 * EXHAUSTED_NS)
    reason = "cannot send to 198.51.100.2" if is_unreachable else "no answer after 2 retries"
    assert a.reasons
    assert reason in a.reasons[0] or "is no longer an address of this host" in a.reasons[0]
    assert a.moves == [ALTERNATE]


def test_an_answer_that_cannot_be_sent_on_the_lost_path_fails_nothing(net: Net, ends: tuple[End, End]) -> None:
    a, b = ends
    lose_and_mend_primary(net, a)
    net.unreachable = {HOSTS[1][PRIMARY]}
    net.run(2 * PROBE_INTERVAL_NS)
    assert b.reasons == []
    a.post(200)
    assert [one.size for one in b.delivered_] == [100, 200]


@pytest.mark.parametrize("is_probe_first", [False, True])
def test_a_probe_is_answered_on_its_path_and_what_is_owed_on_the_other_there(
    net: Net, ends: tuple[End, End], is_probe_first: bool
) -> None:
    a, b = ends
    lose_and_mend_primary(net, a)
    primary, alternate = a.channels[0]
    alternate.post(Message(Verb.WRITE_IMM, 100, imm=1, rkey=7))
    alternate.send(net.clock.now())
    primary.probe()
    sent = list(net.packets)
    if is_probe_first:
        sent.reverse()
    net.packets.clear()
    for source, port, to, packet in sent:
        b.receive(to, source, port, packet)
    b.agenda.reply()
    assert sorted(source for source, *_ in net.packets) == sorted(HOSTS[1])


def test_only_the_queue_pair_that_asks_is_heard(net: Net, ends: tuple[End, End]) -> None:
    a, _ = ends
    lose(net, PRIMARY)
    a.post(100)
    net.run(EXHAUSTED_NS)
    a.paths.heard(a.channels[1][PRIMARY])
    assert not a.paths.state._is_heard
    a.paths.heard(a.channels[0][PRIMARY])
    assert a.paths.state._is_heard


def test_a_closed_queue_pair_asks_for_nothing(net: Net, ends: tuple[End, End]) -> None:
    a, _ = ends
    lose(net, PRIMARY)
    a.post(100)
    net.run(EXHAUSTED_NS)
    a.channels[0][PRIMARY].close()
    net.clock.run(net.clock.now() + 2 * PROBE_INTERVAL_NS)
    assert not [one for one in net.packets if one[0] == HOSTS[0][PRIMARY]]


def test_what_was_to_leave_on_the_lost_path_leaves_once(net: Net, ends: tuple[End, End]) -> None:
    a, b = ends
    a.post(100)
    ready: list[object] = []
    channel = a.channels[0][PRIMARY]
    assert channel.post_single(Message(Verb.WRITE_IMM, 200, imm=1, rkey=7), ready, net.clock.now())  # type: ignore[arg-type]
    assert channel.paths.exhausted(channel, net.clock.now())
    assert channel not in a.agenda.active
    channel.send_ready()
    net.carry()
    assert not channel.post_single(Message(Verb.WRITE_IMM, 300, imm=1, rkey=7), ready, net.clock.now())  # type: ignore[arg-type]
    channel.send(net.clock.now())
    net.carry()
    assert [one.size for one in b.delivered_] == [100, 200, 300]
    assert repeated(b) == 0


def test_closing_a_path_closes_the_other(net: Net, ends: tuple[End, End]) -> None:
    primary, alternate = ends[0].channels[0]
    primary.close()
    assert alternate.is_dead


def test_a_queue_pair_that_is_made_after_the_loss_starts_on_the_alternate_path(net: Net, ends: tuple[End, End]) -> None:
    a, _ = ends
    lose(net, PRIMARY)
    a.post(100)
    net.run(EXHAUSTED_NS)
    primary, alternate = a.channels[1]
    late = RankPaths(net.clock, lambda: None)
    late.state = a.paths.state
    late.join(primary, alternate)
    assert (primary.is_parked, alternate.is_parked) == (True, False)
