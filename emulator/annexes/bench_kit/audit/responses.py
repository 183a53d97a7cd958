"""Counts the responses and congestion notifications of a flow, and checks the rules that concern them alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from emulator.annexes.bench_kit.audit.flow import CapturedFlow, CapturedPacket
from emulator.annexes.bench_kit.audit.messages import path_mtu
from emulator.annexes.bench_kit.audit.rules import FrameRule, Violation
from emulator.roce.wire.headers import Syndrome
from emulator.roce.wire.opcodes import PacketOperation
from emulator.roce.wire.psn import Psn, add, compare


@dataclass(slots=True)
class Answers:
    """The responses in a flow.

    Attributes:
        naks: by reason, see `nak_name`.
        read_bytes: payload of READ responses, each PSN counted once.
        smallest_cnp_gap_ns: shortest time between two CNPs; None with fewer than two.
    """

    acks: int = 0
    naks: Counter[str] = field(default_factory=Counter)
    rnr_naks: int = 0
    atomic_acks: int = 0
    read_responses: int = 0
    read_bytes: int = 0
    cnps: int = 0
    smallest_cnp_gap_ns: int | None = None


def count_answers(flow: CapturedFlow) -> Answers:
    """Count the responses in a flow."""
    answers = Answers(cnps=len(flow.notifications), smallest_cnp_gap_ns=_smallest_gap(flow.notifications))
    read: set[Psn] = set()
    for packet in flow.responses:
        operation = packet.meaning.operation
        answers.read_responses += operation is PacketOperation.READ_RESPONSE
        answers.atomic_acks += operation is PacketOperation.ATOMIC_ACK
        if operation is PacketOperation.ACK:
            _count_ack(answers, packet.syndrome or 0)
        elif packet.psn not in read:
            read.add(packet.psn)
            answers.read_bytes += packet.payload_bytes
    return answers


def _count_ack(answers: Answers, syndrome: int) -> None:
    kind = syndrome >> 5
    if kind == 0:
        answers.acks += 1
    elif kind == 1:
        answers.rnr_naks += 1
    else:
        answers.naks[nak_name(syndrome)] += 1


def nak_name(syndrome: int) -> str:
    """The reason of a NAK: `sequence error`, or the number of a reserved syndrome."""
    try:
        return Syndrome(syndrome).name.lower().replace("_", " ")
    except ValueError:
        return f"{syndrome:#04x}"


def _smallest_gap(notifications: list[CapturedPacket]) -> int | None:
    times = sorted(one.time_ns for one in notifications if one.time_ns is not None)
    return min((after - before for before, after in pairwise(times)), default=None)


def check_answers(flow: CapturedFlow) -> Iterator[Violation]:
    """Violations that responses show without the requests: MSN, READ responses."""
    yield from _check_msn(flow)
    yield from _check_read_responses(flow)


def _check_msn(flow: CapturedFlow) -> Iterator[Violation]:
    acks = [one for one in flow.responses if one.meaning.operation is PacketOperation.ACK]
    for before, after in pairwise(acks):
        if compare(Psn(after.msn), Psn(before.msn)) >= 0:
            continue
        is_older = compare(after.psn, before.psn) < 0  # in every respect: it was sent earlier, and overtaken
        problem = f"MSN {after.msn} after MSN {before.msn} in frame {before.frame}"
        if not is_older:
            yield Violation(after.frame, FrameRule.MSN, flow.key.label, problem)
        elif after.source_port == before.source_port:
            problem = f"the ACK of PSN {after.psn:#x} arrives after that of PSN {before.psn:#x} in frame {before.frame}"
            yield Violation(after.frame, FrameRule.PACKET_ORDER, flow.key.label, problem)


def _check_read_responses(flow: CapturedFlow) -> Iterator[Violation]:
    """A READ repeated from its middle begins with FIRST again; a response that has ended cannot continue."""
    responses = [one for one in flow.responses if one.meaning.operation is PacketOperation.READ_RESPONSE]
    mtu = path_mtu(responses)
    for one in responses:
        if one.meaning.place.value in ("first", "middle") and one.payload_bytes != mtu:
            problem = f"READ RESPONSE {one.meaning.place.name} has {one.payload_bytes} bytes, the path MTU is {mtu}"
            yield Violation(one.frame, FrameRule.PATH_MTU, flow.key.label, problem)
    for before, after in pairwise(responses):
        follows = after.psn == add(before.psn, 1)
        if follows and before.meaning.place.ends and not after.meaning.place.starts:
            problem = f"READ RESPONSE {after.meaning.place.name} after {before.meaning.place.name}: no FIRST"
            yield Violation(after.frame, FrameRule.OPCODE_SEQUENCE, flow.key.label, problem)
