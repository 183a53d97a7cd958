"""How a field of a workload's description is an option of the command line: its wording stands beside the field."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import MISSING, dataclass, field, fields
from enum import Enum
from types import NoneType
from typing import Any, get_args, get_type_hints

from emulator.errors import PlanError


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionWording:
    """The wording of an option.

    Attributes:
        summary: what it sets, with its unit.
        group: title under which help texts list it.
        flags: as it is typed; empty: `--` and the name of the field. A flag without dashes is a positional argument.
        is_advanced: only `--help-all` lists it.
        read: text to value, ValueError if it is none; None: as the type of the field says.
        unset: what holds without the option, where the default does not say it.
    """

    summary: str
    group: str = "workload"
    flags: tuple[str, ...] = ()
    metavar: str = "N"
    is_advanced: bool = False
    read: Callable[[str], Any] | None = None
    unset: str = ""


@dataclass(frozen=True, slots=True)
class WorkloadOption:
    """An option: the field that it sets, the type of it, and its default; `is_required`: it has none."""

    name: str
    kind: type
    default: Any
    is_required: bool
    facts: OptionWording

    @property
    def is_named(self) -> bool:
        """False for a positional argument."""
        return self.flags[0].startswith("-")

    @property
    def flags(self) -> tuple[str, ...]:
        """As it is typed."""
        return self.facts.flags or (f"--{self.name.replace('_', '-')}",)

    @property
    def text(self) -> str:
        """Summary and default."""
        if self.is_required or self.default is False or not (self.facts.unset or self.default is not None):
            return self.facts.summary
        return f"{self.facts.summary} (default: {self.facts.unset or spelled(self.default)})"


def option(summary: str, *, default: Any = MISSING, **facts: Any) -> Any:
    """A field that is an option; without a default it must be given. `facts`: as of OptionFacts."""
    return field(default=default, metadata={"option": OptionWording(summary=summary, **facts)})


def workload_options(description: type) -> list[WorkloadOption]:
    """The fields of a dataclass that are options, in order."""
    hints = get_type_hints(description)
    return [
        WorkloadOption(
            one.name, _plain_type(hints[one.name]), one.default, one.default is MISSING, one.metadata["option"]
        )
        for one in fields(description)
        if "option" in one.metadata
    ]


def _plain_type(hint: Any) -> type:
    """The type of a value that is given: `int` of `int | None`."""
    kind: type = next((one for one in get_args(hint) if one is not NoneType), hint)
    return kind


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


def spelled(value: object) -> int | str:
    """A value as parameters of a trace have it."""
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Enum):
        return str(value.value)
    return int(value) if isinstance(value, int) else str(value)


def described(description: Any) -> dict[str, int | str]:
    """All fields of a description as names and plain values; those that are not set are left out."""
    values = {one.name: getattr(description, one.name) for one in fields(description)}
    return {name: spelled(value) for name, value in values.items() if value is not None}
