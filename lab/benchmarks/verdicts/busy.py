"""A switch without a fault beside two busy loops: as if the machine were quiet."""

from __future__ import annotations

from collections.abc import Iterator

from lab.benchmarks.verdicts import clean
from lab.benchmarks.verdicts.trials import Case


def cases() -> Iterator[Case]:
    """Those of `clean`, each beside two loops."""
    return clean.cases(loops=2)
