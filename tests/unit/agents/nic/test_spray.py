"""What a queue pair of the multipath profile sends is what one receives: over any path, cut by the kernel or not."""

from collections.abc import Iterator

import pytest

from agents.nic.context import Context, make_context
from agents.nic.sockets import Senders
from agents.nic.spray import SprayTransmitter
from agents.nic.system_calls import SocketAddress
from emulator.host.clock import Clock
from emulator.roce.connection.messages import Message, Verb
from emulator.roce.connection.qp_facts import QpFacts, packed
from emulator.roce.multipath.paths import Health
from emulator.roce.multipath.receiver import MultipathPair, MultipathReceiver
from emulator.roce.multipath.requester import Burst, Spray
from emulator.roce.multipath.wire import Report, SelectiveAck
from emulator.roce.options import RoceOptions
from emulator.roce.wire.psn import PSN_SPACE, Psn
from tests.support.senders import FakeSender
from tests.support.virtual_clock import VirtualClock

PATHS, MTU, RKEY, QPN, PSN = 3, 1024, 77, 21, Psn(PSN_SPACE - 40)
PORTS = [50_000 + path for path in range(PATHS)]


class Wire:
    """A transmitter, and the receiver of its peer."""

    def __init__(self, *, is_v6: bool = False, seed: int | None = None, has_labels: bool = False) -> None:
        here, there = ("2001:db8::1", "2001:db8::2") if is_v6 else ("127.0.0.1", "127.0.0.2")
        clock: Clock = VirtualClock()
        senders = Senders(traffic_class=0, make=FakeSender)
        self.context: Context = make_context(
            options=RoceOptions(path_mtu=MTU), clock=clock, senders=senders, payload_seed=seed
        )
        facts = QpFacts(
            host=here, peer_host=there, qpn=20, peer_qpn=QPN, psn=PSN, peer_psn=Psn(0), rkey=RKEY,
            source_ports=PORTS[:1] if has_labels else PORTS,
        )  # fmt: skip
        self.health = Health(PATHS)
        self.transmitter = SprayTransmitter(self.context, facts, self.health, has_labels=has_labels)
        pair = RoceOptions(path_mtu=MTU).connection(window_packets=500)
        self.pair = MultipathPair(pair, send_psn=Psn(0), expect_psn=PSN)
        self.receiver = MultipathReceiver(
            self.pair, self.context.payload, source=packed(here), destination=packed(there), qpn=QPN, rkey=RKEY,
            verify_every=1,
        )  # fmt: skip
        self.host = here

    def calls(self) -> Iterator[tuple[bytes, int, int, SocketAddress]]:
        for port in PORTS:
            sender = self.context.senders.get(self.host, port)
            assert isinstance(sender, FakeSender)
            yield from ((packets, stride, port, to) for packets, stride, to in sender.calls)
            sender.calls.clear()

    def carry(self) -> int:
        """Everything sent arrives, the last call first; returns how many packets that were."""
        count = 0
        for packets, stride, port, _ in reversed(list(self.calls())):
            count += -(-len(packets) // stride)
            assert self.receiver.receive(memoryview(packets), stride, port, 0) == []
        return count


def sprayed(message: Message) -> Spray:
    message.packets = -(-message.size // MTU) or 1
    bursts = [Burst(path, list(range(path, message.packets, PATHS))) for path in range(PATHS)]
    return Spray(message, PSN, 0, message.packets, False, False, [one for one in bursts if one.packets])


@pytest.mark.parametrize("size", [0, 1, MTU, 7 * MTU, 7 * MTU + 5, 300 * MTU])
@pytest.mark.parametrize("verb", [Verb.WRITE, Verb.WRITE_IMM])
@pytest.mark.parametrize("seed", [None, 5])
@pytest.mark.parametrize("is_v6", [False, True])
@pytest.mark.parametrize("is_cutting", [True, False])
def test_what_is_sent_is_what_arrives(
    size: int, verb: Verb, seed: int | None, *, is_v6: bool, is_cutting: bool
) -> None:
    wire = Wire(is_v6=is_v6, seed=seed)
    wire.context.is_cutting = is_cutting
    message = Message(verb, size, address=(1 << 64) - 3000, imm=9, rkey=RKEY)
    wire.transmitter.send_run(sprayed(message))
    assert wire.carry() == message.packets
    (got,) = wire.pair.responder.delivered
    assert (got.address, got.size, got.imm) == (message.address, size, 9 if verb is Verb.WRITE_IMM else None)
    assert not wire.pair.drops


def test_a_damaged_packet_is_dropped_alone() -> None:
    wire = Wire()
    wire.transmitter.send_run(sprayed(Message(Verb.WRITE, 30 * MTU, rkey=RKEY)))
    for at, (packets, stride, port, _) in enumerate(wire.calls()):
        damaged = bytearray(packets)
        damaged[3 * stride + 13 if at == 1 else 0] ^= at == 1
        wire.receiver.receive(memoryview(damaged), stride, port, 0)
    ack = wire.pair.responder.take_reply()
    assert isinstance(ack, SelectiveAck)
    assert (ack.psn, int.from_bytes(ack.bitmap).bit_count()) == ((PSN + 9) % PSN_SPACE, 19)  # all but packet 10
    assert wire.pair.drops == {"icrc": 1}


def test_trimmed_packets_are_reported_whatever_is_left_of_them() -> None:
    wire = Wire()
    wire.transmitter.send_run(sprayed(Message(Verb.WRITE_IMM, 3 * MTU - 3, rkey=RKEY)))
    for kept, (packets, _, port, _) in zip((28, 40, MTU), wire.calls(), strict=True):
        wire.receiver.receive(memoryview(packets)[:kept], kept, port, 0)
    responder = wire.pair.placer
    assert (responder.trimmed, responder.is_reply_due) == (3, True)
    ack = responder.take_reply()
    assert isinstance(ack, SelectiveAck)
    assert ack.reports == [Report(1, Psn(PSN + place)) for place in range(3)]


def test_packets_with_another_key_or_of_another_queue_pair_are_not_taken() -> None:
    wire = Wire()
    wire.transmitter.send_run(sprayed(Message(Verb.WRITE, 9 * MTU, rkey=RKEY + 1)))
    wire.carry()
    assert wire.pair.drops == {"rkey": 9}
    other = bytearray(32)
    other[0], other[7] = 0x0A, QPN + 1
    assert len(wire.receiver.receive(memoryview(other), 32, PORTS[0], 0)) == 1


def test_acknowledgements_and_notifications_take_the_paths_in_use_in_turn() -> None:
    wire = Wire()
    wire.health.retire(1, 0)
    ack = SelectiveAck(Psn(5), 0x1F, 2, b"\x02\0\0\0", [Report(3, Psn(6))])
    for _ in range(4):
        wire.transmitter.reply(ack)
        wire.transmitter.notify()
    ports = [port for _, _, port, _ in wire.calls()]
    assert {port: ports.count(port) for port in PORTS} == {PORTS[0]: 4, PORTS[1]: 0, PORTS[2]: 4}


def test_flow_labels_are_the_entropy_of_one_port() -> None:
    wire = Wire(is_v6=True, has_labels=True)
    wire.transmitter._paths = [*wire.transmitter._open_paths()] * PATHS
    wire.transmitter.send_run(sprayed(Message(Verb.WRITE, 9 * MTU, rkey=RKEY)))
    calls = list(wire.calls())
    assert [(port, to[2:3]) for _, _, port, to in calls] == [(PORTS[0], (label,)) for label in (1, 2, 3)]
