"""Relations between facts and tuned values that must hold whatever a benchmark sets them to."""

import pytest

from emulator.roce import constants, tuning
from emulator.roce.connection.messages import Arrival, ConnectionSettings
from emulator.roce.connection.responder import Responder
from emulator.roce.constants import ACKS_PER_WINDOW, BTH_BYTES, ICRC_BYTES, LEAST_WINDOW_PACKETS, PATH_MTUS
from emulator.roce.options import RoceOptions
from emulator.roce.wire.headers import Aeth, Bth, ImmDt, Reth
from emulator.roce.wire.opcodes import Opcode
from emulator.roce.wire.psn import PSN_SPACE, Psn


def test_lengths_of_headers_are_those_of_their_layouts() -> None:
    headers = (Bth, Reth, ImmDt, Aeth)
    lengths = (constants.BTH_BYTES, constants.RETH_BYTES, constants.IMMDT_BYTES, constants.AETH_BYTES)
    assert tuple(header.layout.size for header in headers) == lengths


@pytest.mark.parametrize("window", [LEAST_WINDOW_PACKETS, 100, 2048])
def test_a_receiver_acknowledges_every_half_window(window: int) -> None:
    settings = RoceOptions(path_mtu=256).connection(window_packets=window)
    assert settings.ack_interval == window // ACKS_PER_WINDOW == window // 2
    responder = Responder(settings)
    responder.receive(Arrival(Opcode.RC_WRITE_FIRST, Psn(0), size=256, length=1 << 24))
    responder.receive(Arrival(Opcode.RC_WRITE_MIDDLE, Psn(1), packets=window // 2 - 2, size=256))
    assert not responder.is_reply_due
    responder.receive(Arrival(Opcode.RC_WRITE_MIDDLE, Psn(window // 2 - 1), size=256))
    assert responder.is_reply_due


def test_the_largest_window_is_far_smaller_than_the_space_of_psns() -> None:
    packets = tuning.MOST_WINDOW_BYTES // PATH_MTUS[0]
    assert 4 * ConnectionSettings(window_packets=packets).reach_packets <= PSN_SPACE // 2


@pytest.mark.parametrize("path_mtu", PATH_MTUS)
def test_a_full_packet_fits_a_call_and_a_reception(path_mtu: int) -> None:
    packet = BTH_BYTES + path_mtu + ICRC_BYTES
    assert packet <= tuning.LARGEST_CALL_BYTES < tuning.LARGEST_RECEPTION_BYTES


def test_bounds_are_in_order() -> None:
    assert tuning.LEAST_WINDOW_BYTES < tuning.MOST_WINDOW_BYTES
    assert tuning.LEAST_PACKETS_AFTER_LOSS < tuning.MOST_PACKETS_AFTER_LOSS
    assert tuning.SWEEP_NS[0] < tuning.SWEEP_NS[1]
    assert tuning.SEND_BUFFER_BYTES < tuning.RECEIVE_BUFFER_BYTES
    assert tuning.LEAST_WINDOW_BYTES // PATH_MTUS[-1] > LEAST_WINDOW_PACKETS
    assert tuning.CALLS_AT_ONCE > tuning.CALLS_PER_TURN  # one more shows that nothing is left
    assert tuning.LONGEST_SUSPICION_NS < tuning.LONGEST_DOUBT_NS
