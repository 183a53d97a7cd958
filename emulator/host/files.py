"""Writing a file whole: it appears under its name when its bytes are on the disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from emulator.errors import FULL, HostError
from emulator.host.resources import exhausted


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


def write_text(path: Path, text: str) -> None:
    """Write a file of text; it appears under its name only when it is whole.

    Raises:
        HostError: it cannot be written.
    """
    unfinished = path.with_name(f".charkha-{os.getpid()}.tmp")
    with writing(path):
        try:
            # A path need not be text, and may be shown: what is not a character becomes XML's reference to none.
            unfinished.write_text(text, encoding="utf-8", errors="xmlcharrefreplace")
            publish(unfinished, path)
        finally:
            unfinished.unlink(missing_ok=True)


def publish(unfinished: Path, path: Path) -> None:
    """Give a written file its name, after its bytes are on the disk."""
    with unfinished.open("rb") as written:
        os.fsync(written.fileno())
    unfinished.replace(path)
