"""Types and units of quantities, and their text forms.

Everywhere, times are integers in nanoseconds (microseconds only inside .et files), sizes are bytes, rates are bits per
second.
"""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta

US_PER_MS = 1_000
US_PER_S = 1_000_000
NS_PER_US = 1_000
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000
BITS_PER_BYTE = 8
LARGEST = (1 << 63) - 1
"""Bytes, nanoseconds and bits per second are stored in 64 bits with a sign."""

LARGEST_COUNT = (1 << 31) - 1
"""Iterations, ranks and messages are stored in 32 bits."""
LARGEST_SEED = (1 << 64) - 1
_LONGEST_NUMBER = 40
"""Characters; longer ones are too large, or not meant."""
_BINARY = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_DECIMAL = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_SIZE = re.compile(r"(\d+)\s*([KMGT]?)(i?B)?", re.IGNORECASE | re.ASCII)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s)", re.ASCII)
_UNIT_NS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9}
_AGO = re.compile(r"(\d{1,6})([hdw])", re.ASCII)
_HOURS = {"h": 1, "d": 24, "w": 168}
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*([kKMGT]?)(bit|bps|b/s|bit/s|B/s)", re.ASCII)


def parse_size(text: str) -> int:
    """Read a size: `8`, `1K`, `64M`, `4GiB` in powers of 1,024, as nccl-tests does; `64MB` in powers of 1,000.

    Returns:
        Bytes.

    Raises:
        ValueError: the text is not a size.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(
            f"{text!r} is not a size: write bytes, or a whole number with K, M, G or T (1K = 1KiB = 1024, 1KB = 1000)"
        )
    factors = _DECIMAL if (match[3] or "").upper() == "B" else _BINARY
    count = int(match[1]) if len(match[1]) <= _LONGEST_NUMBER else LARGEST + 1
    return _bounded(text, count * factors[match[2].upper()])


def parse_rate(text: str) -> int:
    """Read a rate with its unit: `100Gbit`, `400 Mbps`, or bytes: `450GB/s`. Letters are powers of 1,000.

    Returns:
        Bits per second.

    Raises:
        ValueError: the text is not a rate.
    """
    match = _RATE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a rate: give a number with a unit, such as 100Gbit or 400Mbit")
    value = min(float(match[1]), 2.0 * LARGEST) * _DECIMAL[match[2]] * (BITS_PER_BYTE if match[3] == "B/s" else 1)
    return _bounded(text, round(value))


def parse_duration(text: str) -> int:
    """Read a duration with its unit: `5us`, `1.5 ms`.

    Returns:
        Nanoseconds.

    Raises:
        ValueError: the text is not a duration.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a time: give a number with a unit, such as 5us or 1.5ms")
    return _bounded(text, round(min(float(match[1]), 2.0 * LARGEST) * _UNIT_NS[match[2]]))


def _bounded(text: str, value: int) -> int:
    """A quantity that is stored in 64 bits with a sign.

    Raises:
        ValueError: it is larger.
    """
    if value > LARGEST:
        shown = text if len(text) <= _LONGEST_NUMBER else f"{text[:37]}…"
        raise ValueError(f"{shown!r} is too large: give at most 2^63 - 1 of the smallest unit")
    return value


def digits(text: str) -> int | None:
    """The number of a text that has only the digits 0 to 9; None: it has others, or more than any number that is meant.

    `int` alone takes digits of every script, and refuses very long texts in words of its own.
    """
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _LONGEST_NUMBER else None


def parse_whole(text: str, *, least: int | None = None, most: int | None = None, named: str = "") -> int:
    """Read a whole number.

    Args:
        text: it.
        least, most: its range; None: no bound.
        named: what else the text may be, as the end of what is needed: `, or auto`.

    Raises:
        ValueError: the text is not such a number.
    """
    size = digits(text.removeprefix("-"))
    value = -size if size is not None and text.startswith("-") else size
    if value is None or (least is not None and value < least):
        bound = "" if least is None else f" of at least {least}"
        raise ValueError(f"{text[:40]!r}: give a whole number{bound}{named}")
    if most is not None and value > most:
        raise ValueError(f"{text[:40]!r}: give a whole number of at most {most}{named}")
    return value


def parse_number(text: str, *, unit: str = "", least: float = 0.0, most: float = math.inf) -> float:
    """Read a number without its unit: above 0, from `least` to `most`; any, if `least` is -inf.

    Raises:
        ValueError: the text is not such a number; the message names the unit.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if least == -math.inf and math.isfinite(value):
        return value
    if not (0 < value < math.inf and least <= value <= most):
        bounds = (f" from {least:g}" if least else " above 0") + (f" to {most:g}" if most < math.inf else "")
        what = f"a number of {unit}" if unit else "a number"
        raise ValueError(f"{text!r}: give {what}{bounds if least > -math.inf else ''}")
    return value


def parse_fraction(text: str) -> float:
    """Read a fraction between 0 and 1, both excluded: `3%`, `0.03`.

    Raises:
        ValueError: the text is not such a fraction.
    """
    try:
        value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise ValueError(f"{text!r} is not above 0% and below 100%: write it as 3% or 0.03")
    return value


def parse_moment(text: str, *, now: datetime) -> datetime:
    """Read a date, with or without a time of day, or a time before now: `2026-01-31T18:00`, `12h`, `7d`, `2w`.

    Args:
        text: ISO 8601, or a number of hours, days or weeks.
        now: the current time with its zone, which is that of a date without one.

    Raises:
        ValueError: the text is neither.
    """
    ago = _AGO.fullmatch(text)
    try:
        moment = now - timedelta(hours=int(ago[1]) * _HOURS[ago[2]]) if ago else datetime.fromisoformat(text)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{text!r}: write a date as 2026-01-31 or 2026-01-31T18:00, or an age such as 7d") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=now.tzinfo)


def format_size(size_bytes: int) -> str:
    """Format a size: without decimals if a binary unit divides it, else with two (`64 KiB`, `1.21 MiB`, `7 B`)."""
    for unit, factor in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes >= factor:
            value = size_bytes / factor
            return f"{value:.0f} {unit}" if size_bytes % factor == 0 else f"{value:.2f} {unit}"
    return f"{size_bytes} B"


def format_duration(duration_ns: float) -> str:
    """Format a duration with up to three digits and a unit: `412 ns`, `87.1 µs`, `3.02 ms`, `14.2 s`."""
    for unit, factor in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if abs(duration_ns) >= 0.9995 * factor:  # a value that rounds to 1000 of a unit is 1 of the next
            value = duration_ns / factor
            return f"{value:.3g} {unit}" if abs(value) < 999.5 else f"{value:.0f} {unit}"
    return f"{duration_ns:.0f} ns"
