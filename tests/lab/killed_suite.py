"""A suite in a lab, killed twice and resumed, plays no case twice: `python -m tests.lab.killed_suite`.

Eight ranks on four hosts at one switch of 1 Gbit/s. It says how long each part took.
"""

import argparse
import json
import sys
import time
from pathlib import Path

from emulator.annexes.series.suite_record import SuiteRecord
from emulator.results.run_folder.manifest import COMPLETE
from emulator.results.run_folder.store import find_runs, stored_run
from tests.lab.trials import star_lab
from tests.support.command import started, wait_for

KILLS = (1, 4)
"""Numbers of complete cases at which it is killed, as soon as the next case has begun."""


def complete_runs(root: Path) -> dict[str, str]:
    """Folder → run id of every complete run of a suite; the jobs of a session count when its case is done."""
    runs = [stored_run(folder) for folder in find_runs(root)]
    names = {one.folder.relative_to(root): one.manifest.run_id for one in runs if one.status == COMPLETE}
    done = {one["name"] for one in json.loads((root / SuiteRecord.FILE).read_text())["cases"]}
    return {str(path): run for path, run in names.items() if "job=" not in path.name or path.parts[0] in done}


def play(suite: str, folder: Path, out: Path, *, timeout_s: float) -> dict[str, int]:
    """Play a suite in a folder with lab.yaml, its lab up; kill it at KILLS, resume it to its end.

    Returns:
        Outcome of a case → how many have it.
    """
    before: dict[str, str] = {}
    for action, complete in (("run", KILLS[0]), ("resume", KILLS[1]), ("resume", None)):
        began = time.monotonic()
        with started("suite", action, suite, "--topology", "lab.yaml", "--out", out, "--json", cwd=folder) as command:
            if complete is None:
                done = command.finish(timeout_s)
            else:
                wait_for(lambda n=complete: _is_in_next_case(out, n) or None, timeout_s)  # type: ignore[misc]
                command.process.kill()
                command.process.wait()
                wait_for(lambda one=command: not one.left() or None)  # type: ignore[misc]
        after = complete_runs(out)
        assert before.items() <= after.items(), "a complete case was played again"
        print(f"{action:6} {time.monotonic() - began:6.1f} s  {len(after)} runs complete", file=sys.stderr, flush=True)
        before = after
    assert len(set(before.values())) == len(before), "a run id was given twice"
    result = json.loads(done.stdout)
    played = {Path(one).parts[0] for one in before}
    failed = {one["name"]: one["outcome"] for one in result["cases"] if one["name"] not in played}
    assert played <= {one["name"] for one in result["cases"]}, done.stderr
    assert set(failed.values()) <= {"UNDECIDED"}, failed  # a run that failed is not complete, and decides nothing
    outcomes = [one["outcome"] for one in result["cases"]]
    return {outcome: outcomes.count(outcome) for outcome in sorted(set(outcomes))}


def _is_in_next_case(out: Path, complete: int) -> bool:
    done = len(complete_runs(out)) if (out / SuiteRecord.FILE).is_file() else 0
    return done >= complete and len([*find_runs(out)]) > done


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--suite", default="sonic-ccl")
    parser.add_argument("--out", type=Path, help="folder of the suite, which is kept (default: none)")
    options = parser.parse_args()
    with star_lab(4, rate="1Gbit") as lab:
        out = (options.out or lab.folder / "suite").resolve()
        outcomes = play(options.suite, lab.folder, out, timeout_s=3600)
    print(f"{sum(outcomes.values())} cases, each played once: {outcomes}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
