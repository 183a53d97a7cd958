"""Calls that the kernel cuts, over real sockets."""

import contextlib
import socket
import time
from collections.abc import Iterator, Sequence
from random import Random

import pytest

from agents.nic.sockets import Sender
from agents.nic.stamps import SendLog, StampedSender
from agents.nic.system_calls import SendBatch, cut_message
from emulator.roce.connection.messages import FirstSent
from emulator.roce.wire.payload import Payload, Staging


@pytest.fixture(params=[(1024, None), (4096, None), (4096, 7)], ids=["on end", "payload once", "random"])
def staging(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Staging:
    """Packets with different headers and ICRCs, four per call."""
    monkeypatch.setattr("emulator.roce.wire.payload.MOST_SEGMENTS", 4)
    path_mtu, seed = request.param
    staging, random = Staging(Payload(path_mtu=path_mtu, seed=seed)), Random(path_mtu)
    for slot in range(staging.slots):
        header, icrc = random.getrandbits(64), random.getrandbits(32)
        staging.columns.starts[slot], staging.columns.icrcs[slot] = header, icrc
    return staging


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


def packets(staging: Staging, slot: int, count: int) -> Sequence[bytes]:
    return [b"".join(staging.pieces(one, 1)) for one in range(slot, slot + count)]


def send(host: str, receiver: socket.socket, staging: Staging, count: int) -> tuple[Sequence[bytes], Sequence[bytes]]:
    """The packets sent, and the datagrams received."""
    sender, batch = Sender(host, 0, traffic_class=0), SendBatch(staging, is_v6=":" in host)
    sender.send_cut(batch, 0, count, (host, receiver.getsockname()[1]))
    sender.close()
    assert sender.drops == 0
    return packets(staging, 0, count), datagrams(receiver)


@pytest.mark.parametrize("calls", [1, 1.25, 2, 4.75, 5.5, 6])
def test_packets_sent_together_are_cut_like_calls(
    host: str, receiver: socket.socket, staging: Staging, calls: float
) -> None:
    sent, received = send(host, receiver, staging, round(calls * staging.payload.per_call))
    assert received == sent
    assert len(set(received)) == len(received)


def test_one_batch_sends_runs_of_all_lengths_from_any_slot_to_any_address(
    host: str, receiver: socket.socket, staging: Staging
) -> None:
    sender, batch = Sender(host, 0, traffic_class=0), SendBatch(staging, is_v6=":" in host)
    to, nowhere = (host, receiver.getsockname()[1]), (host, 9)
    per_call = staging.payload.per_call
    for slot, count in (
        (0, per_call + 2),
        (0, 3),
        (0, per_call),
        (4, 2 * per_call + 1),
        (0, 1),
        (staging.slots - 2, 2),
    ):
        sender.send_cut(batch, 0, 5, nowhere)
        sender.send_cut(batch, slot, count, to)
        assert datagrams(receiver) == packets(staging, slot, count)
    sender.close()


@pytest.mark.parametrize("taken", [0, 1, 3])
def test_calls_that_the_kernel_refuses_are_sent_alone(
    host: str, receiver: socket.socket, staging: Staging, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, per_call = SendBatch.send, staging.payload.per_call
    monkeypatch.setattr(
        SendBatch,
        "send",
        lambda self, fd, name, slot, count: whole(self, fd, name, slot, min(count, taken * per_call)) if taken else 0,
    )
    sent, received = send(host, receiver, staging, 5 * per_call + 2)
    assert received == sent


@pytest.mark.parametrize("path_mtu", [1024, 4096])
def test_a_call_that_can_never_be_sent_reports_why(host: str, receiver: socket.socket, path_mtu: int) -> None:
    staging, to = Staging(Payload(path_mtu=path_mtu)), (host, receiver.getsockname()[1])
    staging.payload.per_call *= 2  # more bytes than a call can have
    sender = Sender(host, 0, traffic_class=0)
    with contextlib.closing(sender), pytest.raises(OSError, match=r"Message too long|Invalid argument"):
        sender.send_cut(SendBatch(staging, is_v6=":" in host), 0, staging.payload.per_call, to)
    assert datagrams(receiver) == []


def test_first_packets_that_are_stamped_arrive_as_they_are_and_say_when_they_left(
    host: str, receiver: socket.socket, staging: Staging
) -> None:
    log = SendLog()
    sender = StampedSender(host, 0, traffic_class=0, log=log)
    to, sent, brackets = (host, receiver.getsockname()[1]), [FirstSent() for _ in range(200)], []
    for number, one in enumerate(sent):
        begun = time.monotonic_ns()
        assert sender.send_first((b"%d" % number,), to, [one])
        sender.send_whole(b"not asked", to)
        brackets.append((begun, time.monotonic_ns()))
        assert datagrams(receiver) == [b"%d" % number, b"not asked"]
    log.collect()
    sender.close()
    slack_ns = 50_000
    assert all(
        begun - slack_ns <= one.at_ns <= ended + slack_ns for one, (begun, ended) in zip(sent, brackets, strict=True)
    )
    assert len(log.delays.delays_ns()) == 200
    assert log.facts()["send_delay_median"].unit == "ns"


def test_a_call_that_the_kernel_cuts_has_one_stamp_for_all_of_its_messages(
    host: str, receiver: socket.socket, staging: Staging
) -> None:
    log, sent = SendLog(), [FirstSent(), FirstSent()]
    sender = StampedSender(host, 0, traffic_class=0, log=log)
    to = (host, receiver.getsockname()[1])
    sender.send_first((b"onetwo",), to, sent, cut_message(3), packets=2)
    log.collect()
    sender.close()
    assert datagrams(receiver) == [b"one", b"two"]
    assert sent[0].at_ns == sent[1].at_ns > 0


def test_after_a_call_that_fails_stamps_belong_to_the_right_calls(
    host: str, receiver: socket.socket, staging: Staging
) -> None:
    log, to = SendLog(), (host, receiver.getsockname()[1])
    sender = StampedSender(host, 0, traffic_class=0, log=log)
    before, failed, after = FirstSent(), FirstSent(), FirstSent()
    sender.send_first((b"before",), to, [before])
    with pytest.raises(OSError, match="Message too long"):
        sender.send_first((bytes(1 << 17),), to, [failed])
    begun = time.monotonic_ns()
    sender.send_first((b"after",), to, [after])
    log.collect()
    sender.close()
    assert failed.at_ns == 0
    assert after.at_ns >= begun - 50_000
