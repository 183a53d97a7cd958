"""The report of an audit: facts of each flow, totals, and violations of rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any

from emulator.annexes.bench_kit.audit.flow import CapturedFlow, FrameRule, Violation, address
from emulator.annexes.bench_kit.audit.messages import Answers, Messages
from emulator.annexes.bench_kit.audit.tracking import RequestStats
from emulator.roce.wire.opcodes import MEANINGS, Opcode
from emulator.units import BITS_PER_BYTE, NS_PER_S


@dataclass(frozen=True, slots=True)
class AuditedFlow:
    """One flow: the packets from an address to a queue pair of another address.

    Attributes:
        carried: the responses in this flow, to requests of the opposite direction.
        answers: the responses to the requests of this flow; None if the capture has no matching flow.
        answered_by: label of the flow that has them.
        payload_bytes: new payload, without retransmissions.
        goodput_bps: new payload over the time from the first to the last packet with payload; None without such a time.
    """

    flow: CapturedFlow
    stats: RequestStats
    messages: Messages
    carried: Answers
    answers: Answers | None
    answered_by: str | None
    path_mtu: int | None
    payload_bytes: int
    goodput_bps: float | None

    @property
    def frames(self) -> int:
        """Packets, damaged ones included."""
        return self.flow.opcodes.total()

    @property
    def data_frames(self) -> int:
        """Requests and unreliable datagrams."""
        return len(self.flow.requests) + len(self.flow.datagrams)


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The whole report.

    Attributes:
        frames: in the file.
        roce_frames: of them, datagrams to the audited port.
        violations: in the order of the frames.
        notes: what was not judged, and why.
    """

    path: str
    port: int
    frames: int
    roce_frames: int
    superframes: int
    flows: tuple[AuditedFlow, ...]
    violations: tuple[Violation, ...]
    notes: tuple[str, ...] = field(default=())

    @property
    def opcodes(self) -> Counter[int]:
        """Packets by opcode, over all flows."""
        return sum((one.flow.opcodes for one in self.flows), Counter[int]())

    @property
    def by_rule(self) -> dict[FrameRule, int]:
        """Violations by rule, for the rules that have any."""
        return dict(Counter(one.rule for one in self.violations))


def goodput_bps(payload_bytes: int, times_ns: Iterable[int | None]) -> float | None:
    """Payload over the time from the first to the last packet, in bit/s; None with fewer than two different times."""
    known = [time for time in times_ns if time is not None]
    duration_ns = max(known) - min(known) if known else 0
    return payload_bytes * BITS_PER_BYTE * NS_PER_S / duration_ns if duration_ns else None


def opcode_name(opcode: int) -> str:
    """`RC_WRITE_FIRST`, or the number of an unknown opcode."""
    return Opcode(opcode).name if opcode in MEANINGS else f"{opcode:#04x}"


def to_json(report: AuditReport) -> dict[str, Any]:
    """The report as plain values: times in nanoseconds, sizes in bytes, rates in bit/s."""
    return {
        "path": report.path,
        "port": report.port,
        "frames": report.frames,
        "roce_frames": report.roce_frames,
        "superframes": report.superframes,
        "total": _total_to_json(report),
        "flows": [_flow_to_json(one) for one in report.flows],
        "violations": [_violation_to_json(one) for one in report.violations],
        "rules_broken": {rule.title: count for rule, count in report.by_rule.items()},
        "notes": list(report.notes),
    }


_SUMMED = ("gaps", "missing", "refilled", "duplicates", "retransmitted", "reordered", "restarts", "restarts_after_nak")


def _total_to_json(report: AuditReport) -> dict[str, Any]:
    flows = report.flows
    naks = sum((one.carried.naks for one in flows), Counter[str]())
    return {
        "packets": sum(one.frames for one in flows),
        "data_frames": sum(one.data_frames for one in flows),
        "opcodes": _opcodes_to_json(report.opcodes),
        "icrc_good": sum(one.flow.icrc_good for one in flows),
        "icrc_bad": sum(one.flow.icrc_bad for one in flows),
        "icrc_unchecked": sum(one.flow.icrc_unchecked for one in flows),
        "ce_marked": sum(one.flow.ce_marked for one in flows),
        **{name: sum(getattr(one.stats, name) for one in flows) for name in _SUMMED},
        "acks": sum(one.carried.acks for one in flows),
        "naks": dict(naks),
        "rnr_naks": sum(one.carried.rnr_naks for one in flows),
        "cnps": sum(one.carried.cnps for one in flows),
        "payload_bytes": sum(one.payload_bytes for one in flows),
    }


def _flow_to_json(one: AuditedFlow) -> dict[str, Any]:
    flow = one.flow
    return {
        "source": address(flow.key.source),
        "destination": address(flow.key.destination),
        "dest_qp": flow.key.dest_qp,
        "source_port": flow.source_port,
        "packets": one.frames,
        "data_frames": one.data_frames,
        "opcodes": _opcodes_to_json(flow.opcodes),
        "icrc_good": flow.icrc_good,
        "icrc_bad": flow.icrc_bad,
        "icrc_unchecked": flow.icrc_unchecked,
        "ce_marked": flow.ce_marked,
        **{name: getattr(one.stats, name) for name in _SUMMED},
        "reordering_extent": one.stats.reordering_extent,
        "has_unread": one.stats.has_unread,
        "go_back_n": one.stats.go_back_n,
        "path_mtu": one.path_mtu,
        "messages": {str(size): count for size, count in sorted(one.messages.sizes.items())},
        "partial_messages": one.messages.partial,
        "payload_bytes": one.payload_bytes,
        "goodput_bps": one.goodput_bps,
        "answered_by": one.answered_by,
        "answers": None if one.answers is None else _answers_to_json(one.answers),
        "carried": _answers_to_json(one.carried),
    }


def _answers_to_json(answers: Answers) -> dict[str, Any]:
    facts = {one.name: getattr(answers, one.name) for one in fields(answers)}
    return {**facts, "naks": dict(answers.naks)}


def _opcodes_to_json(opcodes: Counter[int]) -> dict[str, int]:
    return {opcode_name(opcode): count for opcode, count in sorted(opcodes.items())}


def _violation_to_json(one: Violation) -> dict[str, Any]:
    return {"frame": one.frame, "rule": one.rule.title, "flow": one.flow, "problem": one.problem}
