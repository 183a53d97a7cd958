"""Play a tour: print each command, run it in a shell, go on if it ended as the tour says."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from emulator.annexes.demo.place import LabNamespaces
from emulator.annexes.demo.tours import Tour, TourStep
from emulator.errors import RunError

_END_S = 15.0
"""A command that was interrupted has this long to end by itself."""


@dataclass(frozen=True, slots=True)
class Played:
    """A command that was played.

    Attributes:
        step: the command.
        code: its exit code.
        seconds: from start to end.
        output: what it wrote to stdout; "" if it was not recorded.
    """

    step: TourStep
    code: int
    seconds: float
    output: str = ""


class StepFailed(RunError):
    """A command of a tour ended otherwise than it should."""

    def __init__(self, played: Played) -> None:
        self.played = played
        super().__init__(played)

    def _message(self) -> str:
        first = self.played.step.command.splitlines()[0]
        expected = " or ".join(map(str, self.played.step.codes))
        return f"`{first}` ended with exit code {self.played.code}, not {expected}: the tour stops here"


def play(
    tour: Tour,
    folder: Path,
    *,
    place: LabNamespaces | None = None,
    on_step: Callable[[TourStep], None] = lambda step: None,
    record: bool = False,
) -> Iterator[Played]:
    """Play the commands of a tour in a folder, one by one.

    Args:
        tour: what to play.
        folder: where, exists.
        place: namespaces for its lab; None: this host as it is.
        on_step: called before each command runs.
        record: keep stdout instead of showing it; stderr is dropped.

    Raises:
        StepFailed: a command has another exit code than the tour allows. It has been yielded before.
    """
    for step in tour.steps:
        on_step(step)
        began = time.monotonic()
        code, output = _run(_words(step, folder, place), record=record)
        played = Played(step, code, time.monotonic() - began, output)
        yield played
        if code not in step.codes:
            raise StepFailed(played)


def _words(step: TourStep, folder: Path, place: LabNamespaces | None) -> Sequence[str]:
    # `charkha` is this Charkha, also where it is not installed. A function leaves no file behind a demo that is killed.
    charkha = f'charkha() {{ {shlex.quote(sys.executable)} -P -m emulator "$@"; }}'
    shell = ["sh", "-c", f'{charkha}; cd "$0" && eval "$1"', str(folder), step.command]
    return place.words(*shell) if place is not None else shell


def _run(words: Sequence[str], *, record: bool) -> tuple[int, str]:
    paths = [str(Path(__file__).resolve().parents[3]), *filter(None, [os.environ.get("PYTHONPATH")])]
    process = subprocess.Popen(
        words,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if record else None,
        stderr=subprocess.DEVNULL if record else None,
        text=True,
    )
    try:
        output, _ = process.communicate()
    except KeyboardInterrupt:  # the command has got it as well
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
        process.kill()
        raise
    return process.returncode, output or ""
