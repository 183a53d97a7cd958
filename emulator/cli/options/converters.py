"""Converters from the text of an argument to its value, with errors that name the expected form."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LARGEST_COUNT = (1 << 31) - 1
LARGEST_SEED = (1 << 64) - 1


def argument(read: Callable[[str], T]) -> Callable[[str], T]:
    """An argparse type whose error text is that of the ValueError."""

    def convert(text: str) -> T:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return convert


def whole(least: int, *, most: int = LARGEST_COUNT) -> Callable[[str], int]:
    """A converter for whole numbers from `least` to `most`."""

    def read(text: str) -> int:
        if not text.removeprefix("-").isdecimal() or int(text) < least:
            raise ValueError(f"{text!r}: give a whole number of at least {least}")
        if int(text) > most:
            raise ValueError(f"{text!r}: give a whole number of at most {most}")
        return int(text)

    return read


def at_least(least: int, *, most: int = LARGEST_COUNT) -> Callable[[str], int]:
    """An argparse type: a whole number from `least` to `most`."""
    return argument(whole(least, most=most))
