"""Names of warnings: unusual in a trace, but playable. docs/traces.md explains each."""

from __future__ import annotations

from typing import Final

NO_DURATIONS: Final = "rank without durations"
FREE_DURATION: Final = "metadata node with a duration"
INVALID_NODE: Final = "node of type INVALID"
DANGLING: Final = "dangling dependency dropped"
CIRCULAR: Final = "control dependency in a circle dropped"
DUPLICATE_DEPENDENCY: Final = "duplicate dependency"
CPU_COMMUNICATION: Final = "communication on the CPU"
STORAGE_AS_TIME: Final = "storage node played as its recorded time"
STORAGE_INSIDE: Final = "storage node inside a file operation"
ZERO_SIZE: Final = "collective of size zero"
GROUP_OF_ONE: Final = "collective in a group of one"
GROUP_ZERO: Final = "group 0 is not the world"
GROUP_TWICE: Final = "group defined twice, differently"
GROUP_UNSORTED: Final = "group ranks not ascending"
GROUP_UNUSED_ABSENT: Final = "unused group with absent ranks"
SPLITS_IN_ROWS: Final = "all-to-all splits count rows"
SPLITS_WITHOUT_SIZE: Final = "all-to-all size taken from its splits"
ROOT_BY_SOME: Final = "root named by some members only"
BARRIER_SIZE: Final = "barrier with a size"
UNKNOWN_ATTRIBUTE: Final = "unknown communication attribute"
"""Followed by a space and the attribute's name."""
