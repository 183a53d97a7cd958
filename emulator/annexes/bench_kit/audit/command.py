"""`charkha runs audit`: check captured RoCEv2 frames of any endpoint."""

from __future__ import annotations

import argparse
from pathlib import Path

from emulator import exit_codes
from emulator.annexes.bench_kit.audit.audit_table import render
from emulator.annexes.bench_kit.audit.capture import audit_file
from emulator.annexes.bench_kit.audit.report import to_json
from emulator.cli.options.converters import at_least
from emulator.cli.output import print_json, print_tables
from emulator.cli.parser import Subparsers
from emulator.roce.constants import UDP_PORT

_EPILOG = """example:
  tcpdump -i eth0 -w roce.pcap udp port 4791
  charkha runs audit roce.pcap

Exit code 1 means that a rule is violated; the frame number of each violation is shown. Losses, NAKs
and retransmissions violate no rule; they are counted. docs/audit.md explains every rule and column.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `audit` to the command line."""
    parser = subparsers.add_parser(
        "audit",
        description="Check captured RoCEv2 frames: ICRC, PSN order, ACKs and NAKs, retransmissions, CNPs.",
        epilog=_EPILOG,
    )
    parser.add_argument("capture", metavar="PCAP", type=Path, help="a pcap or pcapng file, plain or gzip")
    parser.add_argument(
        "--port", metavar="N", type=at_least(1, most=65_535), default=UDP_PORT, help=f"UDP port (default: {UDP_PORT})"
    )
    parser.add_argument("--json", action="store_true", help="print the whole report as JSON")
    parser.add_explain("emulator.annexes.bench_kit.audit.audit_table")
    parser.set_defaults(handler=_run)


def _run(args: argparse.Namespace) -> int:
    report = audit_file(args.capture, port=args.port)
    if args.json:
        print_json(to_json(report))
    else:
        print_tables(render(report))
    return exit_codes.FAILED if report.violations else exit_codes.DONE
