"""READ requests: their PSNs, and what repeats and responses must look like."""

from __future__ import annotations

import pytest

from emulator.annexes.bench_kit.audit.flow import CapturedPacket
from emulator.annexes.bench_kit.audit.messages import SentPacket
from emulator.annexes.bench_kit.audit.reads import (
    Read,
    Reads,
    path_mtu_of_reads,
    psns_taken,
    repeat_problem,
    response_problem,
)
from emulator.roce.wire.opcodes import MEANINGS, Opcode
from emulator.roce.wire.psn import wrap

MTU = 1024


def packet(opcode: Opcode, psn: int, *, size: int = 0, length: int | None = None, address: int = 0) -> CapturedPacket:
    return CapturedPacket(
        frame=psn,
        time_ns=None,
        opcode=opcode,
        meaning=MEANINGS[opcode],
        psn=wrap(psn),
        payload_bytes=size,
        syndrome=None,
        msn=0,
        reth_bytes=length,
        reth_address=address,
    )


def read(psn: int, length: int, address: int = 0) -> CapturedPacket:
    return packet(Opcode.RC_READ_REQUEST, psn, length=length, address=address)


def send(psn: int) -> CapturedPacket:
    return packet(Opcode.RC_SEND_ONLY, psn)


@pytest.mark.parametrize(("length", "psns"), [(0, 1), (1, 1), (MTU, 1), (MTU + 1, 2), (10 * MTU, 10)])
def test_a_read_takes_a_psn_for_every_packet_of_its_response(length: int, psns: int) -> None:
    assert psns_taken([read(1, length), send(1 + psns)], MTU) == {1: psns}


def test_without_a_path_mtu_the_next_request_decides() -> None:
    assert psns_taken([read(1, 10_000), read(11, 10_000)], None) == {1: 10, 11: 3}


def test_without_a_path_mtu_a_step_that_fits_none_does_not_count() -> None:
    assert psns_taken([read(1, 10_000), send(8)], None) == {1: 3}


def test_the_path_mtu_is_the_one_that_most_steps_fit() -> None:
    requests = [read(1, 10_000), read(11, 10_000), read(21, 10_000), read(24, 10_000)]
    assert path_mtu_of_reads(requests) == 1024


def test_reads_of_one_packet_do_not_show_the_path_mtu() -> None:
    assert path_mtu_of_reads([read(1, 100), read(2, 100), send(3), send(4)]) is None


def test_the_read_that_takes_a_psn() -> None:
    reads = Reads()
    late, early = Read(10, 12, read(10, 2 * MTU)), Read(5, 8, read(5, 3 * MTU))
    for one in (late, early):
        reads.add(one)
    assert [reads.covering(psn) for psn in (4, 5, 7, 8, 10, 11, 12)] == [None, early, early, None, late, late, None]


FIRST = Read(5, 8, read(5, 3 * MTU - 10, address=0x1000))


@pytest.mark.parametrize(
    ("again", "psns"),
    [
        (read(5, 3 * MTU - 10, 0x1000), 3),
        (read(6, 2 * MTU - 10, 0x1000 + MTU), 2),
        (read(7, MTU - 10, 0x1000 + 2 * MTU), 1),
        (read(6, MTU, 0x1000 + MTU), 1),
    ],
)
def test_a_repeated_read_can_ask_for_any_part(again: CapturedPacket, psns: int) -> None:
    assert repeat_problem(again, again.psn, psns, read=FIRST, mtu=MTU) is None


def test_a_repeated_read_of_other_bytes() -> None:
    again = read(6, 2 * MTU - 10, 0x1000)
    expected = "it reads from 0x1000, but PSN 0x6 is that of 0x1400"
    assert repeat_problem(again, 6, 2, read=FIRST, mtu=MTU) == expected
    assert repeat_problem(again, 6, 2, read=FIRST, mtu=None) is None


def test_a_repeated_read_of_more_than_is_left() -> None:
    again = read(6, 3 * MTU - 10, 0x1000 + MTU)
    problem = repeat_problem(again, 6, 3, read=FIRST, mtu=MTU)
    assert problem == "it takes 3 PSNs, 2 are left of the READ in frame 5"


def test_another_request_with_a_psn_of_a_read() -> None:
    assert repeat_problem(send(6), 6, 1, read=FIRST, mtu=MTU) == "PSN 0x6 belongs to the READ in frame 5"


@pytest.mark.parametrize(
    ("opcode", "psn", "size"),
    [
        (Opcode.RC_READ_RESPONSE_FIRST, 5, MTU),
        (Opcode.RC_READ_RESPONSE_MIDDLE, 6, MTU),
        (Opcode.RC_READ_RESPONSE_ONLY, 6, MTU),
        (Opcode.RC_READ_RESPONSE_LAST, 7, MTU - 10),
        (Opcode.RC_READ_RESPONSE_ONLY, 7, MTU - 10),
    ],
)
def test_a_response_carries_the_bytes_of_its_psn(opcode: Opcode, psn: int, size: int) -> None:
    assert response_problem(packet(opcode, psn, size=size), psn, request=FIRST, mtu=MTU) is None


def test_a_response_that_ends_too_early() -> None:
    short = packet(Opcode.RC_READ_RESPONSE_LAST, 7, size=5)
    assert response_problem(short, 7, request=FIRST, mtu=MTU) == "it has 5 bytes, PSN 0x7 of the READ has 1014"
    assert response_problem(short, 7, request=FIRST, mtu=None) is None


def test_a_response_of_the_wrong_kind() -> None:
    atomic = SentPacket(packet(Opcode.RC_FETCH_ADD, 9))
    assert response_problem(packet(Opcode.RC_ATOMIC_ACK, 9), 9, request=atomic, mtu=MTU) is None
    problem = response_problem(packet(Opcode.RC_READ_RESPONSE_ONLY, 9), 9, request=atomic, mtu=MTU)
    assert problem == "read response to PSN 0x9, the atomic in frame 9"
    problem = response_problem(packet(Opcode.RC_ATOMIC_ACK, 4), 4, request=SentPacket(send(4)), mtu=MTU)
    assert problem == "atomic ack to PSN 0x4, the send in frame 4"
