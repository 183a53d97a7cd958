from __future__ import annotations

from dataclasses import fields

import pytest

from emulator.roce.option_help import OPTIONS
from emulator.roce.options import RoceOptions


def test_every_option_has_help_and_no_help_is_left_over() -> None:
    assert set(OPTIONS) == {field.name for field in fields(RoceOptions)}


@pytest.mark.parametrize("field", OPTIONS)
def test_an_option_takes_either_a_choice_or_a_value(field: str) -> None:
    assert bool(OPTIONS[field].choices) != bool(OPTIONS[field].metavar)


@pytest.mark.parametrize("field", [name for name, one in OPTIONS.items() if one.choices])
def test_every_choice_can_be_set_and_the_default_is_one_of_them(field: str) -> None:
    for choice in OPTIONS[field].choices:
        assert str(getattr(RoceOptions.parse({field: choice}), field)) == choice
    assert str(getattr(RoceOptions(), field)) in OPTIONS[field].choices


def test_the_help_gives_the_default_of_the_field_or_in_words() -> None:
    assert OPTIONS["qps"].text("qps") == "queue pairs per rank pair (default: 1)"
    assert OPTIONS["rate_cap_bps"].text("rate_cap_bps").endswith("(default: the port's rate, if the topology gives it)")
