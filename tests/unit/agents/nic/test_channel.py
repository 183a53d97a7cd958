"""What a queue pair does with received packets: replies, deliveries, completions, marks."""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from agents.nic.channel import Agenda, Channel
from agents.nic.context import Context, make_context
from agents.nic.sockets import Sender, Senders
from agents.transports.roce.endpoint import ConnectionId, qp_facts
from emulator.errors import HostError
from emulator.host.clock import Clock
from emulator.roce.connection.messages import Delivered, Message, Reply, Verb
from emulator.roce.connection.qp_facts import QpFacts, packed
from emulator.roce.connection.queue_pair import QueuePair
from emulator.roce.options import RoceOptions
from emulator.roce.wire.framing import BTH_WORD, Framing
from emulator.roce.wire.icrc import UdpPath
from emulator.roce.wire.opcodes import Opcode
from emulator.roce.wire.psn import Psn
from tests.support.virtual_clock import VirtualClock

PORT, PSN, WINDOW, NOWHERE = 50_000, Psn(9), 20, "192.0.2.9"
FACTS = qp_facts(ConnectionId(1, "192.0.2.2", 0, "192.0.2.1", 1, 1), port_policy="fold", seed=0, rkey=7)
MESSAGE = Message(Verb.WRITE_IMM, 100, address=5, imm=1, rkey=7)


class Events:
    """An owner that records events."""

    def __init__(self) -> None:
        self.delivered_: list[Delivered] = []
        self.completed_: list[Message] = []
        self.reasons: list[str] = []

    def delivered(self, index: int, delivered: Delivered, now: int) -> None:
        self.delivered_.append(delivered)

    def completed(self, index: int, messages: Sequence[Message], now: int) -> None:
        self.completed_ += messages

    def broke(self, reason: str) -> None:
        self.reasons.append(reason)


SENT: list[bytes] = []
"""Packets in the order of calls; those of one call together."""


class RecordingSender(Sender):
    """Opens no socket."""

    def __init__(self, host: str, port: int, **_: object) -> None:
        if host == NOWHERE:
            raise HostError("no socket is left")
        self.is_v6, self.port, self.drops, self.buffer_bytes = ":" in host, port, 0, 1

    def send(self, pieces, to, control=(), *, packets=1) -> bool:  # type: ignore[no-untyped-def]
        SENT.append(b"".join(pieces))
        return True

    def send_whole(self, datagram, to) -> None:  # type: ignore[no-untyped-def]
        SENT.append(bytes(datagram))

    def close(self) -> None:
        pass


@pytest.fixture
def context() -> Iterator[Context]:
    clock: Clock = VirtualClock()
    SENT.clear()
    senders = Senders(traffic_class=0, make=RecordingSender)
    yield make_context(options=RoceOptions(), clock=clock, senders=senders, payload_seed=None)
    senders.close()


class End:
    """A channel; what it sends is recorded."""

    def __init__(self, context: Context, facts: QpFacts = FACTS) -> None:
        self.context, self.agenda, self.events = context, Agenda(), Events()
        settings = context.options.connection(window_packets=WINDOW, smallest_run=1)
        pair = QueuePair(settings, expect_psn=PSN)
        self.channel = Channel(context, self.agenda, self.events, facts, pair)
        path = UdpPath(packed(FACTS.peer_host), packed(FACTS.host), PORT)
        self.framing = Framing(path, FACTS.qpn, context.payload)

    @property
    def replies(self) -> list[Reply]:
        words = [BTH_WORD.unpack_from(packet)[4:] for packet in SENT if packet[0] == Opcode.RC_ACK]
        return [Reply(Psn(psn), aeth >> 24, aeth & 0xFFFFFF) for psn, aeth in words]

    @property
    def notifications(self) -> int:
        return sum(packet[0] == Opcode.CNP for packet in SENT)

    def receive(self, packet: bytes, *, is_marked: bool = False) -> None:
        assert self.channel.receive(memoryview(packet), len(packet), PORT, 5, is_marked=is_marked) == ()

    def receive_merged(self, *packets: bytes) -> None:
        assert not self.channel.receive(memoryview(b"".join(packets)), len(packets[0]), PORT, 5)

    def write(self, psn: int = PSN) -> bytes:
        return bytes(self.framing.write(psn, MESSAGE))


@pytest.fixture
def end(context: Context) -> End:
    return End(context)


def test_a_message_is_delivered_and_the_reply_waits(end: End) -> None:
    end.receive(end.write())
    assert [one.size for one in end.events.delivered_] == [100]
    assert (end.replies, end.agenda.owing, end.channel.owed_since) == ([], [end.channel], 5)
    end.receive(end.write(PSN + 1))
    assert end.agenda.owing == [end.channel]
    end.agenda.reply()
    assert [reply.psn for reply in end.replies] == [PSN + 1]
    assert end.agenda.owing == []


def test_a_message_of_several_packets_is_acknowledged_after_its_delivery(end: End) -> None:
    mtu = end.context.payload.path_mtu
    start = struct.pack(">QII", 0, FACTS.rkey, mtu + 4)
    first = bytes(end.framing.single(Opcode.RC_WRITE_FIRST, PSN, start, mtu, ack_request=False))
    end.receive_merged(first, bytes(end.framing.single(Opcode.RC_WRITE_LAST_IMM, PSN + 1, bytes(4), 4)))
    assert [one.size for one in end.events.delivered_] == [mtu + 4]
    assert [reply.psn for reply in end.replies] == [PSN + 1]


def test_half_a_window_is_acknowledged_at_once(end: End) -> None:
    for index in range(WINDOW // 2):
        assert end.replies == []
        end.receive(end.write(PSN + index))
    assert [reply.psn for reply in end.replies] == [PSN + WINDOW // 2 - 1]


def test_a_gap_causes_a_nak_at_once_with_all_replies_owed(end: End) -> None:
    end.receive(end.write(PSN + 1))
    assert [(reply.psn, reply.syndrome) for reply in end.replies] == [(PSN, 0x60)]


def test_a_connection_that_breaks_is_reported_after_its_nak(end: End) -> None:
    end.receive(bytes(end.framing.single(Opcode.RC_WRITE_LAST, PSN, size=100)))
    assert [reply.syndrome for reply in end.replies] == [0x61]
    assert end.events.reasons == [
        "a packet in order does not continue a message, or the message is longer or shorter than announced"
    ]


def test_a_mark_causes_a_notification_unless_the_packet_is_dropped(end: End) -> None:
    wrong = bytearray(end.write())
    wrong[-1] ^= 1
    wrong[20] ^= 1
    end.receive(bytes(wrong), is_marked=True)
    assert (end.notifications, end.channel.pair.ecn_marks) == (0, 0)
    end.receive(end.write(), is_marked=True)
    assert (end.notifications, end.channel.pair.ecn_marks) == (1, 1)


def test_single_packets_leave_together_and_are_completed_by_one_ack(end: End) -> None:
    ready: list[Channel] = []
    messages = [Message(Verb.WRITE_IMM, 100, address=5, imm=1) for _ in range(3)]
    assert all(end.channel.post_single(message, ready, 0) for message in messages)
    assert (ready, SENT) == ([end.channel], [])
    end.channel.send_ready()
    assert [len(call) for call in SENT] == [3 * len(end.write())]
    assert end.agenda.active == {end.channel}
    assert (end.channel.posted_bytes, end.channel.acknowledged_bytes) == (300, 0)
    end.receive(bytes(end.framing.ack(Reply(Psn(2), 0x1F, 3))))
    assert end.events.completed_ == messages
    assert end.channel.acknowledged_bytes == 300


def test_a_single_packet_waits_behind_a_full_window(end: End) -> None:
    ready: list[Channel] = []
    posted = [end.channel.post_single(Message(Verb.WRITE_IMM, 9, 5, 1), ready, 0) for _ in range(WINDOW + 1)]
    assert posted == [True] * WINDOW + [False]


def test_a_closed_channel_sends_nothing(end: End) -> None:
    end.receive(end.write())
    ready: list[Channel] = []
    end.channel.post_single(Message(Verb.WRITE_IMM, 9, 5, 1), ready, 0)
    end.channel.close()
    end.channel.send_ready()
    end.channel.send(0)
    end.channel.send_more(0, 1)
    end.agenda.reply()
    assert (end.replies, end.agenda.active) == ([], set())


def test_a_refused_send_breaks_the_connection_with_an_explanation(context: Context) -> None:
    end = End(context, replace(FACTS, host=NOWHERE))
    end.channel.post_single(Message(Verb.WRITE_IMM, 9, 5, 1), [], 0)
    end.channel.send_ready()
    assert end.events.reasons == ["no socket is left"]
