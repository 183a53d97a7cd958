"""Runs over a clean device must not FAIL: `python -m tests.lab.clean_device`.

Four hosts at one switch, and a ring, in which no two senders meet at a port. TESTER-LIMITED is right on a busy host.
"""

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from emulator.results.statistics.summary import summarise
from emulator.results.verdict.judge import Outcome, judge
from emulator.results.verdict.rules import EXAMPLE, load_rules
from emulator.views.verdict_text import headline
from tests.lab.trials import Play, Trial, command, star_lab

HOSTS = 4


@contextmanager
def opened() -> Iterator[Play]:
    """A lab for all trials."""
    with star_lab(HOSTS) as lab:

        def play(_: int) -> Trial:
            sweep = ("-n", HOSTS, "-b", "1M", "-e", "1M", "--iterations", 4, "--warmup", 1)
            verdict = judge(summarise(lab.run("all_reduce", *sweep, out="run")), load_rules(EXAMPLE))
            shutil.rmtree(lab.folder / "run")
            return Trial(verdict.outcome.value, verdict.outcome is Outcome.FAIL, headline(verdict))

        yield play


if __name__ == "__main__":
    sys.exit(command(__doc__, count=100, most_wrong=0.05, opened=opened))
