"""Headers, bit by bit and back."""

import struct

import pytest
from hypothesis import strategies as st

from emulator.roce.connection.messages import ConnectionSettings, Message, Verb
from emulator.roce.connection.requester import Requester
from emulator.roce.wire.headers import (
    CREDITS,
    NO_CREDIT_LIMIT,
    Aeth,
    AtomicAckEth,
    AtomicEth,
    Bth,
    Deth,
    Ieth,
    ImmDt,
    Reth,
    Syndrome,
    credit_code,
)
from emulator.roce.wire.psn import Psn

u8, u16, u24, u32, u64 = (st.integers(0, (1 << bits) - 1) for bits in (8, 16, 24, 32, 64))


@pytest.mark.parametrize(
    ("field", "byte", "bits"),
    [("solicited", 1, 0x80), ("migration", 1, 0x40), ("fecn", 4, 0x80), ("becn", 4, 0x40), ("ack_request", 8, 0x80)],
)
def test_a_flag_is_one_bit(field: str, byte: int, bits: int) -> None:
    plain, flagged = Bth(0, Psn(0), 0).pack(), Bth(0, Psn(0), 0, **{field: True}).pack()  # type: ignore[arg-type]
    assert [place for place in range(12) if plain[place] != flagged[place]] == [byte]
    assert plain[byte] ^ flagged[byte] == bits


def test_reserved_bits_of_a_bth_are_written_as_0_and_read_past() -> None:
    bth = Bth(0x07, Psn(0x123456), 0xABCDEF, pad=2)
    packed = bytearray(bth.pack())
    assert packed[4] == packed[8] == 0
    packed[4], packed[8] = 0x3F, 0x7F
    assert Bth.unpack(packed) == bth


def test_reserved_bits_of_a_deth_are_read_past() -> None:
    assert Deth.unpack(struct.pack(">II", 7, 0xFF00_0009)) == Deth(7, 9)


@pytest.mark.parametrize("header", [Bth, Reth, ImmDt, Ieth, Aeth, Deth, AtomicEth, AtomicAckEth])
def test_too_few_bytes_are_an_error(header: type[Bth]) -> None:
    with pytest.raises(struct.error):
        header.unpack(bytes(header.layout.size - 1))


def test_syndromes_that_refuse_are_apart_from_acks_and_rnr_naks() -> None:
    assert {syndrome >> 5 for syndrome in Syndrome} == {1, 3}
    assert [syndrome for syndrome in Syndrome if syndrome >> 5 == 1] == [Syndrome.RNR]
    assert Aeth.unpack(Aeth(Syndrome.REMOTE_ACCESS, 0xFFFFFF).pack()).syndrome == 0x62


FOUR = CREDITS.index(4)


@pytest.mark.parametrize(
    ("receives", "code"),
    [(0, 0), (3, 3), (4, 4), (5, 4), (6, 5), (23, 8), (24, 9), (32_767, 29), (32_768, 30), (10**9, 30), (None, 31)],
)
def test_a_code_never_says_more_than_there_are(receives: int | None, code: int) -> None:
    assert credit_code(receives) == code


def test_the_codes_are_those_of_the_specification() -> None:
    assert len(CREDITS) == NO_CREDIT_LIMIT
    for code in range(4, 30, 2):  # from 4 on: powers of two, and halfway between
        assert CREDITS[code] == 1 << code // 2
        assert CREDITS[code + 1] == 3 << code // 2 - 1


def requester(*verbs: Verb, size: int = 10) -> Requester:
    """With a first SEND that is acknowledged with four credits, and these posted after it."""
    one = Requester(ConnectionSettings(path_mtu=256, window_packets=64, ack_interval=64))
    one.post(Message(Verb.SEND, 10))
    assert sent(one) == [0]
    one.acknowledge(Psn(0), FOUR, 1, 1)
    for verb in verbs:
        one.post(Message(verb, size))
    return one


def sent(one: Requester, now: int = 1) -> list[int]:
    psns = []
    while (run := one.next_run(now, 64)) is not None:
        psns += range(run.psn, run.psn + run.packets)
    return psns


def test_no_more_sends_leave_than_the_peer_has_receives() -> None:
    one = requester(*[Verb.SEND] * 9)
    assert sent(one) == [1, 2, 3, 4]
    one.acknowledge(Psn(2), FOUR, 2, 3)  # two more are complete
    assert sent(one) == [5, 6]
    one.acknowledge(Psn(6), NO_CREDIT_LIMIT, 3, 7)
    assert sent(one) == [7, 8, 9]


def test_messages_that_take_no_receive_need_no_credit_but_count() -> None:
    one = requester(Verb.WRITE, Verb.WRITE, Verb.WRITE, Verb.SEND, Verb.SEND, Verb.WRITE)
    assert sent(one) == [1, 2, 3, 4], "order is kept: the last WRITE waits for the SEND before it"


def test_a_message_that_has_begun_goes_on() -> None:
    one = requester(*[Verb.SEND] * 5, size=700)
    assert sent(one) == list(range(1, 13))


def test_without_credits_one_packet_asks_for_an_answer() -> None:
    one = requester(Verb.SEND, Verb.SEND, size=700)
    one.acknowledge(Psn(0), credit_code(0), 1, 1)
    run = one.next_run(2, 64)
    assert (run.psn, run.packets, run.ack_request) == (1, 1, True)
    assert one.next_run(2, 64) is None
    one.acknowledge(Psn(1), Syndrome.RNR | 1, 3)
    assert one.next_run(3, 64) is None
    one.handle_timer(one.deadline_ns)
    assert sent(one, 10**9) == [1]
    one.acknowledge(Psn(1), credit_code(1), 4, 1)  # taken: its receive is the one that counts
    assert sent(one, 10**9) == [2, 3]


def test_an_end_that_has_credits_posts_instead_of_sending_at_once() -> None:
    assert requester().start(Message(Verb.WRITE_IMM, 10), 2) is None
