"""What a queue pair sends if the kernel does not cut calls, or stops doing so."""

import errno
from collections.abc import Iterator

import pytest

from agents.nic.context import Context, make_context
from agents.nic.sockets import Sender, Senders
from agents.nic.transmitter import Transmitter
from agents.transports.roce.connection_id import ConnectionId, qp_facts
from emulator.host.clock import Clock
from emulator.roce.framing import Framing
from emulator.roce.icrc import UdpPath
from emulator.roce.messages import Message, Run, Verb
from emulator.roce.options import RoceOptions
from emulator.roce.payload import Staging
from emulator.roce.psn import Psn, add
from emulator.roce.qp_facts import packed
from tests.support.virtual_clock import VirtualClock

FACTS = qp_facts(ConnectionId(0, "127.0.0.1", 1, "127.0.0.2", 1, 1), port_policy="fold", seed=0, rkey=0)
PSN, TURNS = Psn(1000), 3


@pytest.fixture
def context() -> Iterator[Context]:
    clock: Clock = VirtualClock()
    senders = Senders(traffic_class=0)
    yield make_context(options=RoceOptions(), clock=clock, senders=senders, payload_seed=None)
    senders.close()


class Network:
    """The calls to the kernel: numbers of packets to cut, and packets sent alone."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, context: Context) -> None:
        self.cut: list[int] = []
        self.alone: list[bytes] = []
        self.whole: list[bytes] = []
        self.refuses_after = TURNS
        self.context, self.transmitter = context, Transmitter(context, FACTS)
        self.turn = context.payload.slots
        monkeypatch.setattr(Sender, "send_cut", lambda _, batch, slot, count, to: self._cut(count))
        monkeypatch.setattr(
            Sender, "send", lambda _, pieces, to, control=(), packets=1: self._send(pieces, control, packets)
        )
        monkeypatch.setattr(Sender, "send_whole", lambda _, datagram, to: self.whole.append(bytes(datagram)))

    def _cut(self, count: int) -> None:
        if len(self.cut) == self.refuses_after:
            raise OSError(errno.EINVAL, "the kernel does not cut")
        self.cut.append(count)

    def _send(self, pieces: tuple[bytes, ...], control: object, packets: int) -> None:
        if control:
            self._cut(packets)
        else:
            self.alone.append(b"".join(pieces))

    def turns(self) -> Iterator[None]:
        message = Message(Verb.WRITE, 100 * self.turn * self.context.payload.path_mtu)
        message.packets = 100 * self.turn
        return self.transmitter.turns(Run(message, PSN, 1, TURNS * self.turn, False, False), self.turn)

    def lone(self, first: int) -> list[bytes]:
        """The packets of the run from one packet on, as each is sent alone."""
        port = self.transmitter.source_port
        assert port is not None
        path = UdpPath(packed(FACTS.host), packed(FACTS.peer_host), port)
        staging = Staging(self.context.payload)
        framing, packets = Framing(path, FACTS.peer_qpn, self.context.payload), range(first, TURNS * self.turn)
        found = []
        for packet in packets:
            framing.middles(staging, add(PSN, packet), 0, 1, False, False, are_cut=False)
            found.append(b"".join(staging.pieces(0, 1)))
        return found


@pytest.mark.parametrize("failing", range(TURNS))
def test_when_the_kernel_stops_cutting_packets_are_sent_alone_with_their_icrc(
    monkeypatch: pytest.MonkeyPatch, context: Context, failing: int
) -> None:
    network = Network(monkeypatch, context)
    network.refuses_after = failing
    rounds = len(list(network.turns()))
    assert network.cut == failing * [network.turn]
    assert network.alone == network.lone(failing * network.turn)
    assert rounds == TURNS - 1
    assert not context.is_cutting


def test_packets_prepared_for_cutting_are_sent_alone_after_a_refusal(
    monkeypatch: pytest.MonkeyPatch, context: Context
) -> None:
    network = Network(monkeypatch, context)
    for _ in network.turns():
        context.is_cutting = False
    assert network.cut == [network.turn]
    assert network.alone == network.lone(network.turn)


def test_packets_that_were_overwritten_between_turns_are_staged_again(
    monkeypatch: pytest.MonkeyPatch, context: Context
) -> None:
    network, versions = Network(monkeypatch, context), []
    for turn, _ in enumerate(network.turns()):
        versions.append(context.staging.version)
        if not turn:
            other = Framing(UdpPath(bytes(4), bytes(4), 1), 99, context.payload)
            other.middles(context.staging, Psn(0), 0, 9, False, False, are_cut=True)
    assert network.cut == TURNS * [network.turn]
    assert versions[1] == versions[0] + 2


def test_equal_single_packets_leave_in_one_call(monkeypatch: pytest.MonkeyPatch, context: Context) -> None:
    network = Network(monkeypatch, context)
    alike = [Message(Verb.WRITE_IMM, 100, 5, 1) for _ in range(5)]
    network.transmitter.writes(PSN, [*alike, Message(Verb.WRITE_IMM, 200, 5, 1)])
    assert (network.cut, [len(one) for one in network.whole]) == ([5], [32 + 200 + 4])


def test_single_packets_leave_alone_if_the_kernel_does_not_cut(
    monkeypatch: pytest.MonkeyPatch, context: Context
) -> None:
    network = Network(monkeypatch, context)
    network.refuses_after = 0
    network.transmitter.writes(PSN, [Message(Verb.WRITE_IMM, 100, 5, 1) for _ in range(5)])
    assert [int.from_bytes(one[9:12]) for one in network.whole] == list(range(PSN, PSN + 5))
    assert not context.is_cutting
