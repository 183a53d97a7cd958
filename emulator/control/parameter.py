"""A setting as it was in effect, with its unit."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Parameter:
    """A setting as it was in effect; `unit` is "" for names, counts and plain factors."""

    value: str | int | float | bool | None
    unit: str = ""


class Source(StrEnum):
    """Where a setting's value comes from."""

    ASKED = "asked"
    TOPOLOGY = "topology"
    DERIVED = "derived"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of a run, and where its value comes from; `reason` says how it was derived."""

    name: str
    value: str | int | float | bool | None
    unit: str = ""
    source: str = Source.DEFAULT
    reason: str = ""
