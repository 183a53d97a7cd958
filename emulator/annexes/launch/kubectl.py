"""`kubectl`, what it says, and files that go to the controller's pod and come back, as tar streams."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any

from emulator.annexes.launch.engine import failed
from emulator.errors import HostError, InputError, RunError

_QUICK_S = 60.0
"""Longest time of a request to a cluster that answers."""


@dataclass(frozen=True, slots=True)
class Kubectl:
    """Calls of `kubectl`.

    Attributes:
        options: that choose cluster and namespace.
        program: what is started.
    """

    options: Sequence[str] = ()
    program: str = field(default="kubectl")

    def command(self, *arguments: str) -> list[str]:
        """A command line.

        Raises:
            HostError: there is no kubectl.
        """
        if shutil.which(self.program) is None:
            raise HostError("kubectl is not installed: install it, or use --print and apply its output elsewhere")
        return [self.program, *self.options, *arguments]

    def say(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """What a quick command writes to stdout.

        Args:
            arguments: after `kubectl`.
            stdin: what it reads; secrets go there, never into arguments.

        Raises:
            HostError: there is no kubectl.
            RunError: it failed, or did not end in time.
        """
        title = f"kubectl {arguments[0]}"
        try:
            # In a session of its own: Ctrl-C is for charkha, which then still needs kubectl.
            ended = subprocess.run(
                self.command(*arguments), input=stdin, capture_output=True, timeout=_QUICK_S, start_new_session=True
            )
        except subprocess.TimeoutExpired:
            raise RunError(f"{title} did not end within {_QUICK_S:g} s: does the cluster answer?") from None
        if ended.returncode:
            raise failed(title, ended.stderr.decode(errors="replace"), ended.returncode)
        return ended.stdout

    def pods(self, selector: Mapping[str, str]) -> list[Pod]:
        """The pods that have these labels.

        Raises:
            RunError: kubectl failed.
        """
        found = json.loads(self.say("get", "pods", "--output=json", f"--selector={in_words(selector)}"))
        return [Pod.of(one) for one in found["items"]]


@dataclass(frozen=True, slots=True)
class Pod:
    """What is known of a pod.

    Attributes:
        name: of the pod.
        is_ready: all its containers run.
        has_ended: none of them runs any more.
        state: why it is not ready, in the words of Kubernetes.
    """

    name: str
    is_ready: bool
    has_ended: bool
    state: str

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Pod:
        """From what the API server says."""
        status = plain.get("status", {})
        phase = status.get("phase", "Pending")
        conditions = {one["type"]: one for one in status.get("conditions", ())}
        is_ready = conditions.get("Ready", {}).get("status") == "True"
        return cls(plain["metadata"]["name"], is_ready, phase in ("Succeeded", "Failed"), _state(status, conditions))


def in_words(selector: Mapping[str, str]) -> str:
    """A selector of labels, as kubectl takes it."""
    return ",".join(f"{name}={value}" for name, value in selector.items())


def _state(status: Mapping[str, Any], conditions: Mapping[str, Mapping[str, Any]]) -> str:
    """The most telling reason: of a container that waits or has ended, of the scheduler, else the phase."""
    for container in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
        state = container.get("state", {})
        for kind in ("waiting", "terminated"):
            if (found := state.get(kind)) and found.get("reason") != "Completed":
                return _joined(found.get("reason"), found.get("message"))
    scheduled = conditions.get("PodScheduled", {})
    if scheduled.get("status") == "False":
        return _joined(scheduled.get("reason"), scheduled.get("message"))
    return _joined(status.get("phase", "Pending"), status.get("message"))


def _joined(reason: str | None, message: str | None) -> str:
    return ": ".join(one for one in (reason, message) if one)


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
