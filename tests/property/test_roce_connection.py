"""Whatever the wire does: every message arrives once, complete, in order; a dead peer is named; nothing hangs."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.roce.connection.messages import Arrival, ConnectionSettings, Message, Verb
from emulator.roce.connection.responder import Responder
from emulator.roce.constants import PATH_MTUS
from emulator.roce.wire.psn import PSN_SPACE
from tests.support.full import examples
from tests.support.virtual_wire import Wire, expected

MTU = st.sampled_from(PATH_MTUS)


def messages(count: int, seed: int, path_mtu: int) -> list[Message]:
    random = Random(seed)
    verbs = list(Verb)
    return [
        Message(
            random.choice(verbs),
            random.choice((0, 1, path_mtu - 1, path_mtu, path_mtu + 1, random.randrange(20 * path_mtu))),
            address=key << 40,
            imm=key,
            key=key,
        )
        for key in range(count)
    ]


def exchange(wire: Wire, *posted: list[Message]) -> None:
    """Post messages at both ends and see all of them through."""
    for end, mine in zip(wire.ends, posted, strict=True):
        for message in mine:
            end.pair.requester.post(message)
    wire.run()
    check(wire, (posted[0], posted[1]))


def check(wire: Wire, posted: tuple[list[Message], list[Message]]) -> None:
    for side in (0, 1):
        assert wire.ends[side].pair.requester.failure is None
        assert [m.key for m in wire.ends[side].completed] == [m.key for m in posted[side]]
        written = [m for m in posted[side] if m.verb is not Verb.READ]
        assert wire.ends[1 - side].delivered == [expected(m) for m in written]
        assert wire.ends[1 - side].pair.responder.taken_bytes == sum(m.size for m in written)


@given(
    seed=st.integers(0, 2**32),
    path_mtu=MTU,
    loss=st.floats(0, 0.3),
    duplication=st.floats(0, 0.3),
    reordering=st.floats(0, 0.3),
    is_ooo=st.booleans(),
    psn=st.integers(PSN_SPACE - 60, PSN_SPACE - 1),
    window=st.integers(1, 80),
)
@settings(max_examples=examples(60), deadline=None)
def test_every_message_arrives_once_complete_and_in_order(
    *, seed: int, path_mtu: int, loss: float, duplication: float, reordering: float, is_ooo: bool, psn: int, window: int
) -> None:
    connection = ConnectionSettings(
        path_mtu=path_mtu, window_packets=window, ack_interval=max(1, window // 2), retry_count=60, is_ooo=is_ooo
    )
    wire = Wire(connection, seed=seed, loss=loss, duplication=duplication, reordering=reordering, first_psns=(psn, 5))
    exchange(wire, messages(12, seed, path_mtu), messages(5, seed + 1, path_mtu))


@pytest.mark.parametrize("verb", list(Verb))
@pytest.mark.parametrize("path_mtu", PATH_MTUS)
@pytest.mark.parametrize("is_ooo", [False, True])
def test_every_verb_and_mtu_across_the_wrap(verb: Verb, path_mtu: int, *, is_ooo: bool) -> None:
    connection = ConnectionSettings(
        path_mtu=path_mtu, window_packets=40, ack_interval=20, retry_count=60, is_ooo=is_ooo
    )
    wire = Wire(connection, seed=path_mtu, loss=0.2, duplication=0.1, reordering=0.2, first_psns=(PSN_SPACE - 20, 0))
    posted = [Message(verb, size * path_mtu + 3, address=9 + size, imm=size, key=size) for size in range(12)]
    for message in posted:
        wire.ends[0].pair.requester.post(message)
    wire.run()
    check(wire, (posted, []))


@given(
    seed=st.integers(0, 2**32), path_mtu=MTU, loss=st.floats(0, 0.3), receives=st.integers(1, 9), psn=st.integers(1, 9)
)
@settings(max_examples=examples(60), deadline=None)
def test_every_message_arrives_once_where_receives_are_few(
    *, seed: int, path_mtu: int, loss: float, receives: int, psn: int
) -> None:
    connection = ConnectionSettings(path_mtu=path_mtu, window_packets=40, ack_interval=20, retry_count=60)
    wire = Wire(connection, seed=seed, loss=loss, reordering=loss, first_psns=(PSN_SPACE - psn, 5), receives=receives)
    exchange(wire, messages(12, seed, path_mtu), messages(5, seed + 1, path_mtu))


@pytest.mark.parametrize("receives", [1, 2, 5, 64])
@pytest.mark.parametrize("size", [10, 3000])
def test_with_credits_a_receiver_that_is_not_ready_costs_a_packet_and_not_a_window(receives: int, size: int) -> None:
    wire = Wire(ConnectionSettings(path_mtu=1024, window_packets=40, ack_interval=20), seed=1, receives=receives)
    requester = wire.ends[0].pair.requester
    requester.post(Message(Verb.SEND, size))
    wire.run()  # its acknowledgement has the first credits
    for key in range(60):
        requester.post(Message(Verb.SEND if key % 3 else Verb.WRITE_IMM, size, imm=key, key=key))
    wire.run()
    assert len(wire.ends[1].delivered) == 61
    assert requester.retransmits == requester.rnr_naks
    assert (requester.rnr_naks > 0, requester.naks, requester.timeouts) == (receives < 60, 0, 0)


@given(seed=st.integers(0, 2**32), exponent=st.integers(0, 20), retries=st.integers(0, 9))
@settings(max_examples=20, deadline=None)
def test_a_dead_peer_is_named_after_the_retries(*, seed: int, exponent: int, retries: int) -> None:
    wire = Wire(ConnectionSettings(timeout_exponent=exponent, retry_count=retries), seed=seed)
    wire.is_cut = True
    requester = wire.ends[0].pair.requester
    requester.post(Message(Verb.WRITE, 100))
    wire.run()
    assert requester.failure is not None
    assert f"no answer after {retries} retries" in requester.failure
    assert wire.sent == 1 + retries
    nominal = 4096 * 2**exponent
    assert nominal * (retries + 1) <= wire.now <= 4 * nominal * (retries + 1)


ARRIVALS = st.builds(
    Arrival,
    st.integers(0, 255),
    st.integers(0, PSN_SPACE - 1) | st.integers(0, 12),
    packets=st.integers(1, 64),
    size=st.integers(0, 5000) | st.sampled_from((256, 0)),
    ack_request=st.booleans(),
    address=st.integers(0, 2**64 - 1),
    rkey=st.integers(0, 2),
    length=st.integers(0, 2**32 - 1) | st.sampled_from((256, 512, 0)),
    imm=st.integers(0, 2**32 - 1),
)


@given(st.lists(ARRIVALS, max_size=30), st.booleans())
@settings(max_examples=examples(200), deadline=None)
def test_any_packets_in_give_a_delivery_a_reply_or_a_count(packets: list[Arrival], is_ooo: bool) -> None:
    responder = Responder(ConnectionSettings(path_mtu=256, is_ooo=is_ooo, ooo_window=32))
    for packet in packets:
        before = (responder.expected, responder.refused_packets, responder.duplicates, responder.early_packets)
        before_naks = responder.naks
        responder.receive(packet)
        after = (responder.expected, responder.refused_packets, responder.duplicates, responder.early_packets)
        assert after != before or responder.naks > before_naks or responder.owes_reply
        while responder.next_response(1 << 20) is not None:
            pass


def test_lossless_needs_no_retransmission_and_few_acks() -> None:
    wire = Wire(ConnectionSettings(window_packets=256, ack_interval=128), seed=1)
    requester = wire.ends[0].pair.requester
    requester.post(Message(Verb.WRITE_IMM, 4096 * 1000, address=5, imm=6))
    wire.run()
    assert (requester.retransmits, requester.naks, requester.timeouts) == (0, 0, 0)
    assert requester.sent_packets == 1000
    assert requester.rtt_ns == 10_000
