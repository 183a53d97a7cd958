"""Messages of the communication manager: those of Linux, and our own."""

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from agents.annexes.peer.cm import (
    MAD_BYTES,
    Drep,
    Dreq,
    Message,
    Mra,
    Rej,
    RejectReason,
    Rep,
    Req,
    Rtu,
    SidrRep,
    SidrReq,
    of_datagrams,
    pack_ip_cm,
    pack_mad,
    parse_mad,
    service_id,
)
from emulator.errors import ProtocolError
from emulator.roce.connection.qp_facts import address_of_gid, gid_of

CAPTURE = Path(__file__).parents[4] / "data" / "rdma_cm" / "rping.pcap"
HEADERS = 14 + 20 + 8 + 12 + 8  # Ethernet, IPv4, UDP, BTH, DETH


def linux_mads() -> list[bytes]:
    """The management datagrams of the capture, in order."""
    data, at, found = CAPTURE.read_bytes(), 24, []
    while at < len(data):
        (length,) = struct.unpack_from("<8xI", data, at)
        frame = data[at + 16 : at + 16 + length]
        at += 16 + length
        if frame[42] == 0x64:
            found.append(frame[HEADERS : HEADERS + MAD_BYTES])
    return found


def test_a_connection_of_linux_is_read() -> None:
    messages = [parse_mad(mad)[0] for mad in linux_mads()]
    kinds = [type(message) for message in messages]
    assert kinds == [Req, Rep, Rtu, Dreq, Drep, Req, Rej]
    request, reply, ready, disconnect, _, other, rejection = messages
    assert isinstance(request, Req)
    assert isinstance(reply, Rep)
    assert isinstance(disconnect, Dreq)
    assert isinstance(other, Req)
    assert isinstance(rejection, Rej)
    assert request.service_id == service_id(7174)
    assert (address_of_gid(request.gid), address_of_gid(request.peer_gid)) == ("10.99.0.2", "10.99.0.3")
    assert (request.qpn, reply.qpn) == (0x18, 0x11)
    assert request.path_mtu == 4096
    assert (request.responder_resources, request.initiator_depth) == (1, 1)
    assert reply.remote_id == request.local_id
    assert (ready.local_id, ready.remote_id) == (request.local_id, reply.local_id)  # type: ignore[union-attr]
    assert disconnect.remote_qpn == reply.qpn
    assert other.service_id == service_id(9999)
    assert (rejection.remote_id, rejection.reason) == (other.local_id, RejectReason.INVALID_SERVICE_ID)


def test_the_request_of_linux_begins_its_private_data_with_our_header() -> None:
    request = parse_mad(linux_mads()[0])[0]
    assert isinstance(request, Req)
    source_port = int.from_bytes(request.private[2:4])
    header = pack_ip_cm("10.99.0.2", "10.99.0.3", source_port)
    assert request.private[: len(header)] == header


MESSAGES = [
    Req(
        local_id=1, service_id=service_id(7174), guid=1 << 63, qpn=0xABCDE, psn=0xFFFFFF, responder_resources=16,
        initiator_depth=4, path_mtu=1024, gid=gid_of("192.0.2.1"), peer_gid=gid_of("fd99::2"), retry_count=7,
        rnr_retry_count=3, ack_timeout=18, response_timeout=21, private=bytes(range(92)),
    ),
    Rep(
        local_id=2, remote_id=1, guid=5, qpn=0x123456, psn=0xFEDCBA, responder_resources=3, initiator_depth=255,
        rnr_retry_count=5, private=bytes(196),
    ),
    Rtu(local_id=1, remote_id=2),
    Mra(local_id=1, remote_id=2),
    Dreq(local_id=1, remote_id=2, remote_qpn=0x123456),
    Drep(local_id=2, remote_id=1),
    Rej(local_id=2, remote_id=1, rejected=1, reason=28),
    SidrReq(request_id=7, service_id=of_datagrams(service_id(18515))),
]  # fmt: skip


def test_a_request_names_its_transport_service_in_two_bits() -> None:
    request = MESSAGES[0]
    assert isinstance(request, Req)
    reliable, unreliable = pack_mad(request, 0), pack_mad(replace(request, service=1), 0)
    assert (reliable[24 + 43], unreliable[24 + 43]) == (21 << 3, 21 << 3 | 1 << 1)
    assert parse_mad(unreliable)[0] == replace(request, service=1)


def test_datagrams_have_a_port_space_of_their_own() -> None:
    assert of_datagrams(service_id(18515)) == 0x0111_4853
    assert pack_mad(SidrRep(request_id=7, status=1), 0)[24:30] == bytes.fromhex("00000007 01 00")


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_is_read_as_it_was_written(message: Message) -> None:
    mad = pack_mad(message, 1 << 60)
    assert len(mad) == MAD_BYTES
    assert parse_mad(mad) == (message, 1 << 60)


@pytest.mark.parametrize(
    ("place", "value", "reason"),
    [
        (1, 3, "class 0x3"),
        (2, 1, "version 1"),
        (3, 0x81, "method 0x81"),
        (17, 0x19, "attribute 0x19"),
        (24 + 50, 0xF0, "path MTU code 15"),
        (24 + 50, 0x00, "path MTU code 0"),
    ],
)
def test_what_is_not_a_message_is_refused_with_what_it_is(place: int, value: int, reason: str) -> None:
    mad = bytearray(pack_mad(MESSAGES[0], 0))
    mad[place] = value
    with pytest.raises(ProtocolError, match=reason):
        parse_mad(bytes(mad))


@pytest.mark.parametrize("size", [0, 24, 255, 257])
def test_a_datagram_of_another_length_is_refused(size: int) -> None:
    with pytest.raises(ProtocolError, match=f"has {size} bytes, not 256"):
        parse_mad(bytes(size))
