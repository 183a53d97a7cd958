"""Ranks with two paths that lose, delay and overtake packets at any time: every transfer arrives once, in order."""

import heapq
import types
from dataclasses import dataclass, field
from random import Random
from typing import TypeAlias

import pytest

from agents.nic.channel import Channel
from agents.transports.roce import link
from agents.transports.roce.link import RankLink
from emulator.roce.connection.migration import ALTERNATE, PRIMARY
from emulator.roce.options import RoceOptions
from tests.support.full import variant
from tests.support.virtual_clock import VirtualClock
from tests.support.wired_paths import HOSTS, WiredEnd, WiredSender

PATHS = [(HOSTS[end][path], HOSTS[1 - end][path]) for end in range(2) for path in range(2)]
Transfer: TypeAlias = tuple[int, int]  # tag, bytes
MS = 1_000_000
LATENCY_NS = 200_000
STEP_NS = 250_000


@dataclass
class Impairments:
    """When a direction of a path is lost, from … to, and what is lost or late otherwise."""

    lost: list[tuple[int, int]] = field(default_factory=list)
    loss: float = 0.0
    late: float = 0.0
    twice: float = 0.0

    def is_lost(self, now: int) -> bool:
        return any(first <= now < end for first, end in self.lost)


class Net:
    """Carries packets from address to address."""

    def __init__(self, random: Random) -> None:
        self.clock, self.random = VirtualClock(1), random
        self.ways = {host: Impairments() for hosts in HOSTS for host in hosts}  # by where it goes
        self.ends: dict[str, End] = {}
        self._order, self._heap = 0, list[tuple[int, int, str, int, str, bytes]]()

    def put(self, source: str, port: int, to: str, packet: bytes) -> None:
        assert (source, to) in PATHS, "from an address of one path to one of the other"
        now, way = self.clock.now(), self.ways[to]
        if way.is_lost(now) or self.random.random() < way.loss:
            return
        for _ in range(2 if self.random.random() < way.twice else 1):
            late = self.random.randrange(20 * LATENCY_NS) if self.random.random() < way.late else 0
            self._order += 1
            heapq.heappush(self._heap, (now + LATENCY_NS + late, self._order, source, port, to, packet))

    def step(self) -> None:
        until = self.clock.now() + STEP_NS
        self.clock.run(until)
        while self._heap and self._heap[0][0] <= until:
            _, _, source, port, to, packet = heapq.heappop(self._heap)
            self.ends[to].receive(to, source, port, packet)
        for end in set(self.ends.values()):
            end.agenda.reply()
            while end.agenda.unfinished:
                end.agenda.unfinished.popleft().send_more(self.clock.now(), 1)
            end.time_out()


class End(WiredEnd):
    """A rank and its link to the other one."""

    def __init__(self, net: Net, rank: int, options: RoceOptions) -> None:
        super().__init__(net, rank, options)
        self.qps = options.qps
        self.arrived_: list[tuple[int, int]] = []
        self.acknowledged_: list[int] = []
        self.link = RankLink(
            rank,
            1 - rank,
            rkey=7,
            qps=options.qps,
            settings=self.settings,
            message_bytes=5000,
            make_channel=lambda owner, index: self.make(owner, index, self.qps, is_control=not index)[0],
            events=self,
            fail=self.reasons.append,
        )

    def arrived(self, peer: int, tag: int, size: int, now: int, count: int = 1) -> None:
        self.arrived_ += [(tag, size)] * count

    def acknowledged(self, peer: int, tag: int, now: int) -> None:
        self.acknowledged_.append(tag)

    def post(self, tag: int, size: int) -> None:
        if self.link.is_broken:
            return
        ready: list[Channel] = []
        if self.link.post(tag, size, ready):
            self.link.send_control(self.net.clock.now())
            self.link.send(self.net.clock.now())
        for one in ready:
            one.send_ready()

    def receive(self, to: str, source: str, port: int, packet: bytes) -> None:
        qpn = int.from_bytes(packet[4:8]) & 0xFFFFFF
        if (to, qpn) not in self.by_address:
            self.link.channel((qpn - 16) % (self.qps + 1))
        super().receive(to, source, port, packet)


def bad_weather(net: Net, length_ns: int, *, are_both_lost: bool) -> None:
    """Losses of both directions, or one, of the first path, or of either; each path is also lossy in some runs."""
    random, at = net.random, 0
    paths = (PRIMARY, ALTERNATE) if are_both_lost else (PRIMARY,)
    for way in (net.ways[hosts[path]] for hosts in HOSTS for path in paths):
        if random.random() < 0.4:
            way.loss, way.late, way.twice = random.choice((0, 0.01, 0.05)), random.choice((0, 0.1, 0.3)), 0.02
    while at < length_ns:
        at += random.randrange(1, 600) * MS
        end = at + random.choice((5, 50, 500, 1500)) * MS
        for rank in random.choice(((0, 1), (0, 1), (0,), (1,))):
            net.ways[HOSTS[rank][random.choice(paths)]].lost.append((at, end))
        if not are_both_lost:
            at = end


def play(monkeypatch: pytest.MonkeyPatch, seed: int, *, are_both_lost: bool) -> tuple[list[End], list[list[Transfer]]]:
    """Transfers both ways while paths are lost, and until all are done or the connection has failed."""
    random = Random(seed)
    options = RoceOptions.parse(
        {
            "path_mtu": 1024,
            "retry_count": random.choice((2, 7)),
            "qp_timeout": random.choice((11, 13)),
            "qps": random.choice((1, 4)),
            "receiver": random.choice(("gbn", "ooo")),
            "survive": True,
        }
    )
    net = WiredSender.net = Net(random)
    monkeypatch.setattr(link, "time", types.SimpleNamespace(monotonic_ns=net.clock.now))
    ends = [End(net, rank, options) for rank in range(2)]
    length_ns, busy, tag = random.choice((400, 1600)) * MS, random.choice((0.5, 0.1, 0.02)), 0
    bad_weather(net, length_ns, are_both_lost=are_both_lost)
    posted: list[list[Transfer]] = [[], []]
    until = length_ns + 30_000 * MS
    try:
        while net.clock.now() < until and not any(end.reasons for end in ends):
            is_over = net.clock.now() >= length_ns
            if is_over and all(len(end.acknowledged_) == len(posted[end.rank]) for end in ends):
                break
            for end in ends:
                is_free = len(posted[end.rank]) - len(end.acknowledged_) < 6
                if not is_over and is_free and random.random() < busy:
                    tag += 1
                    posted[end.rank].append((tag, random.choice((0, 0, 1, 100, 1024, 1025, 3000, 12_000))))
                    end.post(*posted[end.rank][-1])
            net.step()
    finally:
        for end in ends:
            end.senders.close()
    return ends, posted


SEEDS = [pytest.param(seed, marks=[variant] if seed > 4 else []) for seed in range(40)]


@pytest.mark.parametrize("are_both_lost", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_every_transfer_arrives_once_and_in_order_or_the_connection_fails(
    monkeypatch: pytest.MonkeyPatch, seed: int, are_both_lost: bool
) -> None:
    ends, posted = play(monkeypatch, seed, are_both_lost=are_both_lost)
    has_failed = any(end.reasons for end in ends)
    assert are_both_lost or not has_failed
    for end in ends:
        sent, acknowledged = posted[1 - end.rank], ends[1 - end.rank].acknowledged_
        for is_payload in (False, True):
            found = [one for one in end.arrived_ if bool(one[1]) is is_payload]
            wanted = [one for one in sent if bool(one[1]) is is_payload]
            assert found == (wanted[: len(found)] if has_failed else wanted)
        assert len(set(acknowledged)) == len(acknowledged)
        assert set(acknowledged) <= {tag for tag, _ in end.arrived_}
        assert has_failed or len(acknowledged) == len(sent)
        assert all(reason.endswith("on both paths") for reason in end.reasons)
