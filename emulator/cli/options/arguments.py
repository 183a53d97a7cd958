"""Options that several commands share, and their parsing."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from agents.transports.base import DEFAULT_MESSAGE_BYTES
from agents.transports.catalogue import TRANSPORTS
from emulator.cli.options.reporting import Place, parse_place
from emulator.units import format_size, parse_size

if TYPE_CHECKING:
    # argparse has no public name for what add_subparsers returns, and at run time it is no generic
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]
T = TypeVar("T")

LARGEST_COUNT = (1 << 31) - 1
"""Iterations and the like are stored in 32 bits."""
LARGEST_SEED = (1 << 64) - 1
LARGEST_FACTOR = 10**9
LARGEST_MESSAGE_BYTES = 1 << 30


def argument(parse: Callable[[str], T]) -> Callable[[str], T]:
    """An argparse type whose error text is that of the ValueError."""

    def converter(text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return converter


def at_least(least: int, *, most: int = LARGEST_COUNT) -> Callable[[str], int]:
    """An argparse type: a whole number from `least` to `most`."""

    def parse(text: str) -> int:
        if not text.lstrip("-").isdecimal() or int(text) < least:
            raise ValueError(f"{text!r}: a whole number of at least {least} is needed")
        if int(text) > most:
            raise ValueError(f"{text!r}: a whole number of at most {most} is needed")
        return int(text)

    return argument(parse)


def _factor(text: str) -> Fraction:
    problem = f"{text[:40]!r}: a factor above 0 is needed, as 0.01 or 1/64, from 1e-9 to 1e9"
    try:
        # A float takes any exponent at once, a Fraction would write it out.
        value = Fraction(text) if "/" in text or 0 < float(text) <= LARGEST_FACTOR else Fraction(0)
    except (ValueError, ZeroDivisionError) as error:
        raise ValueError(problem) from error
    if not Fraction(1, LARGEST_FACTOR) <= value <= LARGEST_FACTOR:
        raise ValueError(problem)
    return value


def _compute(text: str) -> float:
    if text in ("replay", "skip"):
        return 1.0 if text == "replay" else 0.0
    try:
        return float(_factor(text))
    except ValueError as error:
        raise ValueError(f"{text!r}: replay, skip, or a factor on compute time is needed") from error


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError as error:
        raise ValueError(f"{text!r}: seconds are needed") from error
    if not 0 < value < float("inf"):
        raise ValueError(f"{text!r}: seconds above 0 are needed")
    return value


def _default_message_sizes() -> str:
    return ", ".join(f"{format_size(size)} with {name}" for name, size in DEFAULT_MESSAGE_BYTES.items())


def _message_bytes(text: str) -> int:
    value = parse_size(text)
    if not 1 <= value <= LARGEST_MESSAGE_BYTES:
        raise ValueError(f"{text!r}: messages have 1 byte to 1 GiB")
    return value


def add_trace_options(parser: argparse.ArgumentParser, *, optional: bool = False) -> None:
    """What a command needs to read a trace; `optional` where it can do without one."""
    parser.add_argument(
        "trace",
        metavar="TRACE",
        type=Path,
        nargs="?" if optional else None,
        help="a folder, a prefix of <prefix>.<rank>.et, or one file",
    )
    group = parser.add_argument_group("trace")
    group.add_argument("--groups", metavar="FILE", type=Path, help='process groups: JSON {"1": [0, 1], …}')
    group.add_argument("--ranks", metavar="N", type=at_least(1), help="how many ranks the trace must have")
    group.add_argument("--lenient", action="store_true", help="drop dependencies on nodes that do not exist")
    group.add_argument(
        "--element-bytes",
        metavar="N",
        type=at_least(1),
        default=None,
        help="the trace's comm_size counts elements of N bytes",
    )
    group.add_argument(
        "--scale-bytes", metavar="F", type=argument(_factor), default=Fraction(1), help="multiply every payload by F"
    )


def add_play_options(parser: argparse.ArgumentParser, *, iterations: int, warmup: int) -> None:
    """What a command needs to play something."""
    group = parser.add_argument_group("play")
    group.add_argument("--topology", metavar="FILE", type=Path, help="hosts, addresses, rates (default: loopback)")
    group.add_argument("--lab", metavar="ID", help="the lab to play in, where several are of the topology's file")
    group.add_argument(
        "--allow-network",
        metavar="PREFIX",
        action="append",
        default=[],
        help="let the topology name addresses of this prefix, as 192.0.2.0/24",
    )
    group.add_argument("--transport", choices=TRANSPORTS, help=f"default: the topology's, or {TRANSPORTS[0]}")
    group.add_argument("--agents", metavar="N", type=at_least(1), help="agent processes (default: one per core)")
    group.add_argument("--iterations", metavar="N", type=at_least(1), default=iterations, help=f"default: {iterations}")
    group.add_argument(
        "--warmup", metavar="N", type=at_least(0), default=warmup, help=f"iterations not counted (default: {warmup})"
    )
    group.add_argument(
        "--algorithm",
        metavar="COLLECTIVE=NAME",
        action="append",
        default=[],
        help="play a collective with this algorithm, as all_reduce=ring (repeatable)",
    )
    group.add_argument("--credits", choices=("on", "off"), default="on", help="receiver-ready credits (default: on)")
    group.add_argument(
        "--message-bytes",
        metavar="SIZE",
        type=argument(_message_bytes),
        help=f"payload is cut into messages of at most this (default: {_default_message_sizes()})",
    )
    group.add_argument(
        "--timeout", metavar="S", type=argument(_seconds), default=60.0, help="give up when nothing moves (default: 60)"
    )
    group.add_argument(
        "--seed", metavar="N", type=at_least(0, most=LARGEST_SEED), default=0, help="of everything random (default: 0)"
    )
    dialling = parser.add_argument_group("agents on other machines")
    dialling.add_argument("--listen", metavar="HOST:PORT", help="where they dial in, for hosts that `agents` names")
    dialling.add_argument(
        "--join-timeout",
        metavar="S",
        type=argument(_seconds),
        default=60.0,
        help="give up when one has not dialled in by then (default: 60)",
    )
    add_secret_options(dialling)
    group.add_argument(
        "--calibration", metavar="FILE", type=Path, help="from `charkha calibrate` (default: this host's own)"
    )
    output = parser.add_argument_group("output")
    output.add_argument("--out", metavar="DIR", type=Path, help="run folder (default: runs/<time>-<trace>)")
    output.add_argument("--json", action="store_true", help="the facts of the table as JSON on stdout")
    output.add_argument("--no-report", dest="report", action="store_false", help="leave report.html away")
    output.add_argument(
        "--live",
        metavar="PORT",
        nargs="?",
        type=argument(parse_place),
        const=Place(),
        help="serve the report at 127.0.0.1 while the run goes on (default: a free port; or ADDRESS:PORT)",
    )


def add_secret_options(group: argparse._ArgumentGroup) -> None:
    """What protects the control stream: both sides take it."""
    group.add_argument(
        "--token-file", metavar="FILE", type=Path, help="secret that agents must know (default: CHARKHA_TOKEN)"
    )
    group.add_argument("--tls-cert", metavar="FILE", type=Path, help="own certificate, PEM: the stream is encrypted")
    group.add_argument("--tls-key", metavar="FILE", type=Path, help="its key, PEM")
    group.add_argument(
        "--tls-ca", metavar="FILE", type=Path, help="the other side must have a certificate of this authority, PEM"
    )


def add_compute_option(parser: argparse.ArgumentParser) -> None:
    """What becomes of recorded compute time."""
    parser.add_argument(
        "--compute",
        metavar="replay|skip|FACTOR",
        type=argument(_compute),
        default=1.0,
        help="take compute time as recorded, not at all, or times a factor (default: replay)",
    )
