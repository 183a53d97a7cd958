import pytest

from agents.transports.roce.ends import Ends, packed
from agents.transports.roce.shared import CALLS_AT_ONCE, Shared, shared_state
from agents.transports.roce.sockets import Senders
from agents.transports.roce.verification import Verification
from emulator.host.clock import Clock
from emulator.roce.icrc import UdpPath
from emulator.roce.opcodes import Opcode
from emulator.roce.options import RoceOptions
from emulator.roce.psn import Psn
from emulator.roce.runs import Framing
from tests.support.virtual_clock import VirtualClock

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


@pytest.mark.parametrize(
    ("payload_seed", "options"), [(5, {}), (None, {"call_bytes": 1100})], ids=["random", "constant"]
)
def test_runs_longer_than_the_slots_are_compared_from_any_packet_on(
    payload_seed: int | None, options: dict[str, int]
) -> None:
    clock: Clock = VirtualClock()
    parsed, senders = RoceOptions(path_mtu=1024, verify_every=1, **options), Senders(traffic_class=0)
    shared = shared_state(options=parsed, clock=clock, senders=senders, seed=0, rkey=0, payload_seed=payload_seed)
    payload, stride = shared.payload, shared.staging.stride
    count = CALLS_AT_ONCE * payload.per_call
    for received in (0, 1, payload.per_call, payload.slots - 1, 3 * payload.slots + 5):
        rows = shared.inspection.rows(stride, count)
        slots = [payload.slot(received + packet) for packet in range(count)]
        rows[:, 12:-4] = payload.rows[slots]
        path = UdpPath(packed(ENDS.peer_host), packed(ENDS.host), PORT)
        first = b"".join(Framing(path, ENDS.own_qpn, shared.staging).lone(7, 9, b"", slot=slots[0], size=1024))
        shared.buffer[:stride] = first
        verification = Verification(shared, ENDS)
        assert verification.is_run_right(stride, count, PORT, received_bytes=1024 * received)
        rows[-1, 500] ^= 1
        assert not verification.is_run_right(stride, count, PORT, received_bytes=1024 * received)


def test_so_are_its_packets_one_by_one_and_no_more_than_those(shared: Shared) -> None:
    verification, stride = Verification(shared, ENDS), receive_run(shared)
    shared.buffer[100] ^= 1
    verification.is_run_right(stride, COUNT, PORT, received_bytes=0)
    verification.is_run_right(stride, COUNT, PORT, received_bytes=0)
    opcode = Opcode.RC_WRITE_MIDDLE

    def problem() -> str | None:
        return verification.problem(
            stride, PORT, header=12, length=stride - 16, opcode=opcode, packet=1, is_wanted=True
        )

    assert [problem() for _ in range(COUNT)] == COUNT * ["payload"]
    assert problem() is None  # an odd look: no sample
