"""New files that only their owner can read."""

from __future__ import annotations

import os
from pathlib import Path

from emulator.errors import HostError, InputError


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
