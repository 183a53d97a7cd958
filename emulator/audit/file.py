"""The audit of a capture file."""

from __future__ import annotations

from pathlib import Path

from emulator.audit.audit import Audit
from emulator.audit.capture import Capture
from emulator.audit.report import AuditReport
from emulator.errors import InputError
from emulator.roce.constants import UDP_PORT


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
