"""Frames of a capture file: pcap or pcapng, plain or gzip."""

from __future__ import annotations

from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path

from emulator.annexes.bench_kit.audit import pcapng
from emulator.annexes.bench_kit.audit.audit import Audit
from emulator.annexes.bench_kit.audit.link import CapturedFrame
from emulator.annexes.bench_kit.audit.pcap import PcapReader, is_pcap
from emulator.annexes.bench_kit.audit.report import AuditReport
from emulator.annexes.bench_kit.audit.stream import ByteStream, Damaged
from emulator.errors import InputError
from emulator.roce.constants import UDP_PORT


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

    def _reader(self, stream: ByteStream) -> PcapReader | pcapng.PcapngReader:
        try:
            magic = stream.take_unless_at_end(4)
        except Damaged as problem:
            raise InputError(f"{self._path}: neither pcap nor pcapng ({problem})") from problem
        if magic != pcapng.MAGIC and not is_pcap(magic):
            raise InputError(f"{self._path}: neither pcap nor pcapng")
        try:
            return pcapng.PcapngReader(stream) if magic == pcapng.MAGIC else PcapReader(magic, stream)
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
