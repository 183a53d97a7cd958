"""`charkha trace synth`: a new trace with the statistics of another."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

from emulator.annexes.sharing.sampled_trace import render
from emulator.annexes.sharing.synth import synthesise
from emulator.cli.options.converters import LARGEST_COUNT, at_least
from emulator.cli.options.run import TRACE, source_argument
from emulator.cli.options.table import OptionGroup, add_options, build, spec_part
from emulator.cli.output import print_json, print_tables
from emulator.cli.parser import Subparsers
from emulator.cli.playing import status
from emulator.results.run_folder.places import check_folder
from emulator.views.terminal.written_trace import files_line

GROUPS = [OptionGroup("", (source_argument(),)), TRACE]
_EPILOG = """example:
  charkha trace synth my-pytorch-traces traces/like-mine --seed 7

The order of operations, their sizes and the compute times before them are drawn from SRC. The
table says how far the sample is from SRC; docs/sharing.md says what is modelled and what is not.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `synth` to the command line."""
    parser = subparsers.add_parser(
        "synth", description="Draw a new trace from the statistics of another, and compare the two.", epilog=_EPILOG
    )
    add_options(parser, GROUPS)
    parser.add_argument("target", metavar="DST", type=Path, help="folder for the new trace, new or empty")
    parser.add_argument(
        "--seed",
        metavar="N",
        type=at_least(0, most=LARGEST_COUNT),
        default=1,
        help="a different seed gives a different trace (default: 1)",
    )
    parser.add_argument("--json", action="store_true", help="print the same facts as JSON")
    parser.add_explain("emulator.annexes.sharing.sampled_trace")
    parser.set_defaults(handler=_run)


def _run(args: argparse.Namespace) -> None:
    check_folder(args.target, "DST")
    trace = build(spec_part(args, GROUPS), GROUPS).job.trace
    assert trace is not None
    with status() as on_step:
        made = synthesise(trace, args.target, seed=args.seed, on_step=on_step)
    if args.json:
        print_json(dataclasses.asdict(made) | {"files": [str(path) for path in made.files]})
    else:
        print_tables(render(made), "", files_line(made.files))
