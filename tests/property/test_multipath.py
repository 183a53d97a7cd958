"""Whatever the paths do: every message arrives once, complete, in order; only what is missing is sent again."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.roce.connection.messages import ConnectionSettings, Message, Verb
from emulator.roce.multipath.wire import SelectiveAck
from emulator.roce.wire.psn import PSN_SPACE
from tests.support.full import examples
from tests.support.multipath_wire import MultipathWire
from tests.support.virtual_wire import expected

MTU = 256
PROBABILITY = st.floats(0, 0.3)


def messages(count: int, seed: int) -> list[Message]:
    random = Random(seed)
    return [
        Message(
            random.choice((Verb.WRITE, Verb.WRITE_IMM)),
            random.choice((0, 1, MTU - 1, MTU, MTU + 1, random.randrange(60 * MTU))),
            address=(1 << 64) - 1 - key,
            imm=key,
            key=key,
        )
        for key in range(count)
    ]


def exchange(wire: MultipathWire, *posted: list[Message]) -> None:
    for end, mine in zip(wire.ends, posted, strict=True):
        for message in mine:
            end.pair.requester.post(message)
    wire.run()
    for side in (0, 1):
        assert wire.ends[side].pair.requester.failure is None
        assert [m.key for m in wire.ends[side].completed] == [m.key for m in posted[side]]
        assert wire.ends[1 - side].delivered == [expected(m) for m in posted[side]]
        assert wire.ends[1 - side].pair.responder.taken_bytes == sum(m.size for m in posted[side])
        requester = wire.ends[side].pair.dealer
        packets = sum(m.packets for m in posted[side])
        assert requester.sent_packets == packets + requester.retransmits
        assert int(requester.paths.sent.sum()) == requester.sent_packets
        assert not requester.paths.in_flight.any()


def connection(window: int = 200) -> ConnectionSettings:
    return ConnectionSettings(path_mtu=MTU, window_packets=window, retry_count=60)


@given(
    seed=st.integers(0, 2**32),
    paths=st.integers(1, 9),
    batch=st.sampled_from((1, 7)),
    loss=PROBABILITY,
    duplication=PROBABILITY,
    reordering=PROBABILITY,
    trimming=PROBABILITY,
    psn=st.integers(PSN_SPACE - 60, PSN_SPACE - 1),
    window=st.integers(1, 300),
)
@settings(max_examples=examples(40), deadline=None)
def test_every_message_arrives_once_complete_and_in_order(
    *,
    seed: int,
    paths: int,
    batch: int,
    loss: float,
    duplication: float,
    reordering: float,
    trimming: float,
    psn: int,
    window: int,
) -> None:
    wire = MultipathWire(
        connection(window), paths=paths, seed=seed, loss=loss, duplication=duplication, reordering=reordering,
        trimming=trimming, first_psns=(psn, 5), batch_packets=batch,
    )  # fmt: skip
    exchange(wire, messages(12, seed), messages(5, seed + 1))
    trimmed = sum(end.pair.placer.trimmed for end in wire.ends)
    assert trimmed <= wire.trimmed  # the rest was still under way when everything was acknowledged


@given(seed=st.integers(0, 2**32), paths=st.integers(2, 9), since=st.integers(0, 3_000_000))
@settings(max_examples=examples(15), deadline=None)
def test_a_black_path_loses_nothing_and_is_retired(*, seed: int, paths: int, since: int) -> None:
    wire = MultipathWire(
        connection(), paths=paths, seed=seed, black=frozenset({seed % paths}), black_from_ns=since, packet_ns=2_000
    )
    posted = [Message(Verb.WRITE_IMM, 400 * MTU, imm=1, key=key) for key in range(4)]
    exchange(wire, posted, [])
    assert not any(times for path, times in enumerate(wire.ends[0].health.retirements) if path != seed % paths)


def test_what_is_lost_is_sent_again_and_nothing_else() -> None:
    wire = MultipathWire(connection(), paths=4, seed=3, loss=0.05)
    exchange(wire, [Message(Verb.WRITE_IMM, 800 * MTU, imm=1, key=0)], [])
    requester = wire.ends[0].pair.requester
    assert 0 < requester.retransmits <= wire.lost * 1.1


def test_trimmed_packets_are_asked_for_again_within_a_round_trip() -> None:
    wire = MultipathWire(connection(), paths=4, seed=3, trimming=0.05)
    exchange(wire, [Message(Verb.WRITE_IMM, 800 * MTU, imm=1, key=0)], [])
    requester = wire.ends[0].pair.requester
    assert wire.ends[1].pair.placer.trimmed == wire.trimmed > 20
    assert wire.trimmed <= requester.retransmits <= 1.1 * wire.trimmed
    assert requester.timeouts == 0


def test_packets_spread_evenly() -> None:
    wire = MultipathWire(connection(), paths=4, seed=3)
    exchange(wire, [Message(Verb.WRITE_IMM, 800 * MTU, imm=1, key=0)], [])
    assert wire.ends[0].pair.dealer.paths.sent.tolist() == [200] * 4


def test_a_black_path_costs_its_share_only_and_is_used_again_once_it_carries() -> None:
    since, until = 200_000_000, 500_000_000
    wire = MultipathWire(
        connection(60), paths=4, seed=3, packet_ns=1_000_000, queue_packets=12,
        black=frozenset({2}), black_from_ns=since, black_until_ns=until,
    )  # fmt: skip
    exchange(wire, [Message(Verb.WRITE_IMM, 4_500 * MTU, imm=1, key=0)], [])

    def goodput(start: int, end: int) -> float:
        return sum(size for at, _, size in wire.arrived_bytes if start <= at < end) / (end - start)

    healthy = goodput(100_000_000, since)
    assert goodput(since + 100_000_000, until) > 0.74 * healthy  # three of four paths, all of them full
    assert goodput(until + 300_000_000, until + 500_000_000) > 0.95 * healthy
    assert wire.ends[0].health.retirements == [0, 0, wire.ends[0].health.retirements[2], 0]


def test_a_dead_peer_is_named() -> None:
    wire = MultipathWire(ConnectionSettings(timeout_exponent=10, retry_count=3), paths=4, seed=1)
    wire.is_cut = True
    wire.ends[0].pair.requester.post(Message(Verb.WRITE, 100))
    wire.run()
    assert "no answer after 3 retries" in (wire.ends[0].pair.requester.failure or "")
    assert len(wire.ends[0].health.in_use) == 4


@given(packet=st.binary(max_size=80))
@settings(max_examples=examples(100))
def test_any_bytes_are_an_acknowledgement_or_none(packet: bytes) -> None:
    found = SelectiveAck.parse(packet)
    assert found is None or len(found.pack(0)) + 4 == len(packet)


@pytest.mark.parametrize("syndrome", [0x61, 0x62])
def test_a_refusal_ends_the_connection(syndrome: int) -> None:
    wire = MultipathWire(connection(), paths=2, seed=1)
    requester = wire.ends[0].pair.dealer
    requester.post(Message(Verb.WRITE, 100))
    requester.next_run(0, 9)
    requester.acknowledge_selectively(SelectiveAck(requester.initial_psn, syndrome, 0), 1)
    assert "refused" in (requester.failure or "")
