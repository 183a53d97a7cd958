"""`--profile` and `--counters-every`: what the device under test does in a run, and how often it is looked at."""

from __future__ import annotations

import argparse

from emulator.cli.options.arguments import argument
from emulator.dut.counters import PERIOD_S

SHORTEST_PERIOD_S, LONGEST_PERIOD_S = 0.02, 3600.0


def add_profile_option(parser: argparse.ArgumentParser) -> None:
    """What the device under test does to frames beside forwarding them."""
    group = parser.add_argument_group("device under test")
    group.add_argument(
        "--profile",
        metavar="NAME|FILE",
        help="firmware profile of the lab's switches for the length of the run, as fw-b (default: a clean device)",
    )
    group.add_argument(
        "--counters-every",
        metavar="S",
        type=argument(_period),
        default=PERIOD_S,
        help="read the counters of the device under test so often (default: 1)",
    )


def _period(text: str) -> float:
    try:
        value = float(text)
    except ValueError as error:
        raise ValueError(f"{text!r}: seconds are needed") from error
    if not SHORTEST_PERIOD_S <= value <= LONGEST_PERIOD_S:
        raise ValueError(f"{text!r}: from {SHORTEST_PERIOD_S:g} to {LONGEST_PERIOD_S:g} seconds")
    return value
