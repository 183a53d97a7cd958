"""What a sweep varies: a setting and its values, from `NAME=LIST` or `NAME=RANGE`. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from emulator.errors import InputError
from emulator.experiment.series.settings import find_setting
from emulator.experiment.spec.spec import Experiment
from emulator.units import format_size, parse_rate, parse_size

MOST_VALUES = 1_000
VALUES = "1,2,4 or FIRST:LAST:STEP or FIRST:LAST:xFACTOR"
FORMS = f"write NAME=VALUES, with values as {VALUES}"


@dataclass(frozen=True, slots=True)
class Axis:
    """A setting and its values.

    Attributes:
        name: of the setting, in a word, as the user wrote it.
        path: of the setting in a run spec.
        values: as text, in the order they are played; no two are the same.
    """

    name: str
    path: str
    values: tuple[str, ...]


def parse_axis(text: str, experiment: Experiment) -> Axis:
    """An axis from text.

    Args:
        text: `qps=1,2,4`, `size=64K:16M:x4`, `flow-rate=100Mbit:500Mbit:100Mbit`.
        experiment: the run spec that is varied.

    Raises:
        InputError: not in one of these forms, a setting that the run spec does not have, or a value twice.
    """
    name, equals, listed = text.partition("=")
    if not equals or not name or not listed:
        raise InputError(f"--vary {text!r}: {FORMS}")
    try:
        values = parse_values(listed)
    except ValueError as error:
        raise InputError(f"--vary {name}: {error}") from error
    return Axis(name.strip().replace("-", "_"), find_setting(name, experiment), values)


def parse_values(text: str) -> tuple[str, ...]:
    """The values of a list, or of a range.

    Raises:
        ValueError: a value is empty or there twice, or the range is none.
    """
    values = tuple(parse_range(text) if ":" in text else map(str.strip, text.split(",")))
    if not all(values):
        raise ValueError(f"{text!r}: a value is empty")
    if twice := [one for at, one in enumerate(values) if one in values[:at]]:
        raise ValueError(f"{twice[0]} is given twice")
    return values


def parse_range(text: str) -> list[str]:
    """The values of FIRST:LAST:STEP, or of FIRST:LAST:xFACTOR; the last one is there if a step meets it.

    Raises:
        ValueError: not a range, or one that has no end.
    """
    parts = text.split(":")
    if len(parts) != 3:
        raise ValueError(f"{text!r}: write {VALUES}")
    first, last, step = parts
    read, write = _unit_of(first)
    low, high = read(first), read(last)
    grows = step.startswith("x")
    by = Fraction(step[1:]) if grows else read(step)
    if low > high or by <= (1 if grows else 0) or (grows and low <= 0):
        raise ValueError(f"{text!r} never gets from {first} to {last}")
    return [write(value) for value in _between(low, high, by, grows=grows)]


def _between(low: Fraction, high: Fraction, by: Fraction, *, grows: bool) -> Iterator[Fraction]:
    value, count = low, 0
    while value <= high:
        if (count := count + 1) > MOST_VALUES:
            raise ValueError(f"there are more than {MOST_VALUES:,} values")
        yield value
        value = value * by if grows else value + by


def _unit_of(text: str) -> tuple[Callable[[str], Fraction], Callable[[Fraction], str]]:
    """Reads and writes values like this one: a number, a rate or a size."""
    for read, write in ((Fraction, _number), (_rate, lambda value: f"{round(value)}bit"), (_size, _bytes)):
        try:
            read(text)
        except ValueError:
            continue
        return read, write
    raise ValueError(f"{text!r} is not a number, a size such as 64K, or a rate such as 100Mbit")


def _number(value: Fraction) -> str:
    return f"{value.numerator}" if value.denominator == 1 else f"{float(value):.12g}"


def _rate(text: str) -> Fraction:
    return Fraction(parse_rate(text))


def _size(text: str) -> Fraction:
    return Fraction(parse_size(text))


def _bytes(value: Fraction) -> str:
    size_bytes = round(value)
    return format_size(size_bytes).replace(" ", "") if size_bytes % 1024 == 0 else str(size_bytes)
