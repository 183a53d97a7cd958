"""Several receptions at once, over real sockets."""

import socket
from collections.abc import Iterator

import pytest

from agents.transports.roce.receptions import CONTROL_BYTES, LARGEST_BYTES, Receptions, _read_name
from agents.transports.roce.system_calls import UDP_GRO, SocketAddress, cut_message, socket_address

STRIDE, PER_CALL, MOST = 100, 4, 5
CALL = STRIDE * PER_CALL
Ends = tuple[socket.socket, socket.socket, socket.socket]


@pytest.fixture(params=["127.77.4.1", "::1"])
def ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    """One that receives and two that send to it."""
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
    return bytearray(MOST * CALL + LARGEST_BYTES)


@pytest.fixture
def receptions(ends: Ends, buffer: bytearray) -> Receptions:
    is_v6 = ends[0].family == socket.AF_INET6
    return Receptions(memoryview(buffer), stride=STRIDE, per_call=PER_CALL, most=MOST, is_v6=is_v6)


def send(sender: socket.socket, ends: Ends, packets: int, letter: bytes, stride: int = STRIDE) -> bytes:
    content = letter * (packets * stride)
    control = cut_message(stride) if packets > 1 else ()
    sender.sendmsg((content,), control, 0, ends[0].getsockname())
    return content


def usual(ends: Ends) -> tuple[list[tuple[int, int, bytes]], SocketAddress]:
    """Control messages and sender of a full call, as Python's own way of receiving says them."""
    send(ends[1], ends, PER_CALL, b"x")
    _, control, _, sender = ends[0].recvmsg(LARGEST_BYTES, CONTROL_BYTES)
    return control, sender


def test_full_calls_stand_on_end_and_are_known_as_alike(ends: Ends, receptions: Receptions, buffer: bytearray) -> None:
    control, sender = usual(ends)
    for packets in (PER_CALL, PER_CALL - 1):
        sent = b"".join(send(ends[1], ends, count, letter) for count, letter in ((4, b"a"), (4, b"b"), (packets, b"c")))
        assert receptions.take(ends[0].fileno(), MOST) == 3
        expected = receptions.expected(sender, control)
        assert receptions.all_alike(3, expected) == len(sent)
        assert receptions.alike(0, 3, expected) == (3, len(sent))
        assert [receptions.size(index) for index in range(3)] == [CALL, CALL, packets * STRIDE]
        assert buffer[: len(sent)] == sent
    assert receptions.take(ends[0].fileno(), MOST) == 0


def test_as_many_are_taken_as_are_asked_for(ends: Ends, receptions: Receptions) -> None:
    for _ in range(4):
        send(ends[1], ends, PER_CALL, b"a")
    assert [receptions.take(ends[0].fileno(), 3) for _ in range(3)] == [3, 1, 0]


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize(
    "kind", ["another sender", "one packet", "packets of another length", "a short packet", "shorter"]
)
def test_what_differs_ends_what_is_alike(
    ends: Ends, receptions: Receptions, buffer: bytearray, kind: str, place: int
) -> None:
    control, sender = usual(ends)
    sent = []
    for index in range(4):
        if index != place:
            sent.append(send(ends[1], ends, PER_CALL, b"%d" % index))
        elif kind == "another sender":
            sent.append(send(ends[2], ends, PER_CALL, b"o"))
        elif kind == "one packet":
            sent.append(send(ends[1], ends, 1, b"o"))
        elif kind == "packets of another length":
            sent.append(send(ends[1], ends, 2 * PER_CALL, b"o", STRIDE // 2))
        elif kind == "a short packet":
            ends[1].sendmsg((b"o" * 250,), cut_message(STRIDE), 0, ends[0].getsockname())
            sent.append(b"o" * 250)
        else:
            sent.append(send(ends[1], ends, 2, b"o"))
    assert receptions.take(ends[0].fileno(), MOST) == 4
    before, expected = place + (kind == "shorter"), receptions.expected(sender, control)
    assert receptions.all_alike(4, expected) == 0
    assert receptions.alike(0, 4, expected) == (before, sum(map(len, sent[:before])))
    assert receptions.alike(place + 1, 4, expected) == (3 - place, (3 - place) * CALL)
    assert [receptions.content(index) for index in range(4)] == sent
    assert receptions.size(place) == len(sent[place])
    origin = ends[2 if kind == "another sender" else 1].getsockname()
    assert receptions.sender(place) == origin
    if kind == "one packet":
        assert all(level != socket.IPPROTO_UDP for level, _, _ in receptions.control(place))
    receptions.move(place + 1, (3 - place) * CALL)
    assert buffer[: (3 - place) * CALL] == b"".join(sent[place + 1 :])


def test_what_is_larger_than_a_piece_is_whole(ends: Ends, receptions: Receptions) -> None:
    control, sender = usual(ends)
    sent = [send(ends[1], ends, count, letter) for count, letter in ((4, b"a"), (9, b"b"), (4, b"c"), (50, b"d"))]
    assert receptions.take(ends[0].fileno(), MOST) == 4
    expected = receptions.expected(sender, control)
    assert receptions.all_alike(4, expected) == 0
    assert receptions.alike(0, 4, expected) == (1, CALL)
    assert receptions.is_any_beyond(4)
    assert not receptions.is_any_beyond(1)
    assert [receptions.content(index) for index in range(4)] == sent
    assert receptions.control(1) == control


def test_an_error_of_the_socket_is_nothing_that_came(ends: Ends, receptions: Receptions) -> None:
    ends[0].connect((ends[0].getsockname()[0], 9))
    ends[0].send(b"nobody listens there")
    assert receptions.take(ends[0].fileno(), MOST) == 0
    ends[0].connect(ends[1].getsockname())
    send(ends[1], ends, PER_CALL, b"a")
    assert receptions.take(ends[0].fileno(), MOST) == 1


def test_a_sender_keeps_its_scope() -> None:
    link_local = ("fe80::1", 4791, 7, 3)
    assert _read_name(socket_address(*link_local)) == link_local
    assert _read_name(socket_address("192.0.2.1", 4791)) == ("192.0.2.1", 4791)
