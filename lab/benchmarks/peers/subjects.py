"""What can be measured: a subject has a name, may lack something on this host, and gives one reading at a time."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from lab.benchmarks.peers.children import MeasurementFailed

INSTALL = "lab/benchmarks/peers/install.sh"
PROGRAMS = Path(__file__).parent / "programs"


@dataclass(frozen=True, slots=True)
class Reading:
    """One measurement: a value in the unit of its setting's quantity, and what else was seen, units in the names."""

    value: float
    details: Mapping[str, Any] = field(default_factory=dict)


class Subject(Protocol):
    """Something that is measured."""

    @property
    def name(self) -> str:
        """How tables call it."""
        ...

    def lacking(self) -> str | None:
        """What this host lacks to measure it, None if nothing."""
        ...

    def measure(self) -> Reading:
        """Measure once.

        Raises:
            MeasurementFailed: there is no figure.
        """
        ...


def lacking_command(name: str) -> str | None:
    """Words for a command that is not installed."""
    return None if shutil.which(name) else f"{name} is not installed ({INSTALL})"


def last_json(output: str) -> dict[str, Any]:
    """The JSON object in a program's output: all of it, or its last line.

    Raises:
        MeasurementFailed: there is none.
    """
    for text in (output, *output.strip().splitlines()[-1:]):
        try:
            found = json.loads(text)
        except ValueError:
            continue
        if isinstance(found, dict):
            return found
    raise MeasurementFailed("no JSON came out")
