"""What a queue pair sends, where the kernel does not take it as it was meant."""

import errno
from collections.abc import Sequence

import pytest

from agents.clock import Clock
from agents.roce.headers import Buffer
from agents.roce.icrc import UdpPath
from agents.roce.messages import Message, Run, Verb
from agents.roce.opcodes import Opcode
from agents.roce.psn import Psn
from agents.roce.runs import Framing
from agents.transports.roce.ends import Ends, packed
from agents.transports.roce.options import RoceOptions
from agents.transports.roce.outlet import Outlet
from agents.transports.roce.shared import shared_state
from agents.transports.roce.sockets import Sender, Senders
from agents.virtual_clock import VirtualClock

ENDS = Ends(0, "127.0.0.1", 1, "127.0.0.2", 1, 1)
PSN, TURNS = Psn(1000), 3


@pytest.mark.parametrize("failing", range(TURNS))
def test_where_the_kernel_stops_cutting_packets_go_alone_and_have_the_icrc_of_such(
    monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    clock: Clock = VirtualClock()
    senders = Senders(traffic_class=0)
    shared = shared_state(options=RoceOptions(), clock=clock, senders=senders, seed=0, rkey=0, payload_seed=None)
    turn = shared.payload.slots
    cut: list[int] = []
    sent: list[bytes] = []

    def send_cut(sender: Sender, batch: object, slot: int, count: int, to: object) -> None:
        if len(cut) == failing:
            raise OSError(errno.EINVAL, "the kernel does not cut")
        cut.append(count)

    def send(sender: Sender, pieces: Sequence[Buffer], to: object, control: object = (), *, packets: int = 1) -> bool:
        sent.append(b"".join(pieces))
        return True

    monkeypatch.setattr(Sender, "send_cut", send_cut)
    monkeypatch.setattr(Sender, "send", send)
    message = Message(Verb.WRITE, 100 * turn * shared.payload.path_mtu)
    message.packets = 100 * turn
    outlet, rounds = Outlet(shared, ENDS), []
    outlet.run(Run(message, PSN, 1, TURNS * turn, False, False), lambda: not rounds.append(len(sent)))
    port = outlet.source_port
    senders.close()
    assert port is not None
    framing = Framing(UdpPath(packed(ENDS.host), packed(ENDS.peer_host), port), ENDS.peer_qpn, shared.staging)
    payload = shared.payload.path_mtu
    assert cut == failing * [turn]
    assert sent == [
        b"".join(framing.lone(Opcode.RC_WRITE_MIDDLE, PSN + packet, b"", size=payload))
        for packet in range(failing * turn, TURNS * turn)
    ]
    assert len(rounds) == TURNS - 1
    assert not shared.is_cutting
