"""`charkha audit`: check captured RoCEv2 frames, of our endpoints or anybody else's."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.audit.audit import Audit
from emulator.audit.capture import Capture
from emulator.audit.report import AuditReport, to_json
from emulator.errors import InputError
from emulator.roce.constants import UDP_PORT
from emulator.views.terminal.audit_table import render
from emulator.views.terminal.console import console

if TYPE_CHECKING:
    from emulator.cli.options.arguments import Subparsers

BROKEN = 1
"""Exit code where a rule is broken."""

_LARGEST_PORT = 65535
_EXAMPLE = """example:
  tcpdump -i eth0 -w roce.pcap udp port 4791
  charkha audit roce.pcap

Exit code 0: no rule is broken. Exit code 1: one is, and each violation is shown with its frame number. Losses, NAKs and
retransmissions break no rule; they are counted. docs/audit.md explains every rule and column.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `audit` to the command line."""
    parser = subparsers.add_parser(
        "audit",
        help="check captured RoCEv2 frames",
        description="Check the RoCEv2 frames of a capture: ICRC, PSN order, ACK and NAK, retransmissions, congestion "
        "notifications.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("capture", metavar="PCAP", type=Path, help="a pcap or pcapng file, plain or gzip")
    parser.add_argument("--port", type=_port, default=UDP_PORT, help="UDP destination port (default: 4791)")
    parser.add_argument("--json", action="store_true", help="the whole report as JSON on stdout")
    parser.set_defaults(handler=run)


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= _LARGEST_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is no UDP port: write a number from 1 to {_LARGEST_PORT}")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Audit a capture; prints the table, or JSON.

    Raises:
        InputError: it cannot be read, or holds nothing to audit.
        HostError: the library that reads captures is not installed.
    """
    report = audit_file(args.capture, port=args.port)
    if args.json:
        print(json.dumps(to_json(report), indent=2))
    else:
        console().print(render(report))
    return BROKEN if report.violations else 0


def audit_file(path: Path, *, port: int = UDP_PORT) -> AuditReport:
    """Audit a capture file.

    Raises:
        InputError: it cannot be read, or holds nothing to audit.
        HostError: the library that reads captures is not installed.
    """
    capture, audit = Capture(path), Audit(port=port)
    for frame in capture:
        audit.add(frame)
    report = audit.finish(str(path), notes=tuple(capture.notes))
    if not report.roce_frames:
        because = "".join(f"; {note}" for note in report.notes)
        raise InputError(
            f"{path}: none of its {report.frames} frames is for UDP port {port} (--port names another){because}"
        )
    return report
