"""The shortest way of payload: full packets that are exactly those that are due."""

from collections.abc import Callable

import pytest

from agents.transports.roce.channel import Channel
from agents.transports.roce.ends import Ends, packed
from agents.transports.roce.shared import Shared, shared_state
from agents.transports.roce.sockets import Senders
from emulator.host.clock import Clock
from emulator.roce.icrc import UdpPath
from emulator.roce.messages import Delivered, Message
from emulator.roce.opcodes import Opcode
from emulator.roce.options import RoceOptions
from emulator.roce.psn import Psn
from emulator.roce.queue_pair import QueuePair
from emulator.roce.runs import Framing
from tests.support.virtual_clock import VirtualClock

PORT, COUNT, PSN, WINDOW = 50_000, 30, Psn(9), 200
ENDS = Ends(1, "192.0.2.2", 0, "192.0.2.1", 1, 1)


class Nobody:
    """An owner to whom nothing may be told."""

    def delivered(self, index: int, delivered: Delivered, now: int) -> None:
        raise AssertionError

    def arrived(self, index: int, tag: int, size: int, imm: int, now: int, count: int = 1) -> None:
        raise AssertionError

    def completed(self, index: int, messages: list[Message], now: int) -> None:
        raise AssertionError

    def broke(self, reason: str) -> None:
        raise AssertionError


def make_shared(*, verify_every: int = 16, payload_seed: int | None = None, receiver: str = "gbn") -> Shared:
    clock: Clock = VirtualClock()
    options, senders = RoceOptions(verify_every=verify_every, receiver=receiver), Senders(traffic_class=0)
    return shared_state(options=options, clock=clock, senders=senders, seed=0, rkey=0, payload_seed=payload_seed)


def make_channel(shared: Shared, packets: int = 1 << 12) -> Channel:
    """A queue pair that has the FIRST packet of a message of so many; PSN is next."""
    settings = shared.options.connection(window_packets=WINDOW, smallest_run=1)
    channel = Channel(
        shared, Nobody(), ENDS, settings=settings, make=lambda: QueuePair(settings, expect_psn=Psn(PSN - 1))
    )
    assert channel.pair.responder.take_first(0, packets * shared.payload.path_mtu, ack_request=False)
    return channel


def receive(shared: Shared, psn: Psn = PSN, *, ack_request: bool = False, ends: bool = False, first: int = 0) -> None:
    framing = Framing(UdpPath(packed(ENDS.peer_host), packed(ENDS.host), PORT), ENDS.own_qpn, shared.staging)
    framing.middles(Opcode.RC_WRITE_MIDDLE, psn, 0, COUNT, ack_request, ends, are_cut=True)
    run, start = b"".join(shared.staging.pieces(0, COUNT)), first * shared.staging.stride
    shared.buffer[start : start + len(run)] = run


@pytest.fixture(autouse=True)
def replies(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many queue pairs owed a reply, whenever those were to be sent: nothing is."""
    found: list[int] = []
    monkeypatch.setattr(Shared, "reply", lambda shared: found.append(len(shared.owing)))
    return found


@pytest.mark.parametrize("first", [0, 15])
def test_what_is_due_is_taken_where_it_stands(first: int) -> None:
    shared = make_shared()
    channel = make_channel(shared)
    receive(shared, first=first)
    assert channel.take_usual(COUNT, first)
    assert channel.pair.responder.expected == PSN + COUNT
    assert channel.pair.responder.received_bytes == (1 + COUNT) * shared.payload.path_mtu
    assert not channel.take_usual(COUNT, first)


@pytest.mark.parametrize(
    "change",
    [
        lambda shared, _: receive(shared, Psn(PSN + 1)),
        lambda shared, _: receive(shared, ack_request=True),
        lambda shared, _: receive(shared, ends=True),
        lambda shared, _: shared.buffer.__setitem__(shared.staging.stride + 7, 1),
        lambda _, channel: channel.close(),
    ],
    ids=["another PSN", "an acknowledgement is wanted", "the message ends", "another queue pair", "dead"],
)
def test_what_is_special_needs_another_look(change: Callable[[Shared, Channel], None]) -> None:
    shared = make_shared()
    channel = make_channel(shared)
    receive(shared)
    change(shared, channel)
    assert not channel.take_usual(COUNT)
    assert channel.pair.responder.expected == PSN


def test_so_do_packets_beyond_the_message() -> None:
    shared = make_shared()
    channel = make_channel(shared, packets=1 + COUNT)
    receive(shared)
    assert not channel.take_usual(COUNT)
    assert channel.pair.responder.expected == PSN


def test_so_does_random_payload() -> None:
    shared = make_shared(payload_seed=3)
    channel = make_channel(shared)
    receive(shared)
    assert not channel.take_usual(COUNT)


def test_so_does_every_sample() -> None:
    shared = make_shared(verify_every=3)
    channel = make_channel(shared)
    looks = []
    for index in range(7):
        receive(shared, Psn(PSN + index * COUNT))
        looks.append(channel.take_usual(COUNT))
        assert looks[-1] or channel.take_run(shared.staging.stride, COUNT, PORT, 0)
    assert looks == [True, True, False, True, True, False, True]


def test_a_reply_is_sent_after_half_a_window(replies: list[int]) -> None:
    shared = make_shared(verify_every=1 << 20)
    channel = make_channel(shared)
    for index in range(4):
        assert not replies
        receive(shared, Psn(PSN + index * COUNT))
        assert channel.take_usual(COUNT)
    assert replies == [1]
    assert shared.owing == [channel]


def take_wherever(channel: Channel, shared: Shared) -> None:
    """As an endpoint does."""
    if not channel.take_usual(COUNT) and not channel.take_run(shared.staging.stride, COUNT, PORT, 0):
        channel.closer_look.take_many(shared.staging.stride, COUNT, PORT, 0)


@pytest.mark.parametrize("damaged", [0, 3, COUNT - 1])
@pytest.mark.parametrize("verify_every", [1, 3])
def test_a_damaged_packet_that_a_sample_finds_is_dropped_wherever_it_is(verify_every: int, damaged: int) -> None:
    shared = make_shared(verify_every=verify_every)
    channel = make_channel(shared)
    for index in range(verify_every):
        assert channel.drops is None
        receive(shared, Psn(PSN + index * COUNT))
        if index == verify_every - 1:
            shared.buffer[damaged * shared.staging.stride + 500] ^= 1
        take_wherever(channel, shared)
    assert channel.drops == {"icrc" if damaged else "payload": 1}  # of a first one the payload alone is looked at
    assert channel.pair.responder.expected == PSN + (verify_every - 1) * COUNT + damaged
    receive(shared, channel.pair.responder.expected)
    take_wherever(channel, shared)
    assert channel.pair.responder.expected == PSN + verify_every * COUNT + damaged


@pytest.mark.parametrize("psn", [PSN - 4, PSN + 4], ids=["some again", "early"])
@pytest.mark.parametrize("payload_seed", [None, 3], ids=["constant", "random"])
def test_so_is_one_that_is_not_due(psn: int, payload_seed: int | None) -> None:
    shared = make_shared(verify_every=1, payload_seed=payload_seed, receiver="ooo")
    channel = make_channel(shared)
    receive(shared, Psn(psn))
    shared.buffer[20 * shared.staging.stride + 500] ^= 1
    take_wherever(channel, shared)
    assert channel.drops is not None
    assert channel.drops["icrc"]
    responder = channel.pair.responder
    taken = responder.expected - PSN + responder.early_packets
    assert taken <= COUNT - 1
