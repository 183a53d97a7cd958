"""The folder of a suite or a sweep, and the file in it that has the result so far."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Self

import msgspec

from emulator.errors import InputError
from emulator.host.files import read_bounded, write_json
from emulator.schema import SchemaProblem, decode, parse_json


def new_folder(root: Path, name: str) -> Path:
    """A path below a root named after the time and what is played."""
    return root / f"{datetime.now():%Y%m%d-%H%M%S}-{name}"


def check_below(*names: str) -> None:
    """Check names of folders in a record: a record that came from elsewhere must lead to nothing outside its folder.

    Raises:
        ValueError: one is absolute, leads upwards, or is longer than a name can be.
    """
    for name in names:
        parts = name.split("/")
        if name.startswith("/") or ".." in parts or max(map(len, map(os.fsencode, parts))) > _LONGEST_NAME:
            raise ValueError(f"{name[:40]!r} is not a folder below that of the record")


_LONGEST_NAME = 255


class SeriesRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a series, so far.

    Attributes:
        FILE: name of its file.
        SERIES: what has such a result, in a word.
    """

    FILE: ClassVar[str]
    SERIES: ClassVar[str]

    def to_plain(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    def write(self, folder: Path) -> None:
        """Write the file; a reader sees the old one or the new one.

        Raises:
            HostError: it cannot be written.
        """
        write_json(folder / self.FILE, self.to_plain())

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The result from a folder.

        Raises:
            InputError: the folder is not that of such a series, or its file is damaged.
        """
        path = folder / cls.FILE
        try:
            return decode(parse_json(read_bounded(path)), cls)
        except OSError as error:
            raise InputError(f"{folder}: is not the folder of a {cls.SERIES} ({cls.FILE}: {error.strerror})") from error
        except SchemaProblem as problem:
            raise InputError(f"{path}: is not the result of a {cls.SERIES} ({problem})") from problem
