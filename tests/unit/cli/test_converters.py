"""From the text of an argument to its value."""

import argparse

import pytest

from emulator.cli.parser import argument, at_least, whole
from emulator.units import LARGEST_COUNT


@pytest.mark.parametrize(("text", "value"), [("2", 2), ("007", 7), ("-3", -3), (str(LARGEST_COUNT), LARGEST_COUNT)])
def test_whole_numbers_within_the_limits_are_taken(text: str, value: int) -> None:
    assert whole(-3)(text) == value


@pytest.mark.parametrize("text", ["1", "", "-", "x", "2.0", "1e3", "0x10", "--5", "1_000"])
def test_anything_else_names_the_text_and_the_least(text: str) -> None:
    with pytest.raises(ValueError, match="give a whole number of at least 2") as refused:
        whole(2)(text)
    assert str(refused.value).startswith(f"{text!r}: ")


def test_too_large_a_number_names_the_most() -> None:
    with pytest.raises(ValueError, match="'1025': give a whole number of at most 1024"):
        whole(2, most=1024)("1025")


def test_argparse_shows_the_reason_instead_of_its_own() -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="'0': give a whole number of at least 1"):
        at_least(1)("0")
    assert at_least(1)("1") == 1


def test_other_errors_of_a_converter_are_not_hidden() -> None:
    def broken(text: str) -> int:
        raise KeyError(text)

    with pytest.raises(KeyError):
        argument(broken)("x")
