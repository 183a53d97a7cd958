"""The same firmware compared with itself on a host that becomes slower: `python -m tests.lab.drifting_host`.

Each trial plays pairs of runs in turns while the load on this host grows from nothing to two busy processes, and
compares them. Faster or slower in any class is a false verdict.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from emulator.results.comparison.verdicts import ClassVerdict
from tests.lab.trials import Play, Trial, command, star_lab
from tests.support.command import succeed

PAIRS = 7
"""The signed-rank test needs as many for two classes, see docs/compare.md."""
_GROWS_S = 25
"""About as long as a trial takes."""
_LOAD = f"""
import time
began = time.monotonic()
while True:
    share = min((time.monotonic() - began) / {_GROWS_S}, 1.0)
    until = time.monotonic() + 0.01 * share
    while time.monotonic() < until:
        pass
    time.sleep(0.01 * (1 - share))
"""


@contextmanager
def growing_load(processes: int = 2) -> Iterator[None]:
    """Processes that use more and more of a core each."""
    found = [subprocess.Popen([sys.executable, "-S", "-c", _LOAD]) for _ in range(processes)]
    try:
        yield
    finally:
        for one in found:
            one.kill()
            one.wait()


@contextmanager
def opened() -> Iterator[Play]:
    """A lab for all trials."""
    with star_lab(2, rate="20Mbit") as lab:

        def play(number: int) -> Trial:
            sweep = ("-n", 2, "-b", "32K", "-e", "32K", "--iterations", 8, "--congestion", "none", "--seed", number)
            with growing_load():
                turns = ("--profiles", "fw-a,fw-a", "--repeat", PAIRS)
                made = lab.bench("all_reduce", *sweep, *turns, out="runs", timeout_s=300)
            assert made.code == 0, made.stderr
            compared = succeed("compare", "runs/fw-a", "runs/fw-a-2", "--json", cwd=lab.folder)
            shutil.rmtree(lab.folder / "runs")
            (pair,) = json.loads(compared.stdout)["pairs"]
            classes = [f"{one['collective']} {one['ratio']:.3f} {one['verdict']}" for one in pair["classes"]]
            false = pair["verdicts"][ClassVerdict.FASTER.value] + pair["verdicts"][ClassVerdict.SLOWER.value]
            how = "in pairs" if pair["paired"] else "as groups"
            return Trial("false verdict" if false else "none false", bool(false), f"{how}: {', '.join(classes)}")

        yield play


if __name__ == "__main__":
    sys.exit(command(__doc__, count=100, most_wrong=0.05, opened=opened))
