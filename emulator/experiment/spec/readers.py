"""What texts and numbers of a run spec mean, wherever they come from: a file, the command line or Python."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path

from emulator.shipped import TOPOLOGIES, TRACES
from emulator.units import parse_duration, parse_size

LARGEST_FACTOR = 10**9
LARGEST_MESSAGE_BYTES = 1 << 30
_ALGORITHM_SUFFIX = ".xml"


def parse_factor(text: str) -> Fraction:
    """A factor from 1e-9 to 1e9: `0.01`, `1/64`.

    Raises:
        ValueError: not such a factor.
    """
    problem = f"{text[:40]!r}: give a factor from 1e-9 to 1e9, such as 0.01 or 1/64"
    try:
        # A float accepts any exponent; a Fraction would expand it.
        value = Fraction(text) if "/" in text or 0 < float(text) <= LARGEST_FACTOR else Fraction(0)
    except (ValueError, ZeroDivisionError) as error:
        raise ValueError(problem) from error
    if not Fraction(1, LARGEST_FACTOR) <= value <= LARGEST_FACTOR:
        raise ValueError(problem)
    return value


def parse_scale(text: str) -> str:
    """A factor as it is stored: `1/64`.

    Raises:
        ValueError: see `parse_factor`.
    """
    return str(parse_factor(text))


def parse_hosts(text: str) -> str | list[str]:
    """Hosts of a job: `h0+h1`, or a share of all: `1/2`."""
    return text if "/" in text else text.split("+")


def parse_profile(text: str) -> str:
    """One of `fw-a,fw-b`.

    Raises:
        ValueError: it is empty.
    """
    if not text.strip():
        raise ValueError("a name is empty: separate profiles by commas, as in fw-a,fw-b")
    return text.strip()


def parse_ratio(text: str) -> int | float:
    """The ratio of one size of a sweep to the one before: above 1 and at most 1e9, as 2 or 1.5.

    Raises:
        ValueError: not such a number.
    """
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1 < value <= LARGEST_FACTOR:
        raise ValueError(f"{text!r}: give a factor above 1, such as 2 or 1.5")
    return int(value) if value.is_integer() else value


def parse_message_bytes(text: str) -> int:
    """Payload of a message, bytes: `64K`, `4M`.

    Raises:
        ValueError: not a size from 1 byte to 1 GiB.
    """
    size_bytes = parse_size(text)
    if not 1 <= size_bytes <= LARGEST_MESSAGE_BYTES:
        raise ValueError(f"{text} is outside 1 byte to 1 GiB")
    return size_bytes


def parse_compute(text: str) -> str:
    """`replay`, `skip`, or a factor on compute time.

    Raises:
        ValueError: none of them.
    """
    if text in ("replay", "skip"):
        return text
    try:
        return str(parse_factor(text))
    except ValueError as error:
        raise ValueError(f"{text!r}: give replay, skip, or a factor for compute time") from error


def parse_start(text: str) -> str:
    """When a job begins after the session began: `3ms`, `+3ms`, `0`.

    Raises:
        ValueError: not such a time.
    """
    text = text.strip().removeprefix("+")
    text = "0us" if text == "0" else text
    parse_duration(text)
    return text


def locate(folder: Path, path: str) -> str:
    """The path of a file, if it starts at a folder."""
    return os.fspath(folder / path)


def locate_trace(folder: Path, path: str) -> str:
    """As `locate`, or one that Charkha ships."""
    return os.fspath(TRACES.find(path, beside=folder))


def locate_topology(folder: Path, path: str) -> str:
    """As `locate`, or one that Charkha ships."""
    return os.fspath(TOPOLOGIES.find(path, beside=folder))


def locate_rules(folder: Path, path: str) -> str:
    """As `locate`; the name of shipped rules stays."""
    from emulator.results.verdict.rules import EXAMPLE  # heavy, and few run specs have rules

    return path if path == EXAMPLE else locate(folder, path)


def locate_algorithm(folder: Path, name: str) -> str:
    """As `locate`; the name of an algorithm stays."""
    return locate(folder, name) if is_algorithm_file(name) else name


def is_algorithm_file(algorithm: str) -> bool:
    """Whether it is the path of a file, not a name."""
    return algorithm.endswith(_ALGORITHM_SUFFIX)
