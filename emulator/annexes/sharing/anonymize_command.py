"""`charkha trace anonymize`: a copy of a trace without names, to give away."""

from __future__ import annotations

import argparse
import dataclasses
import secrets
from pathlib import Path

from emulator.annexes.sharing.anonymize import anonymize
from emulator.annexes.sharing.anonymized_trace import render
from emulator.annexes.sharing.anonymous import Jitter
from emulator.cli.options.converters import LARGEST_SEED, argument, at_least
from emulator.cli.options.run import TRACE, source_argument
from emulator.cli.options.table import OptionGroup, add_options, build, spec_part
from emulator.cli.output import print_json, print_tables
from emulator.cli.parser import Subparsers
from emulator.cli.playing import status
from emulator.errors import InputError
from emulator.results.run_folder.places import check_folder
from emulator.units import parse_fraction
from emulator.views.terminal.written_trace import files_line

GROUPS = [OptionGroup("", (source_argument(),)), TRACE]
_EPILOG = """example:
  charkha trace anonymize my-pytorch-traces traces/to-share --jitter 5%

The copy has what a run needs, with numbers instead of names, ids, groups and tags. It is proven
to play like SRC. The output says what can still be recognised: docs/sharing.md.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `anonymize` to the command line."""
    parser = subparsers.add_parser(
        "anonymize",
        description="Write a copy of a trace that you can share: it plays the same, but has no names.",
        epilog=_EPILOG,
    )
    add_options(parser, GROUPS)
    parser.add_argument("target", metavar="DST", type=Path, help="folder for the copy, new or empty")
    parser.add_argument(
        "--jitter",
        metavar="P",
        type=argument(parse_fraction),
        help="multiply every time by a random factor within 1 ± P, for example 5%% (default: copy times)",
    )
    parser.add_argument(
        "--seed",
        metavar="N",
        type=at_least(0, most=LARGEST_SEED),
        help="seed of the factors; keep it secret (default: random)",
    )
    parser.add_argument("--json", action="store_true", help="print the same facts as JSON")
    parser.set_defaults(handler=_run)


def _run(args: argparse.Namespace) -> None:
    check_folder(args.target, "DST")
    if args.seed is not None and args.jitter is None:
        raise InputError("--seed is for --jitter: without it, nothing is random")
    seed = secrets.randbits(128) if args.seed is None else args.seed
    jitter = None if args.jitter is None else Jitter(args.jitter, seed)
    trace = build(spec_part(args, GROUPS), GROUPS).job.trace
    assert trace is not None
    with status() as on_step:
        made = anonymize(trace, args.target, jitter=jitter, on_step=on_step)
    if args.json:
        print_json(dataclasses.asdict(made) | {"files": [str(path) for path in made.files]})
    else:
        print_tables(render(made), "", files_line(made.files))
