"""Algorithms in the files of MSCCL that a job names, read and proved."""

from __future__ import annotations

from pathlib import Path

from emulator.errors import PlanError
from emulator.planner.msccl.document import MAX_XML_BYTES
from emulator.planner.msccl.loaded import load_algorithm

SUFFIX = ".xml"
"""What the name of a file ends with."""


def is_file(algorithm: str) -> bool:
    """Whether it is the path of a file, not a name."""
    return algorithm.endswith(SUFFIX)


def name_of(algorithm: str) -> str:
    """The name of an algorithm: as it is, or that of the one in a file.

    Raises:
        PlanError: the file cannot be read, or its algorithm does not compute its collective.
    """
    if not is_file(algorithm):
        return algorithm
    try:
        with Path(algorithm).open("rb") as file:
            data = file.read(MAX_XML_BYTES + 1)
        text = data.decode("utf-8")
    except OSError as error:
        raise PlanError(f"{algorithm}: cannot be read ({error.strerror or error})") from error
    except UnicodeDecodeError as error:
        raise PlanError(f"{algorithm}: is not UTF-8 text") from error
    return load_algorithm(text, algorithm).name
