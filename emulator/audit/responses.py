"""What a flow's responses and congestion notifications say, and the rules they can break by themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from emulator.audit.messages import path_mtu
from emulator.audit.rules import Rule, Violation
from emulator.audit.sighting import Flow, Sighting
from emulator.roce.headers import Syndrome
from emulator.roce.opcodes import Operation
from emulator.roce.psn import Psn, add, compare


@dataclass(slots=True)
class Answers:
    """Responses in a flow. `naks` are by name, `read_bytes` count each PSN once; no CNP gap below two CNPs."""

    acks: int = 0
    naks: Counter[str] = field(default_factory=Counter)
    rnr_naks: int = 0
    atomic_acks: int = 0
    read_responses: int = 0
    read_bytes: int = 0
    cnps: int = 0
    smallest_cnp_gap_ns: int | None = None


def count_answers(flow: Flow) -> Answers:
    """Count them."""
    answers = Answers(cnps=len(flow.notifications), smallest_cnp_gap_ns=_smallest_gap(flow.notifications))
    read: set[Psn] = set()
    for sighting in flow.responses:
        operation = sighting.meaning.operation
        answers.read_responses += operation is Operation.READ_RESPONSE
        answers.atomic_acks += operation is Operation.ATOMIC_ACK
        if operation is Operation.ACK:
            _count_ack(answers, sighting.syndrome or 0)
        elif sighting.psn not in read:
            read.add(sighting.psn)
            answers.read_bytes += sighting.payload_bytes
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
    """A NAK's reason for people: `sequence error`, or its number where it is reserved."""
    try:
        return Syndrome(syndrome).name.lower().replace("_", " ")
    except ValueError:
        return f"{syndrome:#04x}"


def _smallest_gap(notifications: list[Sighting]) -> int | None:
    times = sorted(one.time_ns for one in notifications if one.time_ns is not None)
    return min((after - before for before, after in pairwise(times)), default=None)


def check_answers(flow: Flow) -> Iterator[Violation]:
    """Violations of the rules on responses, which need no requests: MSN, READ responses."""
    yield from _check_msn(flow)
    yield from _check_read_responses(flow)


def _check_msn(flow: Flow) -> Iterator[Violation]:
    acks = [one for one in flow.responses if one.meaning.operation is Operation.ACK]
    for before, after in pairwise(acks):
        if compare(Psn(after.msn), Psn(before.msn)) < 0:
            problem = f"MSN {after.msn} after MSN {before.msn} in frame {before.frame}"
            yield Violation(after.frame, Rule.MSN, flow.key.label, problem)


def _check_read_responses(flow: Flow) -> Iterator[Violation]:
    """A READ that is asked for again from its middle may begin anew; it cannot go on where it had ended."""
    responses = [one for one in flow.responses if one.meaning.operation is Operation.READ_RESPONSE]
    mtu = path_mtu(responses)
    for one in responses:
        if one.meaning.place.value in ("first", "middle") and one.payload_bytes != mtu:
            problem = f"READ RESPONSE {one.meaning.place.name} has {one.payload_bytes} bytes, the path MTU is {mtu}"
            yield Violation(one.frame, Rule.PATH_MTU, flow.key.label, problem)
    for before, after in pairwise(responses):
        follows = after.psn == add(before.psn, 1)
        if follows and before.meaning.place.ends and not after.meaning.place.starts:
            problem = f"READ RESPONSE {after.meaning.place.name} after {before.meaning.place.name}: no FIRST"
            yield Violation(after.frame, Rule.OPCODE_SEQUENCE, flow.key.label, problem)
