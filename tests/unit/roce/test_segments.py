"""Opcodes and headers of the packets of a message."""

import pytest

from emulator.roce.connection.messages import Message, PacketRun, ResponseRun, Verb
from emulator.roce.wire.headers import NO_CREDIT_LIMIT, Aeth, ImmDt, Reth
from emulator.roce.wire.opcodes import MEANINGS, PacketOperation, PacketPlace
from emulator.roce.wire.psn import Psn
from emulator.roce.wire.segments import message_segments, read_request, response_segments

SEGMENTED = (Verb.SEND, Verb.SEND_IMM, Verb.WRITE, Verb.WRITE_IMM)


@pytest.mark.parametrize("verb", SEGMENTED)
def test_opcodes_mean_what_the_verb_does_and_have_the_headers_that_they_announce(verb: Verb) -> None:
    operation, has_imm = verb.value
    segments = message_segments(Message(verb, 9000, 1 << 40, 5, 6))
    headers = {
        PacketPlace.FIRST: segments.first,
        PacketPlace.MIDDLE: b"",
        PacketPlace.LAST: segments.last,
        PacketPlace.ONLY: segments.only,
    }
    for place, opcode in zip(PacketPlace, segments.opcodes, strict=True):
        meaning = MEANINGS[opcode]
        assert (meaning.operation, meaning.place) == (operation, place)
        assert meaning.extension_bytes == len(headers[place])
    assert segments.last == (ImmDt(5).pack() if has_imm else b"")
    assert segments.first == (Reth(1 << 40, 6, 9000).pack() if operation is PacketOperation.WRITE else b"")
    assert segments.only == segments.first + segments.last


def test_all_packets_of_a_response_but_middle_ones_have_an_aeth() -> None:
    segments = response_segments(ResponseRun(Psn(5), 0, 3, 3, 100, 77))
    assert all(MEANINGS[opcode].operation is PacketOperation.READ_RESPONSE for opcode in segments.opcodes)
    assert segments.first == segments.last == segments.only == Aeth(NO_CREDIT_LIMIT, 77).pack()


@pytest.mark.parametrize(
    ("offset", "expected"), [(0, Reth(1000, 6, 9000)), (3, Reth(1000 + 3 * 1024, 6, 9000 - 3 * 1024))]
)
def test_a_read_that_is_repeated_requests_what_is_missing(offset: int, expected: Reth) -> None:
    run = PacketRun(Message(Verb.READ, 9000, 1000, rkey=6, packets=9), Psn(offset), offset, 1, True, offset > 0)
    assert read_request(run, 1024) == expected.pack()
