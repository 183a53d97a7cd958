"""Runs with a fault at a random moment, around a switch in namespaces: `python -m tests.lab.chaos --count 200`.

Right is: the run is done, or ends with a named error before the deadline of docs/faults.md; no frame enters the switch
afterwards; every iteration that the command reported is in the folder with all its samples; and no process, address,
namespace or temporary folder is left.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from emulator.errors import EmulatorError
from emulator.lab.recipe import exec_prefix
from emulator.lab.state import LabState, LabStore
from emulator.run_folder.reader import read_run
from emulator.run_folder.schema import Part
from emulator.run_folder.store import is_run_folder, stored_run
from tests.lab.faults import FAULTS, Fault, Scene
from tests.lab.trials import star_lab
from tests.support.command import Command, started
from tests.support.star_lab import Lab

RANKS = 4
LATEST_S = 2.5
"""Faults come so long after the command has begun, at the latest; about half of them before there is traffic."""
_REPORTED = re.compile(r"iteration (\d+) took")
_ENDINGS = (0, 1, 2, 3, 130)
_QUIET_S = 0.3


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run.

    Attributes:
        problems: what is not right.
        said: the line that names the error, or `done`.
        seconds: from the fault to the end.
    """

    fault: str
    problems: Sequence[str]
    said: str
    seconds: float


def play(lab: Lab, fault: Fault, drawn: random.Random, *, patience: float = 1) -> Outcome:
    """Play a run, break something, and judge how it ends; `patience`: times the deadline, on a busy machine."""
    state = LabStore().read(lab.id)
    assert state is not None
    temporary, out = lab.folder / "tmp", lab.folder / "out"
    lab.folder.chmod(0o711)  # for a run of another user
    for folder in (temporary, out):
        folder.mkdir()
        folder.chmod(0o777)
    scene = Scene(state, out / "run", drawn)
    before = _everything(state)
    try:
        with ExitStack() as stack:
            prefix = stack.enter_context(fault.prepare(scene))
            place = ("--topology", "lab.yaml", "--lab", lab.id) if fault.needs_lab else ("--agents", 2)
            words = ("--log-level", "info", "bench", "all_reduce", "-n", RANKS, "-b", "64K", "-e", "64K", *place)
            more = ("--iterations", fault.iterations, "--warmup", 0, "--timeout", 8, "--out", scene.folder)
            stack.enter_context(_temporary(temporary))
            command = stack.enter_context(started(*words, *more, cwd=lab.folder, prefix=prefix))
            stderr = _reader(command, lab.folder / "stderr", stack)
            time.sleep(drawn.uniform(0.3, LATEST_S))
            began = time.monotonic()
            fault.strike(command, scene)
            problems = [*_ending(command, fault, began + patience * fault.deadline_s, state)]
            seconds = time.monotonic() - began
        text = stderr.read_text()
        if not problems:  # what we ended ourselves tells no more
            problems += _judge(command, fault, text, scene.folder)
            problems += [] if fault.kills_command else [f"left in TMPDIR: {one.name}" for one in temporary.iterdir()]
        if (after := _everything(state)) != before:
            problems.append(f"left: {sorted(after ^ before)}")
        return Outcome(fault.name, problems, _said(text, command, scene.folder), seconds)
    finally:
        for folder in (temporary, out):
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _temporary(folder: Path) -> Iterator[None]:
    before = os.environ.get("TMPDIR")
    os.environ["TMPDIR"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = before


def _reader(command: Command, path: Path, stack: ExitStack) -> Path:
    """Have a process copy stderr to a file, so that nothing waits for a reader."""
    copy = subprocess.Popen(["cat"], stdin=command.process.stderr, stdout=stack.enter_context(path.open("wb")))
    drop = subprocess.Popen(["cat"], stdin=command.process.stdout, stdout=subprocess.DEVNULL)
    for one in (copy, drop):
        stack.callback(one.wait)
        stack.callback(command.process.kill)
    return path


def _ending(command: Command, fault: Fault, deadline: float, state: LabState) -> Iterator[str]:
    """Wait for the end; what is wrong with it."""
    if fault.resumes_after_s:
        time.sleep(fault.resumes_after_s)
        yield from _frames(state, "while the controller was stopped")
        fault.resume(command)
    while command.process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    if command.process.poll() is None:
        yield "not over at the deadline"
        command.process.kill()
        command.process.wait()
    while (left := command.left()) and time.monotonic() < deadline:
        time.sleep(0.02)
    if left:
        yield f"{len(left)} processes left"
    yield from _frames(state, "after the end")


def _frames(state: LabState, when: str) -> Iterator[str]:
    before = _received(state)
    time.sleep(_QUIET_S)
    if (frames := _received(state) - before) > 0:
        yield f"{frames} frames {when}"


def _received(state: LabState) -> int:
    """Frames that the switch has received from hosts."""
    links = json.loads(_ip(state, "sw0", "-j", "-s", "link"))
    return sum(one["stats64"]["rx"]["packets"] for one in links if one["ifname"].startswith("p"))


def _ip(state: LabState, node: str, *words: str) -> str:
    command = [*exec_prefix(state.design.node(node)), "ip", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _everything(state: LabState) -> set[str]:
    """Namespaces, and the addresses and routes in those of the lab."""
    found = {
        f"namespace {line}"
        for line in subprocess.getoutput("ip netns list").splitlines()
        if state.design.lab_id in line
    }
    for node in state.design.nodes:
        found |= {f"{node.name}: {line.strip()}" for line in _ip(state, node.name, "-br", "address").splitlines()}
        found |= {f"{node.name}: {line.strip()}" for line in _ip(state, node.name, "route").splitlines()}
    return found


def _judge(command: Command, fault: Fault, text: str, folder: Path) -> Iterator[str]:
    code = command.process.returncode
    if fault.kills_command:
        if is_run_folder(folder) and stored_run(folder).status not in ("interrupted", "complete"):
            yield f"the run is {stored_run(folder).status}"
    elif code not in _ENDINGS:
        yield f"exit code {code}"
    for word in ("Traceback", "internal error"):
        if word in text:
            yield word
    if code and not fault.kills_command and not text.rstrip().rpartition("\n")[2].startswith("charkha: "):
        yield "no line names the error"
    reported = {int(number) for number in _REPORTED.findall(text)}
    if reported and not fault.loses_folder:
        yield from _missing(reported, folder)


def _missing(reported: set[int], folder: Path) -> Iterator[str]:
    """Iterations that the command reported, and that are not in the folder with all samples."""
    try:
        run = read_run(folder)
        rows = run.table(Part.SAMPLES, ["iteration"])["iteration"].to_numpy()
    except (EmulatorError, OSError) as error:
        yield f"the folder cannot be read: {error}"
        return
    numbers, counts = np.unique(rows, return_counts=True)
    whole = {int(one) for one, count in zip(numbers, counts, strict=True) if count == RANKS}
    if lost := reported - whole:
        yield f"{len(lost)} of {len(reported)} reported iterations lack samples"


def _said(text: str, command: Command, folder: Path) -> str:
    if command.process.returncode == 0:
        return "done"
    if command.process.returncode < 0:
        status = stored_run(folder).status if is_run_folder(folder) else "not begun"
        return f"killed; the run is {status}"
    lines = [line for line in text.splitlines() if line.startswith("charkha: ")]
    return re.sub(r"/\S+/", "", lines[-1] if lines else text[-100:])


def chaos(count: int, seed: int, names: Sequence[str] = (), *, patience: float = 1) -> list[Outcome]:
    """Play so many runs, and tell each on stderr."""
    drawn = random.Random(seed)
    faults = [one for one in FAULTS if not names or one.name in names]
    outcomes: list[Outcome] = []
    with ExitStack() as stack:
        lab = stack.enter_context(star_lab(2, rate="1Gbit"))
        for number in range(count):
            outcome = play(lab, faults[number % len(faults)], random.Random(drawn.random()), patience=patience)
            outcomes.append(outcome)
            what = "; ".join(outcome.problems) or "right"
            line = f"{number + 1:3} {outcome.seconds:5.1f} s  {outcome.fault:28} {what:8} {outcome.said[:150]}"
            print(line, file=sys.stderr, flush=True)
    return outcomes


def summary_text(outcomes: Sequence[Outcome]) -> str:
    """A line for every fault: runs, how many were done, ended by name, and wrong; the longest time to the end."""
    rows: dict[str, list[Outcome]] = defaultdict(list)
    for one in outcomes:
        rows[one.fault].append(one)
    lines = [f"{'fault':28} {'runs':>4} {'done':>4} {'named':>5} {'wrong':>5}  longest"]
    for name, found in [*sorted(rows.items()), ("all", list(outcomes))]:
        ends = Counter("wrong" if one.problems else "done" if one.said == "done" else "named" for one in found)
        longest = max((one.seconds for one in found), default=0)
        counts = f"{len(found):4} {ends['done']:4} {ends['named']:5} {ends['wrong']:5}"
        lines.append(f"{name:28} {counts}  {longest:.1f} s")
    return "\n".join(lines)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fault", action="append", default=[], choices=[one.name for one in FAULTS])
    parser.add_argument("--patience", type=float, default=1, help="times the deadlines, on a busy machine")
    options = parser.parse_args()
    outcomes = chaos(options.count, options.seed, options.fault, patience=options.patience)
    print(summary_text(outcomes))
    return int(any(one.problems for one in outcomes))


if __name__ == "__main__":
    sys.exit(main())
