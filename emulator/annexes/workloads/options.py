"""Fields of a workload's description as options of the command line, their ranges, and their values as text."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import MISSING, fields
from typing import Any

from emulator.errors import PlanError
from emulator.option import Level, plain_value
from emulator.option import option as plain_option


def option(
    summary: str, *, default: Any = MISSING, group: str = "workload", is_advanced: bool = False, **facts: Any
) -> Any:
    """A field that is an option; without a default it must be given.

    Args:
        summary, default, group: see `emulator.option`.
        is_advanced: only `--help-all` lists it.
        facts: others.
    """
    level = Level.FULL if is_advanced else Level.COMMON
    return plain_option(summary, default=default, group=group, level=level, **facts)


def check_ranges(description: Any, *, or_zero: Collection[str] = ()) -> None:
    """Refuse numbers that are not positive and finite; those of `or_zero` may be 0.

    Raises:
        PlanError: one is out of range.
    """
    for one in fields(description):
        value = getattr(description, one.name)
        if not isinstance(value, int | float) or isinstance(value, bool):
            continue
        if one.name in or_zero and not 0 <= value < math.inf:
            raise PlanError(f"{one.name} is {value}: it must be at least 0")
        if one.name not in or_zero and not 0 < value < math.inf:
            raise PlanError(f"{one.name} is {value}: it must be greater than 0")


def described(description: Any) -> dict[str, int | str]:
    """All fields of a description as names and plain values; those that are not set are left out."""
    values = {one.name: getattr(description, one.name) for one in fields(description)}
    return {
        name: int(value) if isinstance(value, bool) else plain_value(value)
        for name, value in values.items()
        if value is not None
    }
