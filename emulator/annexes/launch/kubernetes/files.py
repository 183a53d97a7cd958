"""Files that go to the controller's pod and come back, as tar streams."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from emulator.errors import InputError, RunError

INPUTS = "inputs"
"""Folder in the pod for what is not below the working directory here."""
RANK_FILES = ".*.et*"
"""After the prefix of a trace: `<prefix>.<rank>.et`, maybe compressed."""


@dataclass(frozen=True, slots=True)
class SentFile:
    """A file or folder that is sent: where it is here, and relative to the working directory there."""

    here: Path
    there: PurePosixPath

    @property
    def size_bytes(self) -> int:
        """Of all files."""
        return sum(one.stat().st_size for one in (self.here, *self.here.rglob("*")) if one.is_file())


def sent_with(arguments: Sequence[str], folder: Path, more: Sequence[Path] = ()) -> tuple[list[str], list[SentFile]]:
    """Arguments of a command for the pod, and the files and folders that they name.

    What lies below the working directory keeps its relative path, everything else goes to INPUTS. An argument is a path
    if there is such a file or folder, or files of ranks with that prefix.

    Args:
        arguments: of a `charkha` command, as `TRACE`, `--topology`, `rack.yaml` or `--topology=rack.yaml`.
        folder: the working directory here.
        more: paths that no argument names, as those in a run spec.

    Raises:
        InputError: one of `more` does not exist.
    """
    sent: dict[Path, SentFile] = {}

    def send(name: str) -> str:
        path = Path(os.path.normpath(folder / name))
        found = [path] if path.exists() else sorted(path.parent.glob(path.name + RANK_FILES))
        number = len(sent)
        for one in found:
            sent.setdefault(one, SentFile(one, _place(one, folder, number)))
        if not found:
            return name
        there = sent[found[0]].there
        return str(there if path.exists() else there.parent / path.name)

    for one in more:
        if not (folder / one).exists():
            raise InputError(f"--send {one}: there is no such file or folder")
        send(os.fspath(one))
    return [_translated(argument, send) for argument in arguments], list(sent.values())


def _translated(argument: str, send: Callable[[str], str]) -> str:
    if not argument.startswith("-"):
        return send(argument) if argument else argument
    option, equals, value = argument.partition("=")
    return f"{option}={send(value)}" if equals and value else argument


def _place(path: Path, folder: Path, number: int) -> PurePosixPath:
    if path.is_relative_to(folder) and path != folder:
        return PurePosixPath(path.relative_to(folder))
    return PurePosixPath(INPUTS, str(number), path.name)


def pack(sent: Sequence[SentFile], stream: IO[bytes]) -> None:
    """Write files and folders to a pipe; links are followed, owners and rights left out."""
    with tarfile.open(fileobj=stream, mode="w|", dereference=True) as archive:
        for one in sent:
            archive.add(one.here, arcname=str(one.there), filter=_plain)


def unpack(stream: IO[bytes], folder: Path) -> list[Path]:
    """Write the files of an archive below a folder; returns them.

    Raises:
        RunError: the archive has something else than files and folders below the folder, or is cut off.
    """
    files: list[Path] = []
    try:
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isfile() else None
                if content is not None:  # written here: extraction that is safe came with Python 3.11.4
                    files.append(_below(folder, member.name))
                    files[-1].parent.mkdir(parents=True, exist_ok=True)
                    with files[-1].open("wb") as file:
                        shutil.copyfileobj(content, file)
    except (tarfile.TarError, OSError, ValueError) as error:
        raise RunError(f"results of the run did not come back whole ({error})") from error
    return files


def _below(folder: Path, name: str) -> Path:
    place = PurePosixPath(name.lstrip("/"))
    if ".." in place.parts:
        raise tarfile.TarError(f"{name} is outside the folder")
    return folder / place


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o755 if member.isdir() else 0o644
    return member
