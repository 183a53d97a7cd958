"""Calls that the kernel cuts, over real sockets."""

import socket
from collections.abc import Iterator
from random import Random

import pytest

from agents.transports.roce.batch import Batch
from agents.transports.roce.sockets import Sender

STRIDE = 1040
CALL_BYTES = 4 * STRIDE


@pytest.fixture(params=["127.77.3.1", "::1"])
def host(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def receiver(host: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            one.bind((host, 0))
        except OSError as error:
            pytest.skip(f"{host}: {error.strerror}")
        one.setblocking(False)
        yield one


def datagrams(receiver: socket.socket) -> list[bytes]:
    found = []
    while True:
        try:
            found.append(receiver.recv(1 << 16))
        except BlockingIOError:  # over loopback all is there once it is sent
            return found


def send(host: str, receiver: socket.socket, size: int) -> tuple[bytes, list[bytes]]:
    """Bytes that were sent, datagrams that came."""
    data = bytearray(Random(size).randbytes(size))
    sender = Sender(host, 0, traffic_class=0)
    sender.send_cut(memoryview(data), (host, receiver.getsockname()[1]), call_bytes=CALL_BYTES, stride=STRIDE)
    sender.close()
    assert sender.drops == 0
    return bytes(data), datagrams(receiver)


@pytest.mark.parametrize("calls", [1, 1.25, 2, 4.75, 9, 9.5, 20.3])
def test_what_is_handed_over_together_is_cut_as_calls_are(host: str, receiver: socket.socket, calls: float) -> None:
    sent, received = send(host, receiver, round(calls * CALL_BYTES))
    assert b"".join(received) == sent
    assert all(len(datagram) == STRIDE for datagram in received[:-1])
    assert 0 < len(received[-1]) <= STRIDE


@pytest.mark.parametrize("taken", [0, 1, 3])
def test_calls_that_the_kernel_does_not_take_go_alone(
    host: str, receiver: socket.socket, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Batch.send
    monkeypatch.setattr(
        Batch, "send", lambda self, fd, view: whole(self, fd, view[: taken * CALL_BYTES]) if taken else 0
    )
    sent, received = send(host, receiver, 11 * CALL_BYTES + 100)
    assert b"".join(received) == sent


def test_a_call_that_can_never_go_says_why(host: str, receiver: socket.socket) -> None:
    sender = Sender(host, 0, traffic_class=0)
    data = memoryview(bytearray(3 * 70_000))
    with pytest.raises(OSError, match=r"Message too long|Invalid argument"):
        sender.send_cut(data, (host, receiver.getsockname()[1]), call_bytes=70_000, stride=35_000)
    sender.close()
    assert datagrams(receiver) == []
