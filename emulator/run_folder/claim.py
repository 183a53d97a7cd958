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
def claimed(root: Path, *, is_new: bool) -> Iterator[None]:
    """Keep others out of a folder, which is made if it is missing. The kernel releases it when this process ends.

    Args:
        root: the folder.
        is_new: it has to be empty; else what was played into it is resumed.

    Raises:
        InputError: another process has it, or it is not empty.
    """
    if is_new and root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise InputError(f"{root}: is not an empty folder; choose another --out, or resume what was played into it")
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
