"""Messages, runs and the settings of a connection in figures."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.roce.connection.messages import (
    LEAST_REACH_PACKETS,
    ConnectionSettings,
    Message,
    PacketRun,
    Verb,
    packets_of,
)
from emulator.roce.constants import PATH_MTUS
from emulator.roce.wire.opcodes import PacketOperation
from emulator.roce.wire.psn import PSN_SPACE, Psn


@given(st.integers(0, 1 << 31), st.sampled_from(PATH_MTUS))
def test_packets_hold_a_message_and_none_is_empty_but_that_of_an_empty_message(size: int, path_mtu: int) -> None:
    packets = packets_of(size, path_mtu)
    assert packets * path_mtu >= size
    assert (packets - 1) * path_mtu < max(size, 1)
    assert packets >= 1


@pytest.mark.parametrize(("exponent", "milliseconds"), [(1, 0.008192), (14, 67.108864), (20, 4294.967296)])
def test_the_timeout_is_4096_ns_times_a_power_of_two(exponent: int, milliseconds: float) -> None:
    assert ConnectionSettings(timeout_exponent=exponent).timeout_ns == milliseconds * 1e6


def test_a_psn_within_reach_cannot_be_taken_for_one_of_the_other_half() -> None:
    small, large = ConnectionSettings(window_packets=16), ConnectionSettings(window_packets=1 << 20)
    assert small.reach_packets == LEAST_REACH_PACKETS == PSN_SPACE // 256
    assert large.reach_packets == 2 << 20
    assert large.reach_packets < PSN_SPACE // 2


@pytest.mark.parametrize(
    ("offset", "packets", "ends"), [(0, 1, False), (0, 9, False), (0, 10, True), (9, 1, True), (8, 1, False)]
)
def test_a_run_ends_its_message_with_the_last_packet(offset: int, packets: int, *, ends: bool) -> None:
    message = Message(Verb.WRITE, 10)
    message.packets = 10
    assert PacketRun(message, Psn(0), offset, packets, ack_request=False, is_again=False).ends_message is ends


def test_verbs_differ_in_operation_and_immediate_data() -> None:
    assert len({verb.value for verb in Verb}) == len(Verb)
    assert {verb for verb in Verb if verb.value[1]} == {Verb.SEND_IMM, Verb.WRITE_IMM}
    assert Verb.READ.value[0] is PacketOperation.READ_REQUEST
