"""What is kept of a packet, and how flows are named."""

from pathlib import Path

import pytest

from emulator.annexes.bench_kit.audit.flow import CapturedFlowKey, CapturedPacket, FrameRule
from emulator.roce.wire.headers import Aeth, Bth, ImmDt, Reth
from emulator.roce.wire.opcodes import Opcode
from emulator.roce.wire.packet import Packet
from emulator.roce.wire.psn import Psn

DOCS = (Path(__file__).parents[5] / "docs" / "audit.md").read_text()


@pytest.mark.parametrize("rule", FrameRule)
def test_every_rule_is_documented(rule: FrameRule) -> None:
    (row,) = (line for line in DOCS.splitlines() if line.startswith(f"| `{rule.title}` |"))
    documented = row.split("|")[2].strip()
    assert documented.startswith(rule.meaning) or rule is FrameRule.PATH_MTU


def test_titles_are_unique() -> None:
    assert len({rule.title for rule in FrameRule}) == len(FrameRule)


def test_a_flow_is_named_by_its_addresses_and_queue_pair() -> None:
    assert CapturedFlowKey(bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]), 0x11).label == "10.0.0.1 > 10.0.0.2 QP 0x11"
    assert CapturedFlowKey(bytes(15) + b"\x01", bytes(16), 1).label == "::1 > :: QP 0x1"


def test_an_acknowledgement_keeps_its_syndrome_and_msn() -> None:
    packet = Packet(Bth(Opcode.RC_ACK, Psn(7), 0x22), (Aeth(0x60, 9),), b"", 0)
    kept = CapturedPacket.of(packet, frame=3, time_ns=None, source_port=50_001)
    assert (kept.frame, kept.time_ns, kept.psn, kept.syndrome, kept.msn, kept.reth_bytes) == (3, None, 7, 0x60, 9, None)


def test_a_write_keeps_its_announced_length_among_other_headers() -> None:
    packet = Packet(Bth(Opcode.RC_WRITE_ONLY_IMM, Psn(7), 0x22), (Reth(0x1000, 1, 12), ImmDt(5)), bytes(12), 0)
    kept = CapturedPacket.of(packet, frame=3, time_ns=5, source_port=50_001)
    assert (kept.reth_bytes, kept.payload_bytes, kept.syndrome, kept.msn) == (12, 12, None, 0)


def test_a_retransmission_may_differ_in_time_and_frame_only() -> None:
    first = CapturedPacket.of(
        Packet(Bth(Opcode.RC_SEND_ONLY, Psn(7), 1), (), b"abcd", 0), frame=1, time_ns=1, source_port=50_001
    )
    again = CapturedPacket.of(
        Packet(Bth(Opcode.RC_SEND_ONLY, Psn(7), 1), (), b"wxyz", 0), frame=9, time_ns=2, source_port=50_001
    )
    longer = CapturedPacket.of(
        Packet(Bth(Opcode.RC_SEND_ONLY, Psn(7), 1), (), bytes(8), 0), frame=9, time_ns=2, source_port=50_001
    )
    assert first.signature == again.signature != longer.signature
