"""Files that appear whole, and temporary folders: removed when a command ends, or by the next one if it was killed.

A command holds a lock on its folder, which the kernel releases when the process ends for any reason. So a folder that
can be locked belongs to a command that is gone.
"""

from __future__ import annotations

import errno
import fcntl
import io
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from emulator.errors import FULL, HostError, InputError
from emulator.host.resources import exhausted
from emulator.units import format_size

MOST_BYTES, MOST_SECRET_BYTES = 64 << 20, 1 << 20
"""Of a file that is read whole, unless its kind has a limit of its own; of an identity, a key or a token."""


def read_bounded(path: Path, most_bytes: int = MOST_BYTES) -> bytes:
    """The content of a file that somebody named, or that came with a folder from elsewhere: all of it, or an error.

    A pipe is read if somebody writes to it; without waiting for who does not.

    Raises:
        OSError: it cannot be read, or goes on after `most_bytes`, as a device may for ever.
    """
    with open_at_once(path) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"it has more than {format_size(most_bytes)}")
    return content


def open_at_once(path: Path) -> io.BufferedReader:
    """Open a file for reading; a pipe that nobody writes to is empty, where another way of opening waits."""
    file: io.BufferedReader = io.BufferedReader(
        io.FileIO(path, opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))
    )
    os.set_blocking(file.fileno(), True)
    return file


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a failed write into an error for the user.

    Raises:
        HostError: the body raised an OSError.
    """
    try:
        yield
    except OSError as error:
        if (lack := exhausted(error)) is not None:
            raise HostError(f"{path}: cannot write results: {lack}") from error
        reason = os.strerror(error.errno) if error.errno else str(error)
        remedy = "free some space, or choose a different place" if error.errno in FULL else "choose another place"
        raise HostError(f"{path}: cannot write results ({reason}); {remedy}") from error


def write_text(path: Path, text: str, *, errors: str = "xmlcharrefreplace") -> None:
    """Write a file of text; it appears under its name only when it is whole.

    Args:
        errors: what becomes of bytes of a path that are not text, as in `str.encode`. They may be shown: as XML's
            reference to no character they cannot be mistaken. `backslashreplace` makes them JSON escapes, which read
            back as the same path.

    Raises:
        HostError: it cannot be written.
    """
    unfinished = path.with_name(f".charkha-{os.getpid()}.tmp")
    with writing(path):
        try:
            unfinished.write_text(text, encoding="utf-8", errors=errors)
            publish(unfinished, path)
        finally:
            unfinished.unlink(missing_ok=True)


def write_json(path: Path, document: object) -> None:
    """Write a JSON document; it appears under its name only when it is whole.

    Raises:
        HostError: it cannot be written.
    """
    write_text(path, json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def publish(unfinished: Path, path: Path) -> None:
    """Give a written file its name, after its bytes are on the disk."""
    with unfinished.open("rb") as written:
        os.fsync(written.fileno())
    unfinished.replace(path)


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


def write_secret(path: Path, content: bytes) -> None:
    """Write a file that nobody else can read, not even for a moment.

    Raises:
        InputError: there is one already.
        HostError: it cannot be written.
    """
    try:
        with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(content)
    except FileExistsError as error:
        raise InputError(f"{path} already exists: remove it if it is no longer needed") from error
    except OSError as error:
        raise HostError(f"{path}: cannot be written ({error.strerror})") from error
