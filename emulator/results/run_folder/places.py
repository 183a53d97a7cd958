"""Where commands write: checks, before one starts, that it can write its files and folders, and claims of folders.

Files that Charkha wrote are replaced; any other existing file is an error. Two commands never play into one folder, and
others see whether one still does.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from emulator.errors import InputError

HTML_MARK = '<meta name="generator" content="charkha">'
JUNIT_MARK = 'name="charkha compare"'
_MARK_WITHIN_BYTES = 4096


def check_file(path: Path, option: str, *, mark: str | None = None, makes_folder: bool = False) -> None:
    """Check that a file can be written.

    Args:
        path: of the file.
        option: command line option that names it, for the error.
        mark: text near the start of every file of this kind that Charkha writes: a file that contains it is replaced.
            None: no existing file is replaced.
        makes_folder: a missing folder will be created.

    Raises:
        InputError: another file exists, the folder is missing, the name is too long, or permission is missing.
    """
    try:
        _check_folder(path.parent, is_there=not makes_folder)
        if not path.name:
            raise _NoPlaceError("give a file name")
        _check_name(path.name, path.parent)
        if path.exists():
            _check_replaceable(path, mark)
    except OSError as error:
        raise _bad(path, option, error.strerror or str(error)) from error
    except _NoPlaceError as error:
        raise _bad(path, option, str(error)) from None


def check_folder(path: Path, option: str) -> None:
    """Check that a folder exists or can be created.

    Raises:
        InputError: a file is in the way, a name is too long, or permission is missing.
    """
    try:
        _check_folder(path, is_there=False)
    except OSError as error:
        raise _bad(path, option, error.strerror or str(error)) from error
    except _NoPlaceError as error:
        raise _bad(path, option, str(error)) from None


class _NoPlaceError(Exception):
    """Why nothing can be written."""


def _bad(path: Path, option: str, problem: str) -> InputError:
    return InputError(f"{option} {path}: cannot be written: {problem}")


def _check_folder(folder: Path, *, is_there: bool) -> None:
    """The folder is writable, or can be created."""
    above = folder.absolute()
    missing: list[str] = []
    while not above.exists():
        missing.append(above.name)
        above = above.parent
    if missing and is_there:
        raise _NoPlaceError(f"folder {folder} does not exist")
    if not above.is_dir():
        raise _NoPlaceError(f"{above if missing else folder} is not a folder")
    for name in missing:
        _check_name(name, above)
    if not os.access(above, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _check_name(name: str, folder: Path) -> None:
    """The name fits the limit of the file system."""
    while not folder.exists():
        folder = folder.parent
    if len(os.fsencode(name)) > os.pathconf(folder, "PC_NAME_MAX"):
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))


def _check_replaceable(path: Path, mark: str | None) -> None:
    found = path.stat()
    if stat.S_ISDIR(found.st_mode):
        raise _NoPlaceError("it is a folder")
    if mark is None:
        raise _NoPlaceError("it exists; choose a different name")
    if not stat.S_ISREG(found.st_mode):
        raise _NoPlaceError("it is not a regular file")
    with path.open("rb") as file:
        beginning = file.read(_MARK_WITHIN_BYTES)
    if beginning and mark.encode() not in beginning:
        raise _NoPlaceError("it exists, but Charkha did not write it; choose a different name, or remove it")


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
