"""What a queue pair sends, where the kernel does not take it as it was meant."""

import errno
from collections.abc import Iterator

import pytest

from agents.transports.roce.ends import Ends, packed
from agents.transports.roce.outlet import Between, Outlet
from agents.transports.roce.shared import Shared, shared_state
from agents.transports.roce.sockets import Sender, Senders
from emulator.host.clock import Clock
from emulator.roce.icrc import UdpPath
from emulator.roce.messages import Message, Run, Verb
from emulator.roce.opcodes import Opcode
from emulator.roce.options import RoceOptions
from emulator.roce.psn import Psn
from emulator.roce.runs import Framing
from tests.support.virtual_clock import VirtualClock

ENDS = Ends(0, "127.0.0.1", 1, "127.0.0.2", 1, 1)
PSN, TURNS = Psn(1000), 3


@pytest.fixture
def shared() -> Iterator[Shared]:
    clock: Clock = VirtualClock()
    senders = Senders(traffic_class=0)
    yield shared_state(options=RoceOptions(), clock=clock, senders=senders, seed=0, rkey=0, payload_seed=None)
    senders.close()


class Network:
    """What is handed to the kernel: how many packets to be cut, and those that go alone."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, shared: Shared) -> None:
        self.cut: list[int] = []
        self.alone: list[bytes] = []
        self.refuses_after = TURNS
        self.shared, self.outlet = shared, Outlet(shared, ENDS)
        self.turn = shared.payload.slots
        monkeypatch.setattr(Sender, "send_cut", lambda _, batch, slot, count, to: self._cut(count))
        monkeypatch.setattr(Sender, "send", lambda _, pieces, to: self.alone.append(b"".join(pieces)))

    def _cut(self, count: int) -> None:
        if len(self.cut) == self.refuses_after:
            raise OSError(errno.EINVAL, "the kernel does not cut")
        self.cut.append(count)

    def run(self, between: Between) -> None:
        message = Message(Verb.WRITE, 100 * self.turn * self.shared.payload.path_mtu)
        message.packets = 100 * self.turn
        self.outlet.run(Run(message, PSN, 1, TURNS * self.turn, False, False), between)

    def lone(self, first: int) -> list[bytes]:
        """The packets of the run from that one on, as they are when each is sent alone."""
        port, size = self.outlet.source_port, self.shared.payload.path_mtu
        assert port is not None
        path = UdpPath(packed(ENDS.host), packed(ENDS.peer_host), port)
        framing = Framing(path, ENDS.peer_qpn, self.shared.staging)
        packets = range(first, TURNS * self.turn)
        return [b"".join(framing.lone(Opcode.RC_WRITE_MIDDLE, PSN + packet, b"", size=size)) for packet in packets]


@pytest.mark.parametrize("failing", range(TURNS))
def test_where_the_kernel_stops_cutting_packets_go_alone_and_have_the_icrc_of_such(
    monkeypatch: pytest.MonkeyPatch, shared: Shared, failing: int
) -> None:
    network, rounds = Network(monkeypatch, shared), []
    network.refuses_after = failing
    network.run(lambda: not rounds.append(failing))
    assert network.cut == failing * [network.turn]
    assert network.alone == network.lone(failing * network.turn)
    assert len(rounds) == TURNS - 1
    assert not shared.is_cutting


def test_so_do_those_that_are_prepared_when_it_refuses_others(monkeypatch: pytest.MonkeyPatch, shared: Shared) -> None:
    network = Network(monkeypatch, shared)

    def between() -> bool:
        shared.is_cutting = False
        return True

    network.run(between)
    assert network.cut == [network.turn]
    assert network.alone == network.lone(network.turn)
