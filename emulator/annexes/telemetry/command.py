"""`charkha runs watch`: follow a run over MQTT in the terminal."""

from __future__ import annotations

import argparse
import asyncio

from emulator.annexes.telemetry.payloads import schema
from emulator.annexes.telemetry.publishing import broker
from emulator.annexes.telemetry.watching import follow
from emulator.cli.output import print_json
from emulator.cli.parser import Subparsers
from emulator.errors import InputError

_EPILOG = """example:
  charkha runs watch mqtt://localhost

Follows the current run, or the next one, until it ends. Exit code 0: it completed,
1: it did not. Runs publish with `charkha run --mqtt URL`. docs/telemetry.md lists the topics.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `watch` to the command line."""
    parser = subparsers.add_parser(
        "watch",
        description="Follow a run over MQTT: state, progress, and the classes of the last iteration.",
        epilog=_EPILOG,
    )
    parser.add_argument("broker", metavar="URL", nargs="?", help="mqtt://[USER@]HOST[:PORT][/PREFIX]")
    parser.add_argument("--run", metavar="ID", help="follow this run only (default: the first that has not ended)")
    parser.add_argument("--json", action="store_true", help="print every message as a line of JSON")
    parser.add_argument("--schema", action="store_true", help="print the JSON Schema of all messages, and end")
    parser.add_explain("emulator.annexes.telemetry.watching")
    parser.set_defaults(handler=_run)


def _run(args: argparse.Namespace) -> None:
    if args.schema:
        print_json(schema())
        return
    if args.broker is None:
        raise InputError("give the URL of the broker that the run publishes to: mqtt://[USER@]HOST[:PORT][/PREFIX]")
    if args.run is not None and any(character in args.run for character in "/+#"):
        raise InputError(f"--run {args.run}: a run id has no /, + or #")
    asyncio.run(follow(broker(args.broker), args.run, is_json=args.json))
