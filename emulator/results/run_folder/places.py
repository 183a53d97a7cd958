"""Checks, before a command starts, that it can write its output files and folders.

Files that Charkha wrote are replaced; any other existing file is an error.
"""

from __future__ import annotations

import errno
import os
import stat
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
