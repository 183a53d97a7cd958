"""Places that a command is to write to, looked at before it begins: one that cannot be had is bad input.

What Charkha made itself may be replaced by what it makes anew; anything else that is there stays.
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
    """A file can be written there.

    Args:
        path: of the file.
        option: of the command line, which named it.
        mark: stands near the beginning of every such file that Charkha wrote: one that has it may be replaced; None:
            nothing may.
        makes_folder: its folder will be made where it is missing.

    Raises:
        InputError: there is something else, its folder is missing, the name is too long, or it may not be written.
    """
    try:
        _check_room(path.parent, is_there=not makes_folder)
        if not path.name:
            raise _NoPlaceError("a file name is needed")
        _check_name(path.name, path.parent)
        if path.exists():
            _check_replaceable(path, mark)
    except OSError as error:
        raise _bad(path, option, error.strerror or str(error)) from error
    except _NoPlaceError as error:
        raise _bad(path, option, str(error)) from None


def check_folder(path: Path, option: str) -> None:
    """A folder can be made there, or is there.

    Raises:
        InputError: there is a file, a name is too long, or it may not be written.
    """
    try:
        _check_room(path, is_there=False)
    except OSError as error:
        raise _bad(path, option, error.strerror or str(error)) from error
    except _NoPlaceError as error:
        raise _bad(path, option, str(error)) from None


class _NoPlaceError(Exception):
    """Why nothing can be written there."""


def _bad(path: Path, option: str, problem: str) -> InputError:
    return InputError(f"{option} {path}: cannot be written: {problem}")


def _check_room(folder: Path, *, is_there: bool) -> None:
    """A folder that may be written, or can be made."""
    above = folder.absolute()
    missing: list[str] = []
    while not above.exists():
        missing.append(above.name)
        above = above.parent
    if missing and is_there:
        raise _NoPlaceError(f"there is no folder {folder}")
    if not above.is_dir():
        raise _NoPlaceError(f"{above if missing else folder} is not a folder")
    for name in missing:
        _check_name(name, above)
    if not os.access(above, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _check_name(name: str, folder: Path) -> None:
    """By the limit of the file system that has, or will have, the folder."""
    while not folder.exists():
        folder = folder.parent
    if len(os.fsencode(name)) > os.pathconf(folder, "PC_NAME_MAX"):
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))


def _check_replaceable(path: Path, mark: str | None) -> None:
    found = path.stat()
    if stat.S_ISDIR(found.st_mode):
        raise _NoPlaceError("it is a folder")
    if mark is None:
        raise _NoPlaceError("it is there already; name another")
    if not stat.S_ISREG(found.st_mode):
        raise _NoPlaceError("it is not a regular file")
    with path.open("rb") as file:
        beginning = file.read(_MARK_WITHIN_BYTES)
    if beginning and mark.encode() not in beginning:
        raise _NoPlaceError("it is there already, and Charkha did not make it; name another, or remove it")
