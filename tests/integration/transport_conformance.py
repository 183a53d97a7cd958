"""What every transport must do, as cases that run on any: `for case in CASES: run(case(bed))`.

A bed opens endpoints and lets time pass. Each rank is a `Listener`, which posts and keeps what it hears; all listeners
of a bed share one log, so that the order of events at different ranks can be compared.
"""

import abc
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import pytest

from agents.transports.base import Endpoint
from emulator.control.conversation import Address
from emulator.errors import LocalProtocolError


class Heard(NamedTuple):
    kind: Literal["arrived", "acknowledged", "failed"]
    rank: int
    peer: int
    tag: int
    size: int = 0


@dataclass
class Listener:
    """A rank that posts transfers and records events."""

    endpoint: Endpoint
    log: list[Heard]
    reasons: list[str] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    is_posting: bool = False
    heard_while_posting: bool = False

    def connect(self, directory: dict[int, Address]) -> None:
        self.endpoint.connect(directory, self)

    def send(self, peer: int, transfers: Sequence[tuple[int, int]]) -> None:
        self.is_posting = True
        for tag, size in transfers:
            self.endpoint.post(peer, tag, size)
        self.endpoint.flush()
        self.is_posting = False

    def arrived(self, peer: int, tag: int, size: int, now: int, count: int = 1) -> None:
        for _ in range(count):
            self._note(Heard("arrived", self.endpoint.rank, peer, tag, size), now)

    def acknowledged(self, peer: int, tag: int, now: int) -> None:
        self._note(Heard("acknowledged", self.endpoint.rank, peer, tag), now)

    def failed(self, peer: int, reason: str) -> None:
        self.reasons.append(reason)
        self._note(Heard("failed", self.endpoint.rank, peer, -1), self.times[-1] if self.times else 0)

    def _note(self, heard: Heard, now: int) -> None:
        self.heard_while_posting |= self.is_posting
        self.times.append(now)
        self.log.append(heard)

    def arrivals(self, peer: int) -> list[tuple[int, int]]:
        return [(h.tag, h.size) for h in self.log if h[:3] == ("arrived", self.endpoint.rank, peer)]

    def acknowledgements(self, peer: int) -> list[int]:
        return [h.tag for h in self.log if h[:3] == ("acknowledged", self.endpoint.rank, peer)]

    def failures(self, peer: int) -> int:
        return sum(h[:3] == ("failed", self.endpoint.rank, peer) for h in self.log)


class Bed(abc.ABC):
    """A transport under test."""

    message_bytes: int

    def __init__(self) -> None:
        self.log: list[Heard] = []

    @abc.abstractmethod
    async def open(self, rank: int) -> Endpoint:
        """Make the endpoint of a rank."""

    @abc.abstractmethod
    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait until `reached()`; fail the test if that takes too long."""

    @abc.abstractmethod
    async def quiesce(self) -> None:
        """Wait until nothing more is likely to happen."""

    async def listeners(self, count: int) -> list[Listener]:
        return [Listener(await self.open(rank), self.log) for rank in range(count)]

    async def connected(self, count: int) -> list[Listener]:
        listeners = await self.listeners(count)
        for listener in listeners:
            listener.connect(directory(listeners))
        return listeners


def directory(listeners: Sequence[Listener]) -> dict[int, Address]:
    return {listener.endpoint.rank: listener.endpoint.address for listener in listeners}


Case = Callable[[Bed], Coroutine[None, None, None]]


async def delivers_any_size_once_and_acknowledges_it(bed: Bed) -> None:
    a, b = await bed.connected(2)
    m = bed.message_bytes
    for tag, size in enumerate((0, 1, m - 1, m, m + 1, 2 * m, 37 * m + 5)):
        a.send(1, [(tag, size)])
        await bed.until(lambda tag=tag: tag in a.acknowledgements(1))
        assert b.arrivals(0)[-1] == (tag, size)
    await bed.quiesce()
    assert [tag for tag, _ in b.arrivals(0)] == a.acknowledgements(1) == list(range(7))
    assert (a.arrivals(1), b.acknowledgements(0)) == ([], [])


async def delivers_what_is_alike_as_often_as_it_was_posted(bed: Bed) -> None:
    a, b = await bed.connected(2)
    transfers = (
        [(1, 64)] * 100 + [(1, 65)] * 3 + [(2, 65)] + [(3, 0)] * 5 + [(2, 1)] * 40 + [(4, 3 * bed.message_bytes)]
    )
    transfers += [(4, 1)] * 200
    a.send(1, transfers)
    b.send(0, transfers)
    await bed.until(lambda: len(a.acknowledgements(1)) + len(b.acknowledgements(0)) == 2 * len(transfers))
    payload = [transfer for transfer in transfers if transfer[1]]
    for heard in (a.arrivals(1), b.arrivals(0)):
        assert [transfer for transfer in heard if transfer[1]] == payload
        assert heard.count((3, 0)) == 5


async def keeps_the_order_of_many_posts(bed: Bed) -> None:
    a, b = await bed.connected(2)
    transfers = [(tag, 1 + (tag * 7919) % (3 * bed.message_bytes)) for tag in range(300)]
    for start in range(0, 300, 50):
        a.send(1, transfers[start : start + 50])
    await bed.until(lambda: len(a.acknowledgements(1)) == 300)
    assert b.arrivals(0) == transfers
    assert a.acknowledgements(1) == list(range(300))


async def carries_tags_of_64_bits_that_repeat(bed: Bed) -> None:
    a, b = await bed.connected(2)
    tags = [2**64 - 1, 0, 7, 7, 2**63, 7]
    a.send(1, [(tag, 10) for tag in tags])
    await bed.until(lambda: len(a.acknowledgements(1)) == 6)
    assert b.arrivals(0) == [(tag, 10) for tag in tags]
    assert a.acknowledgements(1) == tags


async def carries_both_directions_at_once(bed: Bed) -> None:
    a, b = await bed.connected(2)
    there = [(tag, bed.message_bytes * 3 + tag) for tag in range(40)]
    back = [(tag, 11 * tag + 1) for tag in range(100, 140)]
    a.send(1, there)
    b.send(0, back)
    await bed.until(lambda: len(a.acknowledgements(1)) + len(b.acknowledgements(0)) == 80)
    assert (b.arrivals(0), a.arrivals(1)) == (there, back)


async def carries_to_many_peers(bed: Bed) -> None:
    listeners = await bed.connected(16)
    for listener in listeners:
        for peer in range(16):
            rank = listener.endpoint.rank
            listener.send(peer, [(rank * 100 + peer, 1000 + rank), (7, 0), (rank * 100 + peer, 3 * bed.message_bytes)])
    await bed.until(lambda: sum(h.kind == "acknowledged" for h in bed.log) == 16 * 16 * 3)
    for listener in listeners:
        for peer in range(16):
            tag = peer * 100 + listener.endpoint.rank
            payload = [transfer for transfer in listener.arrivals(peer) if transfer[1]]
            assert payload == [(tag, 1000 + peer), (tag, 3 * bed.message_bytes)]
            assert len(listener.arrivals(peer)) == 3


async def carries_to_oneself(bed: Bed) -> None:
    a, _ = await bed.connected(2)
    a.send(0, [(1, 5), (2, bed.message_bytes + 1)])
    await bed.until(lambda: len(a.acknowledgements(0)) == 2)
    assert a.arrivals(0) == [(1, 5), (2, bed.message_bytes + 1)]


async def acknowledges_only_what_the_peer_has(bed: Bed) -> None:
    a, _ = await bed.connected(2)
    a.send(1, [(tag, (tag % 5) * bed.message_bytes) for tag in range(50)])
    await bed.until(lambda: len(a.acknowledgements(1)) == 50)
    for tag in range(50):
        arrived = next(i for i, h in enumerate(bed.log) if h.kind == "arrived" and h.tag == tag)
        acknowledged = next(i for i, h in enumerate(bed.log) if h.kind == "acknowledged" and h.tag == tag)
        assert arrived < acknowledged


async def lets_control_overtake_payload_but_not_control(bed: Bed) -> None:
    a, b = await bed.connected(2)
    a.send(1, [(1, 400 * bed.message_bytes)])
    a.send(1, [(tag, 0) for tag in range(100, 150)])
    await bed.until(lambda: len(a.acknowledgements(1)) == 51)
    assert b.arrivals(0) == [(tag, 0) for tag in range(100, 150)] + [(1, 400 * bed.message_bytes)]
    assert a.acknowledgements(1) == [*range(100, 150), 1]


async def keeps_what_comes_before_the_peer_is_connected(bed: Bed) -> None:
    a, b, c = await bed.listeners(3)
    everyone = directory([a, b, c])
    a.connect(everyone)
    c.connect(everyone)
    transfers = [(1, 5), (2, 30 * bed.message_bytes), (3, 1)]
    a.send(1, transfers)
    a.send(1, [(4, 0), (5, 0)])
    a.send(2, [(6, 9)])  # a peer that is late holds up nobody else
    await bed.until(lambda: a.acknowledgements(2) == [6])
    await bed.quiesce()
    assert b.arrivals(0) == []
    b.connect(everyone)
    assert b.arrivals(0) == []  # not from inside connect
    a.send(1, [(7, 2)])
    await bed.until(lambda: len(a.acknowledgements(1)) == 6)
    assert [t for t in b.arrivals(0) if t[1]] == [*transfers, (7, 2)]
    assert [t for t in b.arrivals(0) if not t[1]] == [(4, 0), (5, 0)]


async def hears_nobody_outside_the_directory(bed: Bed) -> None:
    a, b, c = await bed.listeners(3)
    b.connect(directory([a, b]))
    c.connect(directory([a, b, c]))
    c.send(1, [(66, 10), (67, 0)])
    c.send(0, [(68, 10), (69, 0)])  # before rank 0 can know
    await bed.quiesce()
    a.connect(directory([a, b]))
    a.send(1, [(1, 10)])
    await bed.until(lambda: a.acknowledgements(1) == [1])
    await bed.quiesce()
    assert (b.arrivals(2), a.arrivals(2)) == ([], [])


async def sends_to_nobody_outside_the_directory(bed: Bed) -> None:
    a, b, c = await bed.listeners(3)
    with pytest.raises(LocalProtocolError, match="rank 1"):
        a.endpoint.post(1, 7, 10)
    a.connect(directory([a, b]))
    for other in (b, c):
        other.connect(directory([a, b, c]))
    for size in (0, 10):
        with pytest.raises(LocalProtocolError, match="rank 2"):
            a.endpoint.post(2, 7, size)
    a.send(1, [(8, 10)])
    await bed.until(lambda: a.acknowledgements(1) == [8])
    await bed.quiesce()
    assert c.arrivals(0) == []
    assert set(sent_from(a)) == {1}


async def takes_a_directory_once(bed: Bed) -> None:
    a, b = await bed.connected(2)
    with pytest.raises(LocalProtocolError, match="connected already"):
        a.connect(directory([a, b]))


async def sends_all_that_was_posted_when_flushed(bed: Bed) -> None:
    a, b, c = await bed.connected(3)
    for tag in range(20):
        a.endpoint.post(1 + tag % 2, tag, tag % 3)
    a.endpoint.flush()
    a.endpoint.flush()
    await bed.until(lambda: len(a.acknowledgements(1)) + len(a.acknowledgements(2)) == 20)
    assert sorted(b.arrivals(0) + c.arrivals(0)) == [(tag, tag % 3) for tag in range(20)]


async def reports_from_the_loop_only(bed: Bed) -> None:
    a, b = await bed.connected(2)
    for tag in range(60):
        a.send(1, [(tag, 100 * (tag % 3))])
        b.send(0, [(tag, bed.message_bytes)])
        await bed.until(lambda tag=tag: len(b.acknowledgements(0)) >= tag - 2)
    await bed.until(lambda: len(a.acknowledgements(1)) + len(b.acknowledgements(0)) == 120)
    assert (a.heard_while_posting, b.heard_while_posting) == (False, False)
    assert a.times == sorted(a.times)


async def lets_events_post(bed: Bed) -> None:
    """A token that each rank passes on from inside `arrived`."""
    listeners = await bed.listeners(3)

    class Player(Listener):
        def arrived(self, peer: int, tag: int, size: int, now: int, count: int = 1) -> None:
            super().arrived(peer, tag, size, now, count)
            if tag < 90:
                self.endpoint.post((self.endpoint.rank + 1) % 3, tag + 1, size + 1)
                self.endpoint.flush()

    players = [Player(listener.endpoint, bed.log) for listener in listeners]
    for player in players:
        player.connect(directory(players))
    players[0].send(1, [(0, 100)])
    await bed.until(lambda: sum(h.kind == "acknowledged" for h in bed.log) == 91)
    arrivals = [h for h in bed.log if h.kind == "arrived"]
    assert [(h.rank, h.tag, h.size) for h in arrivals] == [((tag + 1) % 3, tag, 100 + tag) for tag in range(91)]


async def counts_payload_and_messages_per_flow(bed: Bed) -> None:
    a, b, c = await bed.connected(3)
    m = bed.message_bytes
    a.send(1, [(1, 0), (2, 1), (3, m), (4, m + 1)])
    a.send(2, [(5, 10 * m)])
    await bed.until(lambda: len(a.acknowledgements(1)) + len(a.acknowledgements(2)) == 5)
    before = a.endpoint.counters()
    assert sent_from(a) == {1: (2 * m + 2, 5), 2: (10 * m, 10)}
    assert a.endpoint.acknowledged_bytes == 12 * m + 2
    assert (sent_from(b), sent_from(c)) == ({}, {})
    copies = [replace(flow) for flow in before]
    a.send(1, [(6, 5)])
    await bed.until(lambda: len(a.acknowledgements(1)) == 5)
    assert before == copies  # a snapshot stays what it was


def sent_from(listener: Listener) -> dict[int, tuple[int, int]]:
    """Peer → (bytes, messages) over all flows to it."""
    sent: dict[int, tuple[int, int]] = {}
    for flow in listener.endpoint.counters():
        if flow.messages:
            assert flow.src == listener.endpoint.rank
            size, messages = sent.get(flow.dst, (0, 0))
            sent[flow.dst] = (size + flow.bytes, messages + flow.messages)
    return sent


async def closes_at_once_with_transfers_queued(bed: Bed) -> None:
    a, b, c = await bed.connected(3)
    a.send(1, [(1, 1000 * bed.message_bytes), (2, 0)])
    await bed.until(lambda: a.acknowledgements(1) == [2])
    a.endpoint.close()
    a.endpoint.close()
    a.send(1, [(3, 1)])
    heard = len(bed.log)
    await bed.quiesce()
    assert [h for h in bed.log[heard:] if h.rank == 0] == []
    assert b.arrivals(0) == [(2, 0)]
    b.send(2, [(4, 10)])  # the others go on
    await bed.until(lambda: b.acknowledgements(2) == [4])
    assert c.arrivals(1) == [(4, 10)]


async def fails_a_post_to_a_peer_that_closed_long_ago(bed: Bed) -> None:
    a, b = await bed.connected(2)
    a.send(1, [(1, 10)])
    await bed.until(lambda: a.acknowledgements(1) == [1])
    b.endpoint.close()
    await bed.quiesce()
    assert a.failures(1) == 0  # nothing was under way
    a.send(1, [(2, 10)])
    await bed.until(lambda: a.failures(1) == 1)
    assert not a.heard_while_posting


async def fails_when_the_peer_has_closed(bed: Bed) -> None:
    a, b, c = await bed.connected(3)
    a.send(1, [(1, 10)])
    await bed.until(lambda: a.acknowledgements(1) == [1])
    b.endpoint.close()
    a.send(1, [(2, 100 * bed.message_bytes), (3, 0)])
    await bed.until(lambda: a.failures(1) > 0)
    a.send(1, [(4, 10)])
    a.send(2, [(5, 10)])
    await bed.until(lambda: a.acknowledgements(2) == [5])
    await bed.quiesce()
    assert a.failures(1) == 1
    assert a.reasons[0]
    assert a.acknowledgements(1) == [1]
    assert c.arrivals(0) == [(5, 10)]


CASES: tuple[Case, ...] = (
    delivers_any_size_once_and_acknowledges_it,
    keeps_the_order_of_many_posts,
    delivers_what_is_alike_as_often_as_it_was_posted,
    carries_tags_of_64_bits_that_repeat,
    carries_both_directions_at_once,
    carries_to_many_peers,
    carries_to_oneself,
    acknowledges_only_what_the_peer_has,
    lets_control_overtake_payload_but_not_control,
    keeps_what_comes_before_the_peer_is_connected,
    hears_nobody_outside_the_directory,
    sends_to_nobody_outside_the_directory,
    takes_a_directory_once,
    sends_all_that_was_posted_when_flushed,
    reports_from_the_loop_only,
    lets_events_post,
    counts_payload_and_messages_per_flow,
    closes_at_once_with_transfers_queued,
    fails_when_the_peer_has_closed,
    fails_a_post_to_a_peer_that_closed_long_ago,
)
