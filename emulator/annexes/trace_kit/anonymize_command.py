"""`charkha trace anonymize`: a copy of a trace without names, to give away, and what it still tells."""

from __future__ import annotations

import argparse
import dataclasses
import secrets
from collections.abc import Iterator
from pathlib import Path

from rich.console import Group, RenderableType

from emulator.annexes.trace_kit.anonymous import AnonymizedTrace, Jitter, anonymize
from emulator.cli.options import SOURCE_TRACE, add_options, build, given
from emulator.cli.output import files_line, print_json, print_tables
from emulator.cli.parser import Subparsers, argument, at_least
from emulator.cli.playing import status
from emulator.errors import InputError
from emulator.results.run_folder.places import check_folder
from emulator.units import LARGEST_SEED, parse_fraction
from emulator.views.columns.figures import count_of
from emulator.views.terminal.table import facts_grid

SHOWN_ATTRIBUTES = 12


def render(made: AnonymizedTrace) -> RenderableType:
    """The report of `charkha trace anonymize`."""
    return Group(facts_grid(_lines(made)))


def _lines(made: AnonymizedTrace) -> Iterator[tuple[str, str]]:
    replaced = [
        count_of(made.names, "name"),
        f"ids of {count_of(made.nodes, 'node')}",
        count_of(made.groups, "process group"),
        count_of(made.tags, "tag"),
    ]
    yield "replaced", ", ".join(replaced)
    yield "left out", _dropped(made)
    yield "times", "copied" if made.jitter is None else f"factors from {1 - made.jitter:g} to {1 + made.jitter:g}"
    yield "plays alike", "verified: same operations, sizes and dependencies, in the same order"
    for number, one in enumerate(made.recognisable):
        yield ("still recognisable" if number == 0 else ""), one


def _dropped(made: AnonymizedTrace) -> str:
    names = list(made.dropped)
    more = f" and {len(names) - SHOWN_ATTRIBUTES} more" if len(names) > SHOWN_ATTRIBUTES else ""
    listed = f": {', '.join(names[:SHOWN_ATTRIBUTES])}{more}" if names else ""
    return f"metadata and tensors of the files, {count_of(len(names), 'attribute')}{listed}"


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
    add_options(parser, SOURCE_TRACE)
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
    trace = build(given(args, SOURCE_TRACE), SOURCE_TRACE).job.trace
    assert trace is not None
    with status() as on_step:
        made = anonymize(trace, args.target, jitter=jitter, on_step=on_step)
    if args.json:
        print_json(dataclasses.asdict(made) | {"files": [str(path) for path in made.files]})
    else:
        print_tables(render(made), "", files_line(made.files))
