"""What a responder takes and refuses; that whole messages arrive is in property/test_roce_connection.py."""

import pytest
from msgspec.structs import replace

from emulator.roce.connection.memory import Access, Memory, MemoryRegion
from emulator.roce.connection.messages import (
    LEAST_REACH_PACKETS,
    Arrival,
    AtomicResponse,
    ConnectionSettings,
    Delivered,
    Reply,
    ResponseRun,
)
from emulator.roce.connection.responder import Responder
from emulator.roce.constants import LARGEST_MESSAGE_BYTES
from emulator.roce.wire.headers import NO_CREDIT_LIMIT, Syndrome, credit_code
from emulator.roce.wire.opcodes import Opcode, PacketOperation
from emulator.roce.wire.psn import Psn


def middle(psn: int) -> Arrival:
    return Arrival(Opcode.RC_WRITE_MIDDLE, Psn(psn), size=256)


def test_a_packet_beyond_anybodys_window_is_refused_and_draws_no_answer() -> None:
    responder = Responder(ConnectionSettings(path_mtu=256))
    for psn in (LEAST_REACH_PACKETS + 1, 1 << 23, (1 << 24) - LEAST_REACH_PACKETS - 1):
        responder.receive(middle(psn))
    assert (responder.refused_packets, responder.take_reply()) == (3, None)
    responder.receive(middle(LEAST_REACH_PACKETS))
    assert responder.take_reply() == Reply(Psn(0), Syndrome.SEQUENCE_ERROR, 0)


def test_one_nak_for_a_gap_and_another_when_what_was_sent_again_is_lost_too() -> None:
    responder = Responder(ConnectionSettings(path_mtu=256))
    for psn in (3, 4, 5, 6):
        responder.receive(middle(psn))
    assert responder.take_reply() == Reply(Psn(0), Syndrome.SEQUENCE_ERROR, 0)
    for psn in (7, 8):
        responder.receive(middle(psn))
    assert responder.take_reply() is None
    responder.receive(middle(1))
    assert responder.take_reply() == Reply(Psn(0), Syndrome.SEQUENCE_ERROR, 0)
    assert responder.naks == 2


def received(*steps: int | range | str) -> Responder:
    """A responder that took PSNs, one by one or as a run, and acknowledged or NAKed at every "reply".

    What follows a "reply" comes long after it, unless "at once" stands between them.
    """
    responder = Responder(ConnectionSettings(path_mtu=256))
    responder.receive(first(200))
    before = 0
    for step in steps:
        if step == "at once":
            responder.now_ns = before
        elif isinstance(step, str):
            assert responder.take_reply() is not None
            before = responder.now_ns
            responder.now_ns += responder.settings.timeout_ns
        else:
            run = step if isinstance(step, range) else range(step, step + 1)
            responder.receive(replace(middle(run.start), packets=len(run)))
    return responder


def counted(responder: Responder) -> tuple[int, int, int, int]:
    return (responder.copies, responder.duplicates, responder.early_packets, responder.naks)


def test_what_comes_twice_before_it_was_acknowledged_was_copied_by_the_network() -> None:
    assert counted(received(1, 2, 2, 3, range(3, 6), 1)) == (3, 0, 0, 0)


def test_what_comes_again_after_its_acknowledgement_was_sent_again() -> None:
    assert counted(received(1, 2, "reply", 2, range(1, 3))) == (0, 3, 0, 0)
    pieces = received(range(1, 5), "reply", range(5, 7), range(2, 4), range(4, 7))
    assert counted(pieces) == (0, 5, 0, 0), "a resend in two pieces, after a silence"


def test_what_comes_again_at_once_was_copied_though_it_was_acknowledged_in_between() -> None:
    assert counted(received(1, 2, "reply", "at once", 2)) == (1, 0, 0, 0)
    assert counted(received(1, 2, "reply", "at once", range(2, 4))) == (1, 0, 0, 0), "with the next one behind it"
    assert counted(received(1, 2, 3, "reply", "at once", 1)) == (1, 0, 0, 0), "after the train that it was in"
    assert counted(received(1, 2, 3, "reply", "at once", 1, 2)) == (0, 2, 0, 0), "it goes on: a resend"
    assert counted(received(range(1, 6), "reply", "at once", range(1, 3))) == (0, 2, 0, 0), "more than one, and older"
    assert counted(received(1, 3, "reply", 2, 3, "reply", "at once", 3)) == (1, 0, 1, 1), "of what was sent again"
    assert counted(received(1, 3, "reply", "at once", 3)) == (1, 0, 1, 1), "early, before the NAK can have been read"


def test_a_copy_of_an_early_packet_is_neither_early_nor_a_resend() -> None:
    responder = received(1, 3, 3, "reply", 4, 5, 5, range(5, 7))
    assert counted(responder) == (3, 0, 4, 1)
    assert responder.take_reply() is None, "a copy does not say that the requester went back"
    again = received(1, 3, "reply", 3, "reply")
    assert counted(again) == (0, 0, 2, 2), "the requester went back, and the gap was lost again"


def test_what_a_nak_asked_for_is_a_resend_though_the_late_original_came_first() -> None:
    reordered = received(1, 3, 4, "reply", 2, range(2, 5), range(5, 7))
    assert counted(reordered) == (0, 1, 2, 1)
    assert counted(received(1, 3, "reply", 2, 3, 3, 4)) == (1, 0, 1, 1), "a copy of what was sent again"


def first(packets: int) -> Arrival:
    return Arrival(Opcode.RC_WRITE_FIRST, Psn(0), size=256, address=5, length=packets * 256)


def test_packets_that_come_as_a_run_count_one_by_one() -> None:
    responder = Responder(ConnectionSettings(path_mtu=256))
    responder.receive(first(7))
    responder.receive(replace(middle(1), packets=5))
    responder.receive(Arrival(Opcode.RC_WRITE_LAST, Psn(6), size=256, ack_request=True))
    assert responder.delivered == [Delivered(PacketOperation.WRITE, 5, 7 * 256, None)]
    assert responder.unacknowledged == 7
    assert responder.take_reply() == Reply(Psn(6), NO_CREDIT_LIMIT, 1)
    assert (responder.take_reply(), responder.unacknowledged) == (None, 0)


def test_what_came_early_is_used_once() -> None:
    responder = Responder(ConnectionSettings(path_mtu=256, is_ooo=True))
    responder.receive(first(9))
    assert responder.middles_due == 7
    for psn in (3, 2):
        responder.receive(middle(psn))
    assert responder.middles_due == 0
    responder.receive(middle(1))
    assert (responder.expected, responder.early_packets, responder.largest_displacement) == (4, 2, 2)
    assert responder.middles_due == 4


def test_a_message_that_came_before_the_end_of_another_is_delivered_after_it() -> None:
    responder = Responder(ConnectionSettings(path_mtu=256, is_ooo=True))
    responder.receive(first(2))
    responder.receive(replace(first(2), psn=Psn(2)))
    assert not responder.receive_writes(Delivered(PacketOperation.WRITE, 5, 1, None), ack_request=True)
    responder.receive(Arrival(Opcode.RC_WRITE_LAST, Psn(1), size=256))
    assert (responder.expected, len(responder.delivered)) == (3, 1)
    responder.receive(Arrival(Opcode.RC_WRITE_LAST, Psn(3), size=256))
    assert responder.delivered == 2 * [Delivered(PacketOperation.WRITE, 5, 512, None)]
    assert responder.receive_writes(Delivered(PacketOperation.WRITE, 5, 1, None, 3), ack_request=True)
    assert (responder.expected, len(responder.delivered)) == (7, 3)


@pytest.mark.parametrize("imm", [None, 3])
def test_a_write_is_delivered_with_its_immediate_data_and_acknowledged_as_asked(imm: int | None) -> None:
    responder = Responder(ConnectionSettings(path_mtu=256), Psn(0xFFFFFF))
    last = Opcode.RC_WRITE_LAST if imm is None else Opcode.RC_WRITE_LAST_IMM
    responder.receive(Arrival(Opcode.RC_WRITE_FIRST, Psn(0xFFFFFF), size=256, address=5, length=700))
    responder.receive(middle(0))
    assert (responder.received_bytes, responder.length, responder.is_urgent) == (512, 700, False)
    responder.receive(Arrival(last, Psn(1), size=188, ack_request=True, imm=imm or 0))
    assert responder.delivered == [Delivered(PacketOperation.WRITE, 5, 700, imm)]
    assert (responder.expected, responder.unacknowledged, responder.is_urgent) == (2, 3, True)
    assert (responder.received_bytes, responder.take_reply()) == (0, Reply(Psn(1), NO_CREDIT_LIMIT, 1))


def test_writes_of_one_packet_that_are_alike_are_delivered_together() -> None:
    responder = Responder(ConnectionSettings(path_mtu=256))
    writes = Arrival(Opcode.RC_WRITE_ONLY_IMM, Psn(0), 5, 20, ack_request=True, address=7, length=20, imm=1)
    responder.receive(writes)
    assert responder.delivered == [Delivered(PacketOperation.WRITE, 7, 20, 1, 5)]
    assert responder.take_reply() == Reply(Psn(4), NO_CREDIT_LIMIT, 5)
    responder.now_ns += responder.settings.timeout_ns
    responder.receive(replace(writes, psn=Psn(3)))
    assert (responder.duplicates, responder.delivered[1].messages) == (2, 3)


@pytest.mark.parametrize(
    "last",
    [
        Arrival(Opcode.RC_WRITE_LAST, Psn(1), size=0),
        Arrival(Opcode.RC_WRITE_LAST, Psn(1), size=257),
        Arrival(Opcode.RC_WRITE_LAST, Psn(1), size=256),
        Arrival(Opcode.RC_WRITE_LAST, Psn(1), packets=2, size=256),
        Arrival(Opcode.RC_SEND_LAST, Psn(1), size=256),
        Arrival(Opcode.RC_WRITE_FIRST, Psn(1), size=256, length=700),
        Arrival(Opcode.RC_WRITE_MIDDLE, Psn(1), size=255),
        Arrival(Opcode.RC_WRITE_MIDDLE, Psn(1), packets=2, size=256),
    ],
    ids=lambda last: f"{Opcode(last.opcode).name}-{last.packets}-{last.size}",
)
def test_what_does_not_fit_the_write_under_way_breaks_the_connection(last: Arrival) -> None:
    responder = Responder(ConnectionSettings(path_mtu=256))
    responder.receive(first(3))
    responder.receive(last)
    assert responder.is_broken
    assert responder.take_reply() == Reply(Psn(1), Syndrome.INVALID_REQUEST, 0)
    responder.receive(middle(1))
    assert (responder.expected, responder.refused_packets) == (1, 1)


@pytest.mark.parametrize("length", [0, 256, LARGEST_MESSAGE_BYTES + 1])
def test_a_first_packet_of_a_length_that_it_cannot_have_breaks_the_connection(length: int) -> None:
    responder = Responder(ConnectionSettings(path_mtu=256))
    responder.receive(replace(first(3), length=length))
    assert responder.is_broken


def test_a_nak_and_half_a_window_are_due_at_once() -> None:
    responder = Responder(ConnectionSettings(path_mtu=256, ack_interval=3))
    responder.receive(first(9))
    responder.receive(middle(1))
    assert not responder.is_reply_due
    responder.receive(middle(2))
    assert responder.is_reply_due
    assert responder.take_reply() == Reply(Psn(2), NO_CREDIT_LIMIT, 0)
    responder.receive(middle(5))
    assert responder.is_reply_due


def test_a_packet_again_that_came_too_early_says_that_the_gap_was_lost_again() -> None:
    """The requester goes back to the packet that the NAK names: whatever comes next is newer than what came before."""
    responder = Responder(ConnectionSettings(path_mtu=256))
    for psn in (1, 1):
        responder.now_ns += 1
        responder.receive(middle(psn))
        assert responder.take_reply() == Reply(Psn(0), Syndrome.SEQUENCE_ERROR, 0)
    assert responder.naks == 2


def test_what_follows_a_message_that_found_no_receive_draws_no_nak_of_its_own() -> None:
    responder = Responder(ConnectionSettings(path_mtu=1024), receives=0)
    replies = []
    for psn in range(3):
        responder.receive(Arrival(Opcode.RC_SEND_ONLY, Psn(psn), 1, 100, True))
        replies.append(responder.take_reply())
    assert [reply and reply.syndrome & 0xE0 for reply in replies] == [Syndrome.RNR, None, None]
    assert responder.naks == 1
    responder.post_receives(3)
    for psn in range(3):
        responder.receive(Arrival(Opcode.RC_SEND_ONLY, Psn(psn), 1, 100, True))
    assert len(responder.delivered) == 3


def test_packets_are_taken_early_up_to_the_window_and_no_further() -> None:
    responder = Responder(ConnectionSettings(path_mtu=256, is_ooo=True, ooo_window=4))
    responder.receive(first(9))
    responder.receive(middle(4))
    assert (responder.naks, responder.early_packets) == (0, 1)
    responder.receive(middle(5))
    assert responder.take_reply() == Reply(Psn(1), Syndrome.SEQUENCE_ERROR, 0)
    assert (responder.naks, responder.early_packets) == (1, 2)


def test_a_packet_of_an_early_run_that_comes_again_says_that_the_gap_was_lost_again() -> None:
    responder = Responder(ConnectionSettings(path_mtu=256))
    responder.receive(replace(middle(3), packets=3))
    assert responder.take_reply() is not None
    responder.receive(middle(4))
    assert responder.take_reply() is None, "it may be a copy"
    responder.receive(middle(5))
    assert responder.take_reply() == Reply(Psn(0), Syndrome.SEQUENCE_ERROR, 0)
    assert counted(responder) == (0, 0, 5, 2)


def test_a_packet_of_an_early_run_that_comes_again_alone_is_a_copy() -> None:
    """A host merges the run, and passes on the copy of one after it."""
    responder = Responder(ConnectionSettings(path_mtu=256))
    responder.receive(replace(middle(3), packets=3))
    assert responder.take_reply() is not None
    for psn in (4, 6, 5, 7):
        responder.receive(middle(psn))
    assert responder.take_reply() is None
    assert counted(responder) == (2, 0, 5, 1)


def test_the_largest_message_may_begin() -> None:
    responder = Responder(ConnectionSettings(path_mtu=256))
    responder.receive(replace(first(3), length=LARGEST_MESSAGE_BYTES))
    assert (responder.is_broken, responder.length) == (False, LARGEST_MESSAGE_BYTES)


@pytest.mark.parametrize(("length", "is_broken"), [(0, False), (9, True)])
def test_a_key_matters_only_where_there_is_something_to_write(length: int, is_broken: bool) -> None:
    memory = Memory([MemoryRegion(rkey=5, address=0, length=99)])
    responder = Responder(ConnectionSettings(path_mtu=256), memory=memory)
    responder.receive(Arrival(Opcode.RC_WRITE_ONLY, Psn(0), size=length, rkey=6, length=length))
    assert responder.is_broken is is_broken


BASE, RKEY = 1 << 40, 7
WRITE_ONLY, READ, FETCH_ADD = Opcode.RC_WRITE_ONLY, Opcode.RC_READ_REQUEST, Opcode.RC_FETCH_ADD


def with_region(access: Access = Access.ALL, *, receives: int | None = None) -> Responder:
    region = MemoryRegion(rkey=RKEY, address=BASE, length=1024, access=access, content=bytearray(1024))
    return Responder(ConnectionSettings(path_mtu=256), memory=Memory([region]), receives=receives)


def replies(responder: Responder) -> list[Reply | ResponseRun | AtomicResponse]:
    """Everything that is owed, in the order in which it leaves."""
    owed: list[Reply | ResponseRun | AtomicResponse] = []
    while responder.owes_responses:
        assert responder.take_reply() is None, "an acknowledgement must not overtake a response"
        response = responder.next_response(64)
        assert response is not None
        owed.append(response)
    reply = responder.take_reply()
    return owed if reply is None else [*owed, reply]


REFUSED = [
    (Access.ALL, Arrival(WRITE_ONLY, Psn(0), 1, 9, address=BASE - 1, rkey=RKEY, length=9), Syndrome.REMOTE_ACCESS),
    (Access.ALL, Arrival(WRITE_ONLY, Psn(0), 1, 9, address=BASE + 1016, rkey=RKEY, length=9), Syndrome.REMOTE_ACCESS),
    (Access.ALL, Arrival(WRITE_ONLY, Psn(0), 1, 9, address=BASE, rkey=8, length=9), Syndrome.REMOTE_ACCESS),
    (Access.READ, Arrival(WRITE_ONLY, Psn(0), 1, 9, address=BASE, rkey=RKEY, length=9), Syndrome.REMOTE_ACCESS),
    (
        Access.ALL,
        Arrival(Opcode.RC_WRITE_FIRST, Psn(0), 1, 256, address=BASE + 1, rkey=RKEY, length=1024),
        Syndrome.REMOTE_ACCESS,
    ),
    (Access.ALL, Arrival(READ, Psn(0), address=BASE + 1, rkey=RKEY, length=1024), Syndrome.REMOTE_ACCESS),
    (Access.ALL, Arrival(READ, Psn(0), address=BASE, rkey=8, length=1), Syndrome.REMOTE_ACCESS),
    (Access.WRITE, Arrival(READ, Psn(0), address=BASE, rkey=RKEY, length=1), Syndrome.REMOTE_ACCESS),
    (
        Access.ALL,
        Arrival(READ, Psn(0), address=BASE, rkey=RKEY, length=LARGEST_MESSAGE_BYTES + 1),
        Syndrome.INVALID_REQUEST,
    ),
    (Access.ALL, Arrival(FETCH_ADD, Psn(0), address=BASE + 4, rkey=RKEY), Syndrome.INVALID_REQUEST),
    (Access.ALL, Arrival(FETCH_ADD, Psn(0), address=BASE + 1024, rkey=RKEY), Syndrome.REMOTE_ACCESS),
    (Access.ALL, Arrival(FETCH_ADD, Psn(0), address=BASE, rkey=8), Syndrome.REMOTE_ACCESS),
    (
        Access.WRITE | Access.READ,
        Arrival(Opcode.RC_COMPARE_SWAP, Psn(0), address=BASE, rkey=RKEY),
        Syndrome.REMOTE_ACCESS,
    ),
]


@pytest.mark.parametrize(("access", "request_", "syndrome"), REFUSED)
def test_a_request_that_memory_does_not_allow_is_refused_once_and_ends_the_connection(
    access: Access, request_: Arrival, syndrome: Syndrome
) -> None:
    responder = with_region(access)
    for _ in range(2):
        responder.receive(request_)
    assert replies(responder) == [Reply(Psn(0), syndrome, 0)]
    assert (responder.is_broken, responder.naks, responder.refused_packets) == (True, 1, 1)
    responder.receive(Arrival(Opcode.RC_SEND_ONLY, Psn(0)))
    assert (responder.delivered, replies(responder)) == ([], [])


def test_requests_of_no_bytes_need_neither_key_nor_address() -> None:
    responder = with_region()
    responder.receive(Arrival(WRITE_ONLY, Psn(0), address=3, rkey=99))
    responder.receive(Arrival(READ, Psn(1), address=3, rkey=99))
    assert len(responder.delivered) == 1
    assert replies(responder) == [ResponseRun(Psn(1), 0, 1, 1, 0, 2), Reply(Psn(1), NO_CREDIT_LIMIT, 2)]


def test_responses_owed_before_a_bad_request_leave_before_its_nak() -> None:
    responder = with_region()
    responder.receive(Arrival(READ, Psn(0), address=BASE, rkey=RKEY, length=300))
    responder.receive(Arrival(FETCH_ADD, Psn(2), address=BASE, rkey=RKEY, swap_or_add=3))
    responder.receive(Arrival(WRITE_ONLY, Psn(3), 1, 9, address=BASE, rkey=8, length=9))
    assert responder.is_broken
    read, atomic, nak = replies(responder)
    assert (isinstance(read, ResponseRun), isinstance(atomic, AtomicResponse)) == (True, True)
    assert nak == Reply(Psn(3), Syndrome.REMOTE_ACCESS, 2)


def test_a_nak_that_waits_behind_responses_is_void_once_what_was_missing_has_arrived() -> None:
    responder = with_region()
    responder.receive(Arrival(READ, Psn(0), address=BASE, rkey=RKEY, length=300))
    responder.receive(Arrival(READ, Psn(4), address=BASE, rkey=RKEY, length=300))  # the one before was lost
    for psn in (2, 4):
        responder.receive(Arrival(READ, Psn(psn), address=BASE, rkey=RKEY, length=300))
    assert [owed.psn for owed in replies(responder)] == [0, 2, 4], (
        "responses, and no NAK of a PSN that they acknowledge"
    )
    assert responder.naks == 0
    responder.receive(Arrival(WRITE_ONLY, Psn(8), 1, 8, address=BASE, rkey=RKEY, length=8))
    assert replies(responder) == [Reply(Psn(6), Syndrome.SEQUENCE_ERROR, 3)], "the next gap is NAKed"


def test_an_atomic_is_applied_once_and_a_request_that_comes_again_gets_the_same_result() -> None:
    responder = with_region()
    add_five = Arrival(FETCH_ADD, Psn(0), address=BASE + 8, rkey=RKEY, swap_or_add=5)
    swap = Arrival(Opcode.RC_COMPARE_SWAP, Psn(1), address=BASE + 8, rkey=RKEY, swap_or_add=9, compare=5)
    for request in (add_five, add_five, swap, add_five, swap):
        responder.receive(request)
    owed = replies(responder)
    results = [(response.psn, response.original) for response in owed if isinstance(response, AtomicResponse)]
    assert results == [(0, 0), (0, 0), (1, 5), (0, 0), (1, 5)]
    assert len(owed) == 5, "a response acknowledges"
    responder.receive(replace(add_five, psn=Psn(2), swap_or_add=0))
    assert replies(responder) == [AtomicResponse(Psn(2), 9, 3)]
    assert responder.duplicates == 3


def test_results_of_atomics_are_kept_for_as_many_requests_as_may_be_outstanding() -> None:
    responder = with_region()
    requests = [Arrival(FETCH_ADD, Psn(psn), address=BASE, rkey=RKEY, swap_or_add=1) for psn in range(17)]
    for request in requests:
        responder.receive(request)
        replies(responder)
    for request in requests:
        responder.receive(request)
    assert [r.original for r in replies(responder) if isinstance(r, AtomicResponse)] == list(range(1, 17))


def test_a_result_is_kept_for_the_newest_request_of_a_psn() -> None:
    responder = with_region()
    for psn in range(16):
        responder.receive(Arrival(FETCH_ADD, Psn(psn), address=BASE, rkey=RKEY, swap_or_add=1))
        replies(responder)
    responder.expected = Psn(0)  # 2^24 packets later
    for psn in range(2):
        responder.receive(Arrival(FETCH_ADD, Psn(psn), address=BASE, rkey=RKEY, swap_or_add=1))
        replies(responder)
    responder.receive(Arrival(FETCH_ADD, Psn(0), address=BASE, rkey=RKEY, swap_or_add=1))
    assert replies(responder) == [AtomicResponse(Psn(0), 16, 18)]


def test_a_read_that_comes_again_may_be_for_the_part_that_was_lost_but_for_nothing_that_is_forbidden() -> None:
    responder = with_region()
    assert isinstance(responder.memory.region(RKEY, BASE, 1024, Access.READ), MemoryRegion)
    responder.receive(Arrival(READ, Psn(0), address=BASE, rkey=RKEY, length=1000))
    replies(responder)
    responder.receive(Arrival(READ, Psn(2), address=BASE + 512, rkey=RKEY, length=488))
    assert replies(responder) == [ResponseRun(Psn(2), 0, 2, 2, 232, 1, bytes(488))]
    responder.receive(Arrival(READ, Psn(2), address=BASE + 1000, rkey=RKEY, length=488))
    responder.receive(Arrival(READ, Psn(2), address=BASE, rkey=RKEY, length=1000))  # longer than what came before
    assert (replies(responder), responder.is_broken) == ([], False)


def test_more_reads_than_may_be_owed_are_dropped_and_taken_when_they_come_again() -> None:
    responder = with_region()
    reads = [Arrival(READ, Psn(psn), address=BASE, rkey=RKEY, length=8) for psn in range(17)]
    for read in reads:
        responder.receive(read)
    assert len(replies(responder)) == 16
    responder.receive(reads[-1])
    assert replies(responder) == [ResponseRun(Psn(16), 0, 1, 1, 8, 17, bytes(8))]


def test_a_read_in_the_middle_of_a_write_is_invalid() -> None:
    responder = with_region()
    responder.receive(Arrival(Opcode.RC_WRITE_FIRST, Psn(0), 1, 256, address=BASE, rkey=RKEY, length=512))
    responder.receive(Arrival(READ, Psn(1), address=BASE, rkey=RKEY, length=8))
    assert replies(responder) == [Reply(Psn(1), Syndrome.INVALID_REQUEST, 0)]


@pytest.mark.parametrize(
    ("opcode", "takes_receive"),
    [
        (Opcode.RC_SEND_ONLY, True),
        (Opcode.RC_SEND_ONLY_IMM, True),
        (Opcode.RC_WRITE_ONLY_IMM, True),
        (WRITE_ONLY, False),
    ],
)
def test_a_message_that_consumes_a_receive_waits_for_one(opcode: Opcode, *, takes_receive: bool) -> None:
    responder = with_region(receives=0)
    message = Arrival(opcode, Psn(0), 1, 9, True, BASE, RKEY, 9)
    responder.receive(message)
    timer = ConnectionSettings().rnr_timer
    refused = [Reply(Psn(0), Syndrome.RNR | timer, 0)]
    assert replies(responder) == (refused if takes_receive else [Reply(Psn(0), credit_code(0), 1)])
    responder.post_receives(2)
    responder.receive(message)
    assert len(responder.delivered) == 1
    assert responder.receives == 2 - takes_receive


def test_a_send_takes_its_receive_with_the_first_packet_and_a_write_with_the_last() -> None:
    responder = with_region(receives=1)
    responder.receive(Arrival(Opcode.RC_SEND_FIRST, Psn(0), 1, 256))
    assert responder.receives == 0
    assert responder.take_reply() == Reply(Psn(0), credit_code(1), 0), "credits count from the last complete message"
    responder.receive(Arrival(Opcode.RC_SEND_LAST_IMM, Psn(1), 1, 1))
    assert len(responder.delivered) == 1
    responder.receive(Arrival(Opcode.RC_WRITE_FIRST, Psn(2), 1, 256, address=BASE, rkey=RKEY, length=300))
    last = Arrival(Opcode.RC_WRITE_LAST_IMM, Psn(3), 1, 44)
    responder.receive(last)
    assert replies(responder)[-1] == Reply(Psn(3), Syndrome.RNR | 12, 1)
    responder.post_receives(1)
    responder.receive(last)
    assert [delivered.size for delivered in responder.delivered] == [257, 300]


def test_of_messages_that_came_together_as_many_are_taken_as_there_are_receives() -> None:
    responder = with_region(receives=2)
    sends = Arrival(Opcode.RC_SEND_ONLY, Psn(0), 5, 20, ack_request=True)
    responder.receive(sends)
    assert responder.delivered == [Delivered(PacketOperation.SEND, 0, 20, None, 2)]
    assert replies(responder) == [Reply(Psn(2), Syndrome.RNR | 12, 2)]
    responder.receive(replace(sends, psn=Psn(5)))
    assert replies(responder) == [], "what follows is not a sequence error"


@pytest.mark.parametrize(("size", "is_taken"), [(300, True), (301, False)])
def test_a_send_longer_than_its_receive_ends_the_connection(size: int, *, is_taken: bool) -> None:
    responder = with_region(receives=1)
    responder.receive_bytes = 300
    responder.receive(Arrival(Opcode.RC_SEND_FIRST, Psn(0), 1, 256))
    responder.receive(Arrival(Opcode.RC_SEND_LAST, Psn(1), 1, size - 256))
    assert responder.is_broken is not is_taken
    expected = Reply(Psn(1), credit_code(0), 1) if is_taken else Reply(Psn(1), Syndrome.REMOTE_OPERATIONAL, 0)
    assert replies(responder) == [expected]


def test_without_a_receive_its_room_does_not_matter_yet() -> None:
    responder = with_region(receives=0)
    responder.receive_bytes = 8
    send = Arrival(Opcode.RC_SEND_ONLY, Psn(0), 1, 9)
    responder.receive(send)
    assert replies(responder) == [Reply(Psn(0), Syndrome.RNR | 12, 0)]
    responder.post_receives(1)
    responder.receive(send)
    assert replies(responder) == [Reply(Psn(0), Syndrome.REMOTE_OPERATIONAL, 0)]
