"""Receptions read one or several at a time, over real sockets."""

import socket
import struct
import time
from collections.abc import Iterator

import pytest

from agents.nic.reader import ControlFacts, ReceiveBatch, SocketReader, read_control, socket_name
from agents.nic.stamps import Stamps, stamp_ns
from agents.nic.system_calls import (
    IPV6_TCLASS,
    SO_RXQ_OVFL,
    SO_TIMESTAMPNS,
    UDP_GRO,
    SocketAddress,
    cut_message,
    socket_address,
)
from emulator.roce.tuning import LARGEST_RECEPTION_BYTES
from tests.support.command import wait_for

STRIDE, PER_CALL, MOST = 100, 4, 5
CALL = STRIDE * PER_CALL
ETH_P_ALL, SO_MEMINFO = 3, 55
Ends = tuple[socket.socket, socket.socket, socket.socket]


@pytest.fixture(params=["127.77.4.1", "::1"])
def ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    """One socket that receives and two that send to it."""
    family = socket.AF_INET6 if ":" in request.param else socket.AF_INET
    with (
        socket.socket(family, socket.SOCK_DGRAM) as receiver,
        socket.socket(family, socket.SOCK_DGRAM) as one,
        socket.socket(family, socket.SOCK_DGRAM) as other,
    ):
        for each in (receiver, one, other):
            try:
                each.bind((request.param, 0))
            except OSError as error:
                pytest.skip(f"{request.param}: {error.strerror}")
        receiver.setblocking(False)
        receiver.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
        yield receiver, one, other


@pytest.fixture
def buffer() -> bytearray:
    return bytearray(MOST * CALL + LARGEST_RECEPTION_BYTES)


@pytest.fixture(params=[False, True], ids=["reader", "kernel"])
def batch(request: pytest.FixtureRequest, ends: Ends, buffer: bytearray) -> ReceiveBatch:
    """Of sockets without and with time stamps of the kernel."""
    ends[0].setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, request.param)
    is_v6, has_stamps = ends[0].family == socket.AF_INET6, request.param
    return ReceiveBatch(
        memoryview(buffer), stride=STRIDE, per_call=PER_CALL, most=MOST, is_v6=is_v6, has_stamps=has_stamps
    )


@pytest.fixture
def reader(ends: Ends, buffer: bytearray, batch: ReceiveBatch) -> SocketReader:
    """A reader that expects full calls of the first sender."""
    reader = SocketReader(ends[0], memoryview(buffer), batch)
    send(ends[1], ends, PER_CALL, b"x")
    ((packets, stride, _, _, _),) = reader.read() or ()
    assert (bytes(packets), stride) == (b"x" * CALL, STRIDE)
    reader.expect(MOST)
    return reader


def send(sender: socket.socket, ends: Ends, packets: int, letter: bytes, stride: int = STRIDE) -> bytes:
    """Send, and wait until it has come: on a busy machine the kernel delivers after the call."""
    content, before = letter * (packets * stride), queued_bytes(ends[0])
    control = cut_message(stride) if packets > 1 else ()
    sender.sendmsg((content,), control, 0, ends[0].getsockname())
    wait_for(lambda: queued_bytes(ends[0]) > before or None)
    return content


def queued_bytes(receiver: socket.socket) -> int:
    """What waits in a socket, with what the kernel needs for it (SK_MEMINFO_RMEM_ALLOC of linux/sock_diag.h)."""
    (queued,) = struct.unpack_from("=I", receiver.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 64))
    return int(queued)


def read(reader: SocketReader) -> list[tuple[bytes, int, SocketAddress]]:
    return [(bytes(packets), stride, sender) for packets, stride, sender, _, _ in reader.read() or ()]


def test_full_calls_of_one_sender_are_one_reception(ends: Ends, reader: SocketReader) -> None:
    sender = ends[1].getsockname()
    for packets in (PER_CALL, PER_CALL - 1):
        sent = b"".join(send(ends[1], ends, count, letter) for count, letter in ((4, b"a"), (4, b"b"), (packets, b"c")))
        assert read(reader) == [(sent, STRIDE, sender)]
        assert reader.is_drained
    assert reader.read() is None


def test_only_the_expected_number_of_calls_is_read_at_once(ends: Ends, reader: SocketReader) -> None:
    reader.expect(3)
    for _ in range(4):
        send(ends[1], ends, PER_CALL, b"a")
    assert [len(packets) for packets, _, _ in read(reader)] == [3 * CALL]
    assert not reader.is_drained
    assert [len(packets) for packets, _, _ in read(reader)] == [CALL]
    assert reader.is_drained
    assert reader.read() is None


@pytest.mark.parametrize("place", [0, 1, 2, 3])
@pytest.mark.parametrize(
    "kind", ["another sender", "one packet", "packets of another length", "a short packet", "shorter"]
)
def test_calls_that_differ_are_separate_receptions(ends: Ends, reader: SocketReader, kind: str, place: int) -> None:
    sent, stride, origin = [], STRIDE, ends[1].getsockname()
    for index in range(4):
        if index != place:
            sent.append(send(ends[1], ends, PER_CALL, b"%d" % index))
        elif kind == "another sender":
            sent.append(send(ends[2], ends, PER_CALL, b"o"))
            origin = ends[2].getsockname()
        elif kind == "one packet":
            sent.append(send(ends[1], ends, 1, b"o"))
        elif kind == "packets of another length":
            stride = STRIDE // 2
            sent.append(send(ends[1], ends, 2 * PER_CALL, b"o", stride))
        elif kind == "a short packet":
            ends[1].sendmsg((b"o" * 250,), cut_message(STRIDE), 0, ends[0].getsockname())
            sent.append(b"o" * 250)
        else:
            sent.append(send(ends[1], ends, 2, b"o"))
    usual, rest = ends[1].getsockname(), b"".join(sent[place + 1 :])
    before = b"".join(sent[: place + (kind == "shorter")])
    expected = [(before, STRIDE, usual)] if before else []
    expected += [(sent[place], stride, origin)] if kind != "shorter" else []
    expected += [(rest, STRIDE, usual)] if rest else []
    assert read(reader) == expected


def test_a_call_larger_than_a_piece_is_received_in_full(ends: Ends, reader: SocketReader) -> None:
    sent = [send(ends[1], ends, count, letter) for count, letter in ((4, b"a"), (9, b"b"), (4, b"c"), (50, b"d"))]
    assert [packets for packets, _, _ in read(reader)] == sent


def test_full_calls_of_another_sender_are_a_separate_reception(ends: Ends, reader: SocketReader) -> None:
    sent = [send(ends[one], ends, PER_CALL, letter) for one, letter in ((1, b"a"), (1, b"b"), (2, b"c"), (2, b"d"))]
    assert [packets for packets, _, _ in read(reader)] == [sent[0] + sent[1], sent[2] + sent[3]]


def test_single_packets_end_reading_several_calls_at_once(ends: Ends, reader: SocketReader) -> None:
    for _ in range(3):
        send(ends[2], ends, 1, b"o")
    assert len(read(reader)) == 3
    assert not reader.is_drained
    for _ in range(2):
        send(ends[1], ends, PER_CALL, b"a")
    assert [len(packets) for packets, _, _ in read(reader)] == [CALL]


def test_an_error_of_the_socket_is_not_a_reception(ends: Ends, reader: SocketReader, batch: ReceiveBatch) -> None:
    ends[0].connect((ends[0].getsockname()[0], 9))
    ends[0].send(b"nobody listens there")
    assert batch.receive(ends[0].fileno(), MOST) == []
    ends[0].connect(ends[1].getsockname())
    send(ends[1], ends, PER_CALL, b"a")
    assert len(read(reader)) == 1


def test_a_single_read_survives_an_error_of_the_socket(ends: Ends, buffer: bytearray, batch: ReceiveBatch) -> None:
    reader = SocketReader(ends[0], memoryview(buffer), batch)
    assert reader.read() is None
    ends[0].connect((ends[0].getsockname()[0], 9))
    ends[0].send(b"nobody listens there")
    assert reader.read() == ()
    assert reader.read() is None


def test_marks_and_drops_are_read_from_control_messages() -> None:
    integer = struct.Struct("=i").pack
    for traffic_class in ((socket.IPPROTO_IP, socket.IP_TOS), (socket.IPPROTO_IPV6, IPV6_TCLASS)):
        assert read_control(((*traffic_class, integer(3)),)) == ControlFacts(is_marked=True)
        assert read_control(((*traffic_class, integer(2)),)) == ControlFacts()
    drops = (socket.SOL_SOCKET, SO_RXQ_OVFL, integer(77))
    assert read_control(((socket.IPPROTO_UDP, UDP_GRO, integer(1040)), drops)) == ControlFacts(1040, False, 77)


def test_a_sender_keeps_its_scope() -> None:
    link_local = ("fe80::1", 4791, 7, 3)
    assert socket_name(socket_address(*link_local)) == link_local
    assert socket_name(socket_address("192.0.2.1", 4791)) == ("192.0.2.1", 4791)


def test_every_reception_has_the_time_when_the_last_of_it_came(
    ends: Ends, reader: SocketReader, batch: ReceiveBatch
) -> None:
    reader.read()  # one by one until a call is full
    begun_ns = time.monotonic_ns()
    send(ends[1], ends, PER_CALL, b"a")
    between_ns = time.monotonic_ns()
    send(ends[1], ends, PER_CALL, b"b")
    send(ends[2], ends, 1, b"c")
    ended_ns = time.monotonic_ns()
    found = []
    for _ in range(3):
        found += [stamp for *_, stamp in reader.read() or ()]
    send(ends[2], ends, 1, b"d")
    single_ns = time.monotonic_ns()
    ((*_, last),) = reader.read() or ()
    if not batch.has_stamps:
        assert {*found, last} == {b""}
        return
    stamps = Stamps()
    first_ns, *_, end_ns, last_ns = (stamps.monotonic(stamp_ns(stamp)) for stamp in (*found, last))
    assert between_ns <= first_ns <= end_ns <= ended_ns, begun_ns  # the first two calls are one reception
    assert ended_ns <= last_ns <= single_ns


def stamps_on_arrival(ends: Ends, batch: ReceiveBatch) -> bool:
    """Whether the kernel stamps on arrival already.

    It begins a little after the first socket asked for it (net_enable_timestamp defers to a worker); until then each
    socket stamps when it is read.
    """
    send(ends[1], ends, 1, b"w")
    sent_ns = time.time_ns()
    assert batch.receive(ends[0].fileno(), 1) == [STRIDE]
    return stamp_ns(batch.stamp(0)) <= sent_ns


@pytest.mark.parametrize("batch", [True], indirect=True)
def test_the_time_stamp_is_the_one_that_a_capture_on_the_interface_has(ends: Ends, batch: ReceiveBatch) -> None:
    port = ends[0].getsockname()[1]
    try:
        capture = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
    except PermissionError:
        pytest.skip("capturing needs root")
    with capture:
        capture.bind(("lo", 0))
        capture.settimeout(60)
        capture.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE: it sees what other tests send, too
        capture.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        wait_for(lambda: stamps_on_arrival(ends, batch) or None)
        for _ in range(20):
            send(ends[1], ends, 1, b"x")
            assert batch.receive(ends[0].fileno(), 1) == [STRIDE]
            while True:  # other traffic of this host, and the same datagram as it leaves
                packet, control, _, sender = capture.recvmsg(1 << 16, 512)
                if (
                    sender[2] == socket.PACKET_HOST
                    and packet[-STRIDE:] == b"x" * STRIDE
                    and struct.pack(">H", port) in packet
                ):
                    break
            assert control[0][2] == batch.stamp(0)
