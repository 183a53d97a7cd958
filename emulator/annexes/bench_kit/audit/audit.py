"""The audit of a capture: frames of a pcap or pcapng file, plain or gzip, in; report out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from io import BufferedReader
from pathlib import Path

from emulator.annexes.bench_kit.audit import pcap
from emulator.annexes.bench_kit.audit.collect import Collector
from emulator.annexes.bench_kit.audit.flow import (
    NEED_EVERY_FRAME,
    CapturedFlow,
    CapturedFlowKey,
    CapturedPacket,
    Violation,
)
from emulator.annexes.bench_kit.audit.messages import (
    assemble,
    check_answers,
    count_answers,
    path_mtu,
    path_mtu_of_reads,
)
from emulator.annexes.bench_kit.audit.pcap import ByteStream, CapturedFrame, Damaged, PcapReader, is_pcap
from emulator.annexes.bench_kit.audit.report import AuditedFlow, AuditReport, goodput_bps, opcode_name
from emulator.annexes.bench_kit.audit.tracking import Tracker
from emulator.errors import InputError
from emulator.roce.constants import UDP_PORT
from emulator.roce.multipath.wire import SELECTIVE_ACK
from emulator.roce.wire.psn import Psn


class Audit:
    """The audit of one capture: pass all frames to `add` in their order, then call `finish`.

    Args:
        port: UDP destination port of RoCEv2, usually 4791.
    """

    def __init__(self, *, port: int) -> None:
        self._port = port
        self._collector = Collector(port=port)
        self.add = self._collector.add

    def finish(self, path: str, *, notes: tuple[str, ...] = ()) -> AuditReport:
        """The report on all frames.

        Args:
            path: the capture, for the report.
            notes: problems of the capture file.
        """
        collector = self._collector
        pairs = pair(collector.flows.values())
        violations = list(collector.violations)
        sprayed = _sprayed(collector)
        reports = []
        for flow in collector.flows.values():
            judged = None if _ends(flow) in sprayed else violations
            reports.append(_report(flow, pairs.get(flow.key), judged, has_unread=collector.has_unread(flow)))
        return AuditReport(
            path=path,
            port=self._port,
            frames=collector.frames,
            roce_frames=collector.roce_frames,
            superframes=collector.superframes + collector.unreadable_superframes + collector.truncated_superframes,
            flows=tuple(reports),
            violations=tuple(sorted(violations, key=lambda one: one.frame)),
            notes=(*notes, *_notes(collector)),
        )


def _ends(flow: CapturedFlow) -> frozenset[bytes]:
    return frozenset((flow.key.source, flow.key.destination))


def _sprayed(collector: Collector) -> set[frozenset[bytes]]:
    """Pairs of hosts whose packets keep the rules of the multipath profile, not those of a reliable connection."""
    return {_ends(flow) for flow in collector.flows.values() if SELECTIVE_ACK in flow.opcodes}


def _report(
    flow: CapturedFlow, responses: CapturedFlow | None, violations: list[Violation] | None, *, has_unread: bool
) -> AuditedFlow:
    """Report on one flow, and add its violations to `violations`.

    Args:
        violations: None if the flow keeps other rules.
        has_unread: packets of the flow can be in frames that could not be read.
    """
    mtu = (
        path_mtu(flow.requests)
        or (path_mtu(responses.responses) if responses else None)
        or path_mtu_of_reads(flow.requests)
    )
    stats = Tracker(flow, responses, mtu=mtu, is_ordered=violations is not None).follow(has_unread=has_unread)
    messages = assemble(stats.sent, mtu=mtu, flow=flow.key.label)
    is_truncated = bool(flow.truncated_superframes or (responses and responses.truncated_superframes))
    if violations is not None:
        found = [*check_answers(flow), *([] if is_truncated else [*stats.violations, *messages.violations])]
        violations += [one for one in found if not (has_unread and one.rule in NEED_EVERY_FRAME)]
    for datagram in flow.datagrams:
        messages.sizes[datagram.payload_bytes] += 1
    carried = count_answers(flow)
    payload_bytes = stats.new_bytes + sum(one.payload_bytes for one in flow.datagrams) + carried.read_bytes
    return AuditedFlow(
        flow=flow,
        stats=stats,
        messages=messages,
        carried=carried,
        answers=None if responses is None else count_answers(responses),
        answered_by=None if responses is None else responses.key.label,
        path_mtu=mtu,
        payload_bytes=payload_bytes,
        goodput_bps=None if is_truncated else goodput_bps(payload_bytes, _payload_times(flow)),
    )


def _payload_times(flow: CapturedFlow) -> Iterator[int | None]:
    for packets in (flow.requests, flow.datagrams, flow.responses):
        yield from (one.time_ns for one in packets if one.payload_bytes)


def _notes(collector: Collector) -> Iterator[str]:
    if collector.superframes:
        yield (
            f"{_count(collector.superframes, 'super-frame')} (captured before segmentation or after GRO) split into "
            "packets; the ICRC of each packet is judged as it is on the wire"
        )
    if collector.unreadable_superframes:
        yield f"{_count(collector.unreadable_superframes, 'super-frame')} ignored: no packet boundaries found"
    if collector.truncated_superframes:
        yield (
            f"{_count(collector.truncated_superframes, 'super-frame')} captured in part: in their flows, gaps do not "
            "count as losses, and order, lengths, acknowledgements and retransmissions are not judged (capture whole "
            "frames)"
        )
    if collector.truncated_frames:
        yield f"{_count(collector.truncated_frames, 'frame')} captured in part: ICRCs not checked"
    if collector.fragments:
        yield f"{_count(collector.fragments, 'IP fragment')} ignored"
    if collector.cut:
        yield f"{_count(collector.cut, 'frame')} ignored: captured without the headers of RoCEv2"
    if collector.roce_v1:
        yield f"{_count(collector.roce_v1, 'frame')} of RoCE v1 (EtherType 0x8915) ignored: only RoCEv2 is audited"
    for name, count in sorted(collector.encapsulated.items()):
        yield f"{_count(count, 'frame')} read through {name}; addresses and CE marks are those of the packets inside"
    for name, count in sorted(collector.unread.items()):
        yield f"{_count(count, 'frame')} ignored: {name} cannot be read"
    if sprayed := _sprayed(collector):
        flows = sum(_ends(flow) in sprayed for flow in collector.flows.values())
        yield (
            f"{_count(flows, 'flow')} of Charkha's multipath profile (they have selective acknowledgements, opcode "
            f"{SELECTIVE_ACK:#04x}): headers and ICRCs are judged; order, acknowledgements and retransmissions are not"
        )
    for opcode, count in sorted((collector.other_families - Counter({SELECTIVE_ACK: 1 << 62})).items()):
        yield f"{_count(count, 'packet')} of opcode {opcode_name(opcode)}, another transport service: only ICRC checked"
    for link_type, count in sorted(collector.unknown_links.items()):
        yield f"{_count(count, 'frame')} ignored: link type {link_type} is not supported"
    if withheld := sum(collector.has_unread(flow) for flow in collector.flows.values()):
        yield (
            f"in {_count(withheld, 'flow')}, packets can be in frames that were ignored: missing packets, order, "
            "acknowledgements and retransmissions are not judged"
        )
    if unanswered := _unmatched(collector):
        yield f"{_count(unanswered, 'flow')} of responses without the requests in the capture"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _unmatched(collector: Collector) -> int:
    answering = {answers.key for answers in pair(collector.flows.values()).values()}
    flows = collector.flows.values()
    return sum(1 for flow in flows if flow.responses and flow.key not in answering)


_SAMPLE = 64


def pair(flows: Iterable[CapturedFlow]) -> dict[CapturedFlowKey, CapturedFlow]:
    """Match each flow of requests with the flow of their responses.

    Responses go in the opposite direction between the same addresses, and name PSNs that were sent before. Of several
    candidates the one with most such PSNs wins; ties go to the same UDP source port, then to the same queue pair.

    Returns:
        Flow of the responses by the key of the requests. Flows without a match are not in it.
    """
    by_addresses: dict[tuple[bytes, bytes], list[CapturedFlow]] = defaultdict(list)
    flows = list(flows)
    for flow in flows:
        if flow.requests:
            by_addresses[flow.key.source, flow.key.destination].append(flow)
    first_frames = {flow.key: _first_frames(flow.requests) for some in by_addresses.values() for flow in some}
    claims: list[tuple[tuple[int, bool, bool], CapturedFlow, CapturedFlow]] = []
    for answers in flows:
        for requesting in by_addresses.get((answers.key.destination, answers.key.source), ()):
            score = _score(first_frames[requesting.key], answers.responses)
            if score > 0:
                alike = (requesting.source_port == answers.source_port, requesting.key.dest_qp == answers.key.dest_qp)
                claims.append(((score, *alike), requesting, answers))
    return _settle(claims)


def _settle(
    claims: list[tuple[tuple[int, bool, bool], CapturedFlow, CapturedFlow]],
) -> dict[CapturedFlowKey, CapturedFlow]:
    """Accept claims, the strongest first; each flow gets at most one match."""
    pairs: dict[CapturedFlowKey, CapturedFlow] = {}
    taken: set[CapturedFlowKey] = set()
    for _, requesting, answers in sorted(claims, key=lambda claim: claim[0], reverse=True):
        if requesting.key not in pairs and answers.key not in taken:
            pairs[requesting.key] = answers
            taken.add(answers.key)
    return pairs


def _first_frames(requests: list[CapturedPacket]) -> dict[Psn, int]:
    frames: dict[Psn, int] = {}
    for packet in requests:
        frames.setdefault(packet.psn, packet.frame)
    return frames


def _score(first_frames: dict[Psn, int], responses: list[CapturedPacket]) -> int:
    """How many of a sample of the responses name a PSN that was sent before; only the first of a READ does."""
    responses = [one for one in responses if one.meaning.place.starts]
    step = max(1, len(responses) // _SAMPLE)
    last = responses[-1].frame if responses else 0
    return sum(first_frames.get(one.psn, last + 1) < one.frame for one in responses[::step])


class Capture:
    """The frames of a capture file, in its order.

    `notes` is complete once the iteration has ended: it reports a file that ends in the middle of a record.

    Raises:
        InputError: the file cannot be read, or is not a capture; raised while iterating.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.notes: list[str] = []

    def __iter__(self) -> Iterator[CapturedFrame]:
        try:
            with self._path.open("rb") as file:
                yield from self._frames(file)
        except OSError as error:
            raise InputError(f"{self._path}: {error.strerror or error}") from error

    def _frames(self, file: BufferedReader) -> Iterator[CapturedFrame]:
        reader = self._reader(ByteStream(file))
        number = 0
        try:
            for frame in reader:
                number = frame.number
                yield frame
        except Damaged as problem:
            self.notes.append(f"the file is damaged or ends early after frame {number}: {problem}")

    def _reader(self, stream: ByteStream) -> PcapReader | pcap.PcapngReader:
        try:
            magic = stream.take_unless_at_end(4)
        except Damaged as problem:
            raise InputError(f"{self._path}: neither pcap nor pcapng ({problem})") from problem
        if magic != pcap.MAGIC and not is_pcap(magic):
            raise InputError(f"{self._path}: neither pcap nor pcapng")
        try:
            return pcap.PcapngReader(stream) if magic == pcap.MAGIC else PcapReader(magic, stream)
        except Damaged as problem:
            raise InputError(f"{self._path}: the header of the file is damaged or incomplete ({problem})") from problem


def audit_file(path: Path, *, port: int = UDP_PORT) -> AuditReport:
    """Audit the RoCEv2 frames of a capture file.

    Args:
        path: pcap or pcapng, plain or gzip.
        port: UDP destination port of RoCEv2.

    Raises:
        InputError: the file cannot be read, or has no frame for this port.
    """
    capture, audit = Capture(path), Audit(port=port)
    for frame in capture:
        audit.add(frame)
    report = audit.finish(str(path), notes=tuple(capture.notes))
    if not report.roce_frames:
        because = "".join(f"; {note}" for note in report.notes)
        problem = f"none of its {report.frames} frames goes to UDP port {port} (choose another with --port){because}"
        raise InputError(f"{path}: {problem}")
    return report
