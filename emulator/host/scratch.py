"""Temporary folders of a command: removed when it ends, or by the next command if it was killed.

A command holds a lock on its folder, which the kernel releases when the process ends for any reason. So a folder that
can be locked belongs to a command that is gone.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from emulator.errors import HostError

PREFIX = "charkha-tmp-"


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder for the duration of a command, private to its user; folders left by killed commands are removed first.

    Raises:
        HostError: it cannot be made.
    """
    try:
        _remove_left()
        folder, lock = _locked_folder()
    except OSError as error:
        problem = f"cannot create a temporary folder ({error.strerror or error})"
        raise HostError(f"{problem}: free space, or set TMPDIR to a different folder") from error
    try:
        yield folder
    finally:
        os.close(lock)  # first: to remove a folder takes a descriptor, and this may be the last one
        _remove(folder)


def _locked_folder() -> tuple[Path, int]:
    """A new folder, and the descriptor that holds its lock."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        # Until it is locked, another command may mistake it for one left behind.
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue
        except OSError:
            with suppress(OSError):
                folder.rmdir()
            raise
        if _take(lock) and folder.exists():
            return folder, lock
        os.close(lock)


def _remove_left() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # another command removed it, or it is not a folder
            found = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(found).st_uid == os.geteuid() and _take(found):
                    _remove(folder)
            finally:
                os.close(found)


def _remove(folder: Path) -> None:
    """As far as possible, with one descriptor: `shutil.rmtree` takes two for every level."""
    with suppress(OSError):
        for place, folders, files in os.walk(folder, topdown=False):
            for name in files:
                Path(place, name).unlink()
            for name in folders:
                Path(place, name).rmdir()
        folder.rmdir()


def _take(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
