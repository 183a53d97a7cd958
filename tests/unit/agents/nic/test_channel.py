"""What a queue pair does with received packets: replies, deliveries, completions, marks."""

from collections.abc import Iterator, Sequence

import pytest

from agents.nic.channel import Agenda, Channel
from agents.nic.context import Context, make_context
from agents.nic.sockets import Senders
from agents.nic.transmitter import Transmitter
from agents.transports.roce.connection_id import ConnectionId, qp_facts
from emulator.host.clock import Clock
from emulator.roce.connection.messages import Delivered, Message, Reply, Verb
from emulator.roce.connection.qp_facts import packed
from emulator.roce.connection.queue_pair import QueuePair
from emulator.roce.options import RoceOptions
from emulator.roce.wire.framing import Framing
from emulator.roce.wire.icrc import UdpPath
from emulator.roce.wire.opcodes import Opcode
from emulator.roce.wire.psn import Psn, add
from tests.support.virtual_clock import VirtualClock

PORT, PSN, WINDOW = 50_000, Psn(9), 20
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


@pytest.fixture
def context() -> Iterator[Context]:
    clock: Clock = VirtualClock()
    senders = Senders(traffic_class=0)
    yield make_context(options=RoceOptions(), clock=clock, senders=senders, payload_seed=None)
    senders.close()


class End:
    """A channel whose replies and notifications are recorded instead of sent."""

    def __init__(self, context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
        self.context, self.agenda, self.events = context, Agenda(), Events()
        self.replies: list[Reply] = []
        self.notifications = 0
        monkeypatch.setattr(Transmitter, "reply", lambda _, reply: self.replies.append(reply))
        monkeypatch.setattr(Transmitter, "notify", lambda _: self._notify())
        settings = context.options.connection(window_packets=WINDOW, smallest_run=1)
        pair = QueuePair(settings, expect_psn=PSN)
        self.channel = Channel(context, self.agenda, self.events, FACTS, pair)
        path = UdpPath(packed(FACTS.peer_host), packed(FACTS.host), PORT)
        self.framing = Framing(path, FACTS.qpn, context.payload)

    def _notify(self) -> None:
        self.notifications += 1

    def receive(self, packet: bytes, *, is_marked: bool = False) -> None:
        assert self.channel.receive(memoryview(packet), len(packet), PORT, 5, is_marked=is_marked) == ()

    def write(self, psn: int = PSN) -> bytes:
        return bytes(self.framing.write(psn, MESSAGE))


@pytest.fixture
def end(context: Context, monkeypatch: pytest.MonkeyPatch) -> End:
    return End(context, monkeypatch)


def test_a_message_is_delivered_and_the_reply_waits(end: End) -> None:
    end.receive(end.write())
    assert [one.size for one in end.events.delivered_] == [100]
    assert (end.replies, end.agenda.owing, end.channel.owed_since) == ([], [end.channel], 5)
    end.receive(end.write(PSN + 1))
    assert end.agenda.owing == [end.channel]
    end.agenda.reply()
    assert [reply.psn for reply in end.replies] == [PSN + 1]
    assert end.agenda.owing == []


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


def test_single_packets_leave_together_and_are_completed_by_one_ack(end: End, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[Psn, int]] = []
    monkeypatch.setattr(Transmitter, "writes", lambda _, psn, messages: sent.append((psn, len(messages))))
    ready: list[Channel] = []
    messages = [Message(Verb.WRITE_IMM, 100, address=5, imm=1) for _ in range(3)]
    assert all(end.channel.post_single(message, ready, 0) for message in messages)
    assert (ready, sent) == ([end.channel], [])
    end.channel.send_ready()
    assert sent == [(0, 3)]
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


def test_a_refused_send_breaks_the_connection_with_an_explanation(end: End, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(90, "Message too long")

    monkeypatch.setattr(Transmitter, "writes", refuse)
    end.channel.post_single(Message(Verb.WRITE_IMM, 9, 5, 1), [], 0)
    end.channel.send_ready()
    assert end.events.reasons == ["packets of path MTU 4096 do not fit the interface: choose a smaller --path-mtu"]
    assert add(PSN, 0) == PSN
