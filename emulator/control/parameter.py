"""A setting as it was in effect, with its unit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Parameter:
    """A setting as it was in effect; `unit` is "" for names, counts and plain factors."""

    value: str | int | float | bool | None
    unit: str = ""
