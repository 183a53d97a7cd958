"""An audit from beginning to end: frames in, report out. No IO: the caller reads the capture."""

from __future__ import annotations

from collections.abc import Iterator

from emulator.audit.collect import Collector
from emulator.audit.messages import assemble, path_mtu
from emulator.audit.pairing import pair
from emulator.audit.report import AuditReport, FlowReport, goodput_bps, opcode_name
from emulator.audit.responses import check_answers, count_answers
from emulator.audit.rules import Violation
from emulator.audit.sighting import Flow
from emulator.audit.tracking import Tracker


class Audit:
    """Takes the frames of one capture, in its order; `finish` gives the report.

    Args:
        port: the UDP destination port of RoCEv2, 4791 everywhere but in experiments.
    """

    def __init__(self, *, port: int) -> None:
        self._port = port
        self._collector = Collector(port=port)
        self.add = self._collector.add

    def finish(self, path: str, *, notes: tuple[str, ...] = ()) -> AuditReport:
        """Close the audit.

        Args:
            path: the capture, for the report.
            notes: what the reader of the capture has to say.
        """
        collector = self._collector
        pairs = pair(collector.flows.values())
        violations = list(collector.violations)
        reports = [_report(flow, pairs.get(flow.key), violations) for flow in collector.flows.values()]
        return AuditReport(
            path=path,
            port=self._port,
            frames=collector.frames,
            roce_frames=collector.roce_frames,
            superframes=collector.superframes + collector.unreadable_superframes + collector.torn_superframes,
            flows=tuple(reports),
            violations=tuple(sorted(violations, key=lambda one: one.frame)),
            notes=(*notes, *_notes(collector)),
        )


def _report(flow: Flow, responses: Flow | None, violations: list[Violation]) -> FlowReport:
    """Judge one flow; adds to `violations`."""
    mtu = path_mtu(flow.requests) or (path_mtu(responses.responses) if responses else None)
    course = Tracker(flow, responses, mtu=mtu).follow()
    messages = assemble(course.sent, mtu=mtu, flow=flow.key.label)
    is_torn = bool(flow.torn or (responses and responses.torn))
    if not is_torn:
        violations += course.violations
        violations += messages.violations
    violations += check_answers(flow)
    for datagram in flow.datagrams:
        messages.sizes[datagram.payload_bytes] += 1
    carried = count_answers(flow)
    payload_bytes = course.new_bytes + sum(one.payload_bytes for one in flow.datagrams) + carried.read_bytes
    return FlowReport(
        flow=flow,
        course=course,
        messages=messages,
        carried=carried,
        answers=None if responses is None else count_answers(responses),
        answered_by=None if responses is None else responses.key.label,
        path_mtu=mtu,
        payload_bytes=payload_bytes,
        goodput_bps=None if is_torn else goodput_bps(payload_bytes, _payload_times(flow)),
    )


def _payload_times(flow: Flow) -> Iterator[int | None]:
    for sightings in (flow.requests, flow.datagrams, flow.responses):
        yield from (one.time_ns for one in sightings if one.payload_bytes)


def _notes(collector: Collector) -> Iterator[str]:
    if collector.superframes:
        yield (
            f"{collector.superframes} super-frames (captured before the kernel cut or after it merged them) were cut "
            "into their packets; their ICRCs are judged as of the packets"
        )
    if collector.unreadable_superframes:
        yield f"{collector.unreadable_superframes} super-frames could not be cut into packets and are left out"
    if collector.torn_superframes:
        yield (
            f"{collector.torn_superframes} super-frames were captured in part: gaps in their flows are not losses, and "
            "order, lengths, acknowledgements and retransmissions there are not judged (capture whole frames)"
        )
    if collector.cut_frames:
        yield f"{collector.cut_frames} frames were captured in part: their ICRCs could not be checked"
    if collector.fragments:
        yield f"{collector.fragments} IP fragments are left out"
    for opcode, count in sorted(collector.other_families.items()):
        yield f"{count} packets of opcode {opcode_name(opcode)}, another transport service: only ICRCs were checked"
    for link_type, count in sorted(collector.unknown_links.items()):
        yield f"{count} frames of link type {link_type} could not be read"
    if unanswered := _unmatched(collector):
        yield f"{unanswered} flows carry responses that fit no requests in the capture"


def _unmatched(collector: Collector) -> int:
    answering = {answers.key for answers in pair(collector.flows.values()).values()}
    flows = collector.flows.values()
    return sum(1 for flow in flows if flow.responses and flow.key not in answering)
