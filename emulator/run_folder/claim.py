"""Keeps two commands from playing into the same folder."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from emulator.errors import InputError

_LOCK = ".lock"


@contextmanager
def claimed(root: Path) -> Iterator[None]:
    """Keep others out of a folder, which is made if it is missing. The kernel releases it when this process ends.

    Raises:
        InputError: another process has it.
    """
    root.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(root / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InputError(f"{root}: another command is playing into it; choose another --out") from error
        yield
    finally:
        os.close(descriptor)
