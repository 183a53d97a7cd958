"""A queue pair of the packet simulation: sizes on the wire, the window, when acknowledgements are due."""

from __future__ import annotations

import pytest

from emulator.planner.network.packet_flows import Flow, Sending
from emulator.planner.network.packet_links import UnknownTime
from emulator.roce.constants import ACKS_PER_WINDOW, AETH_BYTES, IMMDT_BYTES, RETH_BYTES

SENDING = Sending(path_mtu=1000, message_bytes=3000, window_packets=8, timeout_ns=1_000_000)
HEADERS = 14 + 4 + 8 + 12 + 20 + 8 + 12 + 4
"""Ethernet with FCS, preamble and gap; IPv4; UDP; BTH; ICRC."""


def flow(sending: Sending = SENDING) -> Flow:
    return Flow(sender=0, receiver=1, path=(0, 1), return_path=(3, 2), sending=sending)


def sent(one: Flow, packets: int) -> list[int]:
    """Bytes on the wire of the next packets."""
    return [one.next_packet(0)[1] for _ in range(packets)]


def test_headers_are_those_of_the_wire() -> None:
    assert SENDING.header_bytes == HEADERS
    assert SENDING.ack_bytes == HEADERS + AETH_BYTES
    assert SENDING.clear_to_send_bytes == HEADERS + RETH_BYTES + IMMDT_BYTES
    assert Sending(1000, 3000, 8, 1, ipv6=True).header_bytes == HEADERS + 20


def test_the_first_packet_of_a_message_has_a_reth_and_the_last_of_a_transfer_an_immdt() -> None:
    one = flow()
    one.post(0, 4500)
    assert sent(one, 5) == [
        HEADERS + 1000 + RETH_BYTES,
        HEADERS + 1000,
        HEADERS + 1000,
        HEADERS + 1000 + RETH_BYTES,
        HEADERS + 500 + IMMDT_BYTES,
    ]
    assert not one.has_unsent


def test_a_transfer_of_one_packet_has_both() -> None:
    one = flow()
    one.post(0, 7)
    assert sent(one, 1) == [HEADERS + 7 + RETH_BYTES + IMMDT_BYTES]


def test_the_window_closes_until_an_acknowledgement() -> None:
    one = flow()
    one.post(0, 20_000)
    sent(one, 8)
    assert one.has_unsent
    assert not one.may_send
    one.acknowledge(3, 10)
    assert one.may_send
    sent(one, 3)
    assert not one.may_send


def test_the_receiver_acknowledges_every_part_of_a_window_and_every_message() -> None:
    one = flow(Sending(path_mtu=1000, message_bytes=7000, window_packets=8, timeout_ns=1_000_000))
    one.post(0, 7000)
    numbers = [one.next_packet(0)[0] for _ in range(7)]
    every = 8 // ACKS_PER_WINDOW
    assert [number for number in numbers if one.receive(number)] == [*range(every, 7, every), 7]


def test_the_packet_that_completes_a_transfer_names_its_lane() -> None:
    one = flow()
    one.post(5, 2000)
    one.post(6, 10)
    assert [one.completed_lane(number) for number in (1, 2, 3)] == [None, 5, 6]


def test_a_sender_that_would_have_timed_out_has_no_known_time() -> None:
    one = flow()
    one.post(0, 2000)
    sent(one, 2)
    one.acknowledge(1, 999_999)
    with pytest.raises(UnknownTime):
        one.acknowledge(2, 1_999_999)
