import pytest

from agents.clock import Clock
from agents.roce.icrc import UdpPath
from agents.roce.opcodes import Opcode
from agents.roce.psn import Psn
from agents.roce.runs import Framing
from agents.transports.roce.ends import Ends, packed
from agents.transports.roce.options import RoceOptions
from agents.transports.roce.shared import Shared, shared_state
from agents.transports.roce.sockets import Senders
from agents.transports.roce.verification import Verification
from agents.virtual_clock import VirtualClock

PORT, COUNT = 50_000, 4
ENDS = Ends(1, "192.0.2.2", 0, "192.0.2.1", 1, 1)


@pytest.fixture
def shared() -> Shared:
    clock: Clock = VirtualClock()
    options, senders = RoceOptions(verify_every=2), Senders(traffic_class=0)
    return shared_state(options=options, clock=clock, senders=senders, seed=0, rkey=0, payload_seed=None)


def receive_run(shared: Shared) -> int:
    path = UdpPath(packed(ENDS.peer_host), packed(ENDS.host), PORT)
    framing = Framing(path, ENDS.own_qpn, shared.staging)
    framing.middles(Opcode.RC_WRITE_MIDDLE, Psn(7), slot=0, count=COUNT, ack_request=False, are_cut=True)
    run = b"".join(shared.staging.pieces(0, COUNT))
    shared.buffer[: len(run)] = run
    return shared.staging.stride


def test_a_run_that_a_sample_found_wrong_is_looked_at_in_full_again(shared: Shared) -> None:
    verification, stride = Verification(shared, ENDS), receive_run(shared)
    shared.buffer[2 * stride + 100] ^= 1
    looks = [verification.is_run_right(stride, COUNT, PORT, received_bytes=0) for _ in range(6)]
    assert looks == [True] + 5 * [False]


def test_so_are_its_packets_one_by_one_and_no_more_than_those(shared: Shared) -> None:
    verification, stride = Verification(shared, ENDS), receive_run(shared)
    shared.buffer[100] ^= 1
    verification.is_run_right(stride, COUNT, PORT, received_bytes=0)
    verification.is_run_right(stride, COUNT, PORT, received_bytes=0)
    opcode = Opcode.RC_WRITE_MIDDLE

    def problem() -> str | None:
        return verification.problem(stride, PORT, header=12, length=stride - 16, opcode=opcode, packet=1, is_next=True)

    assert [problem() for _ in range(COUNT)] == COUNT * ["payload"]
    assert problem() is None  # an odd look: no sample
