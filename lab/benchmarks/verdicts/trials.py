"""Cases, how they are played in the lab two-hosts-switch, and the table of what came of them."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

TOPOLOGY = Path("topologies/two-hosts-switch.yaml").resolve()
IN_LAB = ("--topology", TOPOLOGY, "--lab", TOPOLOGY.stem)
"""Options of a run: a lab of another name that came from an equal topology is not played in."""
_TRIAL_S = 60


@dataclass(frozen=True, slots=True)
class Case:
    """One device and its rules.

    Attributes:
        sizes: as for `bench -b`.
        percents: bounds of busbw_to_ideal.
        wanted: verdict → least share of the trials that must have it; 0: none may.
        loops: processes that do nothing but use a core.
        profile: name, or content of a file; "": the device is clean.
        rules: content of a rules file; "": made of `percents`.
        device: entered for a trial: makes the lab's switch another device.
    """

    name: str
    ranks: int
    sizes: str
    percents: Sequence[int]
    wanted: Mapping[str, float]
    loops: int = 0
    profile: str = ""
    rules: str = ""
    iterations: int = 10
    device: Callable[[], AbstractContextManager[None]] = nullcontext

    def play(self, folder: Path) -> list[str]:
        """The verdict of each set of rules on one run; UNDECIDED is also what a failed run says."""
        rules = [self.rules] if self.rules else [_share(percent) for percent in self.percents]
        files = [folder / f"rules-{number}.yaml" for number in range(len(rules))]
        for path, text in zip(files, rules, strict=True):
            path.write_text(text)
        profile = self.profile
        if "\n" in profile:
            path = folder / "profile.yaml"
            path.write_text(profile)
            profile = str(path)
        out = folder / "run"
        sizes = ("-b", self.sizes) if "," in self.sizes else ("-b", self.sizes, "-e", self.sizes)
        options = ("-n", self.ranks, *sizes, "--iterations", self.iterations, *IN_LAB)
        faulty = ("--profile", profile) if profile else ()
        with self.device(), _busy(self.loops):
            charkha("bench", "all_reduce", *options, *faulty, "--out", out, "--no-report")
        return [charkha("runs", "judge", out, one).partition(":")[0] or "no verdict" for one in files]


def report(cases: Iterator[Case], count: int) -> int:
    """Calibrate, play every case `count` times in one lab, print a table; 1 if a verdict is wrong."""
    wrong = 0
    print(f"{'case':28} {'loops':>5}  {'verdicts':44} right")
    charkha("agent", "calibrate", "--topology", TOPOLOGY, "--transport", "roce", timeout_s=120)
    with raised():
        for case in cases:
            found: Counter[str] = Counter()
            for _ in range(count):
                with tempfile.TemporaryDirectory(prefix="charkha-verdicts-") as folder:
                    found.update(case.play(Path(folder)))
            is_right = all(
                found[name] >= share * found.total() if share else not found[name]
                for name, share in case.wanted.items()
            )
            wrong += not is_right
            told = ", ".join(f"{number} {name}" for name, number in found.most_common())
            print(f"{case.name:28} {case.loops:5}  {told:44} {'yes' if is_right else 'NO'}", flush=True)
    return int(wrong > 0)


def _share(percent: int) -> str:
    return f"charkha_rules: 1\nrules:\n  - {{metric: busbw_to_ideal, at_least: {percent} %}}\n"


def charkha(*arguments: object, timeout_s: int = _TRIAL_S) -> str:
    """Run a command; its stdout. What went wrong with it goes to stderr."""
    command = [sys.executable, "-m", "emulator", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    if done.returncode in (1, 2, 3):
        print(done.stderr, file=sys.stderr)
    return done.stdout


@contextmanager
def raised(topology: Path = TOPOLOGY, *, lab_id: str | None = None) -> Iterator[None]:
    """The lab of a topology, until the context is left; with `lab_id` beside another lab of the same addresses."""
    charkha("lab", "up", topology, *(() if lab_id is None else ("--id", lab_id, "--force")))
    try:
        yield
    finally:
        charkha("lab", "down", lab_id or topology)


@contextmanager
def _busy(loops: int) -> Iterator[None]:
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for one in processes:
            one.kill()
            one.wait()
