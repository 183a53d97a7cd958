"""`--repeat` and `--profiles`: how many runs are asked for."""

from __future__ import annotations

import argparse

from emulator.cli.options.arguments import argument, at_least

AUTO = 0
"""As many runs as the classes need."""


def add_repeat_options(parser: argparse.ArgumentParser) -> None:
    """What a command needs to make groups of runs."""
    group = parser.add_argument_group("repeat (for charkha compare)")
    group.add_argument(
        "--repeat",
        metavar="N|auto",
        type=_repeat,
        help="make N runs, each in a folder below --out; auto: as many as the classes need (4 for one, 6 up to 23)",
    )
    group.add_argument(
        "--profiles",
        metavar="A,B",
        type=argument(_profiles),
        default=(),
        help="firmware profiles, played in turns A B A B, a folder of runs for each (default of --repeat then: auto)",
    )


def _repeat(text: str) -> int:
    return AUTO if text == "auto" else at_least(1, most=999)(text)


def _profiles(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise ValueError(f"{text!r}: profiles are needed with commas between them, as fw-a,fw-b")
    return names


def is_repeated(args: argparse.Namespace) -> bool:
    """Whether more than one run is asked for."""
    return args.repeat is not None or bool(args.profiles)
