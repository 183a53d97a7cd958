"""What a queue pair sends, as calls that the kernel cuts: each packet has the ICRC of its place in its call."""

import struct
from collections.abc import Iterator, Sequence

import pytest

from agents.nic.context import make_context
from agents.nic.sockets import Senders
from agents.nic.system_calls import ControlMessages, SocketAddress
from agents.nic.transmitter import Transmitter
from emulator.roce.connection.messages import FirstSent, Message, PacketRun, Verb
from emulator.roce.connection.qp_facts import QpFacts, packed
from emulator.roce.constants import ICRC_BYTES
from emulator.roce.options import RoceOptions
from emulator.roce.wire.headers import Bth, Buffer
from emulator.roce.wire.icrc import UdpPath, icrc
from emulator.roce.wire.psn import PSN_SPACE, Psn, add
from tests.support.senders import FakeSender
from tests.support.virtual_clock import VirtualClock

MTU, PORT, PSN, QPN = 1024, 50_000, Psn(PSN_SPACE - 1), 21


def calls(message: Message, *, is_v6: bool, is_cutting: bool) -> list[list[bytes]]:
    """The packets of every call that sends a message of two packets; every ICRC is right, PSNs count up."""
    here, there = ("2001:db8::1", "2001:db8::2") if is_v6 else ("127.0.0.1", "127.0.0.2")
    senders = Senders(traffic_class=0, make=FakeSender)
    context = make_context(options=RoceOptions(path_mtu=MTU), clock=VirtualClock(), senders=senders, payload_seed=7)
    context.is_cutting = is_cutting
    facts = QpFacts(
        host=here, peer_host=there, qpn=20, peer_qpn=QPN, psn=PSN, peer_psn=Psn(0), rkey=7, source_ports=(PORT,)
    )
    message.packets = 2
    Transmitter(context, facts).send_run(PacketRun(message, PSN, 0, 2, True, False))
    sender = senders.get(here, PORT)
    assert isinstance(sender, FakeSender)
    path = UdpPath(packed(here), packed(there), PORT)
    found = [list(packets(whole, stride)) for whole, stride, _ in sender.calls]
    for one in found:
        for ip_id, packet in enumerate(one):
            (received,) = struct.unpack("<I", packet[-ICRC_BYTES:])
            assert received == icrc(path, packet[:-ICRC_BYTES], ip_id=0 if is_v6 else ip_id)
    assert [Bth.unpack(packet).psn for one in found for packet in one] == [PSN, add(PSN, 1)]
    return found


def packets(whole: bytes, stride: int) -> Iterator[bytes]:
    yield from (whole[start : start + stride] for start in range(0, len(whole), stride))


@pytest.mark.parametrize("is_v6", [False, True])
@pytest.mark.parametrize("size", [MTU + 1, 2 * MTU])
@pytest.mark.parametrize("verb", [Verb.WRITE, Verb.WRITE_IMM, Verb.SEND])
def test_a_message_of_two_packets_is_one_call(verb: Verb, size: int, *, is_v6: bool) -> None:
    message = Message(verb, size, 1 << 40, 9, 7)
    assert [len(one) for one in calls(message, is_v6=is_v6, is_cutting=True)] == [2]


@pytest.mark.parametrize(
    ("verb", "is_cutting"),
    [
        (Verb.WRITE_IMM, False),
        (Verb.SEND, False),
        (Verb.SEND_IMM, True),
    ],  # its immediate data makes the last one longer
)
def test_two_packets_that_the_kernel_cannot_cut_are_two_calls(verb: Verb, *, is_cutting: bool) -> None:
    message = Message(verb, 2 * MTU, 1 << 40, 9, 7)
    assert [len(one) for one in calls(message, is_v6=False, is_cutting=is_cutting)] == [1, 1]


class AskedSender(FakeSender):
    """Also keeps what was asked to be told when a call leaves."""

    def __init__(self, host: str, port: int, **facts: object) -> None:
        super().__init__(host, port, **facts)
        self.asked: list[FirstSent] = []

    def send_first(
        self,
        pieces: Sequence[Buffer],
        to: SocketAddress,
        sent: Sequence[FirstSent],
        control: ControlMessages = (),
        *,
        packets: int = 1,
    ) -> bool:
        """See Sender."""
        self.asked += sent
        return self.send(pieces, to, control, packets=packets)


def test_who_asks_learns_when_a_message_leaves_and_not_when_its_only_packet_is_sent_again() -> None:
    senders = Senders(traffic_class=0, make=AskedSender)
    context = make_context(options=RoceOptions(path_mtu=MTU), clock=VirtualClock(), senders=senders, payload_seed=None)
    facts = QpFacts(
        host="127.0.0.1",
        peer_host="127.0.0.2",
        qpn=20,
        peer_qpn=QPN,
        psn=PSN,
        peer_psn=Psn(0),
        rkey=7,
        source_ports=(PORT,),
    )
    transmitter, asked = Transmitter(context, facts), FirstSent()
    message = Message(Verb.WRITE_IMM, 100, 1 << 40, 9, 7, sent=asked)
    transmitter.writes(PSN, [Message(Verb.WRITE_IMM, 100, 1 << 40, 9, 7)])
    transmitter.writes(add(PSN, 1), [message])
    transmitter.writes(add(PSN, 1), [message])
    both = FirstSent()
    two = Message(Verb.WRITE_IMM, 2 * MTU, 1 << 40, 9, 7, packets=2, sent=both)
    transmitter.send_run(PacketRun(two, add(PSN, 2), 0, 2, True, False))
    sender = senders.get("127.0.0.1", PORT)
    assert isinstance(sender, AskedSender)
    assert (sender.asked, len(sender.calls)) == ([asked, both], 4)
