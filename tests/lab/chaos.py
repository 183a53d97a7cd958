"""Runs with a fault at a random moment, around a switch in namespaces: `python -m tests.lab.chaos --count 200`.

Right is: the run is done, or ends with a named error before the deadline of docs/faults.md; no frame enters the switch
afterwards; every iteration that the command reported is in the folder with all its samples; and no process, address,
namespace or temporary folder is left.
"""

import argparse
import random
import re
import shutil
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from emulator.errors import EmulatorError
from emulator.results.run_folder.reader import read_run
from emulator.results.run_folder.schema import RunTable
from emulator.results.run_folder.store import is_run_folder, stored_run
from tests.lab.faults import FAULTS, JOIN_TIMEOUT_S, STANDSTILL_S, Fault, Kind, Scene
from tests.lab.sites import Site, lab, servers
from tests.lab.trials import timed
from tests.support.command import Command, started

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

    fault: Fault
    problems: Sequence[str]
    said: str
    seconds: float

    def __str__(self) -> str:
        what = "; ".join(self.problems) or "right"
        return f"{self.seconds:5.1f} s  {self.fault.name:24} {what:8} {self.said[:150]}"


def play(site: Site, fault: Fault, drawn: random.Random, *, patience: float = 1) -> Outcome:
    """Play a run, break something, and judge how it ends; `patience`: times the deadline, on a busy machine."""
    before = site.state()
    with _folder(site.folder / "tmp") as temporary, _folder(site.folder / "out") as out:
        scene = Scene(site, out / "run", drawn)
        with ExitStack() as stack:
            prefix = stack.enter_context(fault.prepare(scene))
            words = ("--log-level", "info", "bench", "all_reduce", "-n", RANKS, "-b", "64K", "-e", "64K", *site.options)
            limits = ("--join-timeout", JOIN_TIMEOUT_S, "--timeout", STANDSTILL_S)
            more = ("--iterations", fault.iterations, "--warmup", 0, "--out", scene.folder)
            environment = (*site.prefix, "env", f"TMPDIR={temporary}")
            pool = stack.enter_context(ThreadPoolExecutor(2))
            command = stack.enter_context(
                started(*words, *limits, *more, cwd=site.folder, prefix=(*environment, *prefix))
            )
            stderr = _read(command, pool)
            if fault.strike is not None:
                time.sleep(drawn.uniform(0.3, LATEST_S))
                fault.strike(command, scene)
            began = time.monotonic()
            problems, seconds = _end(command, fault, site, began, patience * fault.deadline_s)
            text = stderr.result(60)
            if not problems:  # what we ended ourselves tells no more
                problems = [*_judge(command, fault, text, scene.folder)]
                is_killed = command.process.returncode == -signal.SIGKILL
                problems += [] if is_killed else [f"left in TMPDIR: {one.name}" for one in temporary.iterdir()]
            said = _said(text, command, scene.folder)
        while (left := site.state() ^ before) and time.monotonic() < began + patience * fault.deadline_s:
            time.sleep(0.1)
        return Outcome(fault, problems + [f"left: {sorted(left)}"] * bool(left), said, seconds)


@contextmanager
def _folder(path: Path) -> Iterator[Path]:
    """A folder for everybody, for the length of a run."""
    path.mkdir()
    path.chmod(0o777)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _read(command: Command, pool: ThreadPoolExecutor) -> Future[str]:
    """What it says on stderr; nothing waits for a reader."""
    pool.submit(command.process.stdout.read)
    return pool.submit(command.process.stderr.read)


def _end(command: Command, fault: Fault, site: Site, began: float, deadline_s: float) -> tuple[list[str], float]:
    """Wait for the end; what is wrong with it, and how long it took."""
    problems: list[str] = []
    if fault.stopped_s:
        time.sleep(fault.stopped_s)
        problems += _frames(site, "while the controller was stopped")
        command.process.send_signal(signal.SIGCONT)
        began = time.monotonic()
    while (command.process.poll() is None or command.left()) and time.monotonic() < began + deadline_s:
        time.sleep(0.02)
    seconds = time.monotonic() - began
    if command.process.poll() is None:
        problems.append("not over at the deadline")
        command.process.kill()
        command.process.wait()
    elif left := command.left():
        problems.append(f"{len(left)} processes left")
    return [*problems, *_frames(site, "after the end")], seconds


def _frames(site: Site, when: str) -> Iterator[str]:
    before = site.frames()
    time.sleep(_QUIET_S)
    if (frames := site.frames() - before) > site.stray_frames:
        yield f"{frames} frames {when}"


def _judge(command: Command, fault: Fault, text: str, folder: Path) -> Iterator[str]:
    code = command.process.returncode
    if code == -signal.SIGKILL and fault.may_kill_command:
        if is_run_folder(folder) and stored_run(folder).status not in ("interrupted", "complete"):
            yield f"the run is {stored_run(folder).status}"
    elif code not in _ENDINGS:
        yield f"exit code {code}"
    elif code and not (last := text.rstrip().rpartition("\n")[2]).startswith("charkha: "):
        yield f"the last line names no error: {last}"
    for word in ("Traceback", "internal error"):
        if word in text:
            yield word
    reported = {int(number) for number in _REPORTED.findall(text)}
    if reported and not fault.loses_folder:
        yield from _missing(reported, folder)


def _missing(reported: set[int], folder: Path) -> Iterator[str]:
    """Iterations that the command reported, and that are not in the folder with all samples."""
    try:
        run = read_run(folder)
        rows = run.table(RunTable.SAMPLES, ["iteration"])["iteration"].to_numpy()
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


def chaos(count: int, seed: int, names: Sequence[str] = (), *, first: int = 1, patience: float = 1) -> list[Outcome]:
    """Play so many runs, from number `first` on, and tell each on stderr; the same seed and number are the same run."""
    faults = [one for one in FAULTS if not names or one.name in names]
    sites: dict[Kind, Site] = {}
    outcomes = []
    with ExitStack() as stack:
        sites[Kind.LAB] = stack.enter_context(lab())
        sites[Kind.LOOPBACK] = replace(sites[Kind.LAB], options=("--agents", 2))
        for number in range(first - 1, first - 1 + count):
            fault = faults[number % len(faults)]
            if fault.kind not in sites:
                place = sites[Kind.LAB].folder / "servers"
                place.mkdir()
                sites[fault.kind] = stack.enter_context(servers(place))
            drawn = random.Random(f"{seed}/{number}")
            run = partial(play, sites[fault.kind], fault, drawn, patience=patience)
            outcomes.append(timed(number, run, str))
    return outcomes


def summary_text(outcomes: Sequence[Outcome]) -> str:
    """A line for every fault: runs, how many were right and how many were done, and the slowest named end."""
    rows: dict[str, list[Outcome]] = defaultdict(list)
    for one in outcomes:
        rows[one.fault.name].append(one)
    lines = [f"{'fault':24} {'runs':>4} {'right':>5} {'done':>4}  slowest named end, deadline"]
    for name, found in [*rows.items(), ("all", list(outcomes))]:
        right, done = sum(not one.problems for one in found), sum(one.said == "done" for one in found)
        slowest = max((one.seconds for one in found if one.said != "done"), default=0)
        deadline = f", {found[0].fault.deadline_s:g} s" if name in rows else ""
        lines.append(f"{name:24} {len(found):4} {right:5} {done:4}  {slowest:.1f} s{deadline}")
    return "\n".join(lines)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--first", type=int, default=1, help="number of the first run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fault", action="append", default=[], choices=[one.name for one in FAULTS])
    parser.add_argument("--patience", type=float, default=1, help="times the deadlines, on a busy machine")
    options = parser.parse_args()
    outcomes = chaos(options.count, options.seed, options.fault, first=options.first, patience=options.patience)
    print(summary_text(outcomes))
    return int(any(one.problems for one in outcomes))


if __name__ == "__main__":
    sys.exit(main())
