"""Who plays into a folder: two commands never do, and others see whether one still does."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from emulator.errors import InputError

_LOCK = ".lock"


def hold(folder: Path) -> int | None:
    """Show others that this process writes a run folder; until the descriptor is closed, or the process ends.

    Returns:
        The descriptor; None if the file system has no locks.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # of somebody who looks at this moment, if it is not the file system
        os.close(descriptor)
        return None
    return descriptor


def is_being_written(folder: Path) -> bool | None:
    """Whether a process writes a run folder; None if nobody can tell."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return False


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
        raise InputError(f"{root}: is not an empty folder; choose a different --out, or resume what was played into it")
    root.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(root / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InputError(f"{root}: another command is playing into it; choose a different --out") from error
        yield
    finally:
        os.close(descriptor)
