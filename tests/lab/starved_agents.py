"""Agents with a fifth of a core: the verdict must be TESTER-LIMITED: `python -m tests.lab.starved_agents`.

Two hosts at one switch. Both agents are pinned to one core, beside three processes that only compute.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from emulator.results.run_folder.reader import read_run
from emulator.results.statistics.summary import summarise
from emulator.results.verdict.judge import Outcome, judge
from emulator.results.verdict.rules import EXAMPLE, load_rules
from emulator.views.verdict_text import headline
from tests.lab.trials import Play, Trial, collective, command, star_lab
from tests.support.command import started

AGENTS, COMPETITORS = 2, 3
CORE = max(os.sched_getaffinity(0))


@contextmanager
def competitors(count: int) -> Iterator[None]:
    """Processes that only compute, on the core."""
    with ExitStack() as stack:
        for _ in range(count):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]))
            stack.callback(process.kill)
            os.sched_setaffinity(process.pid, {CORE})
        yield


@contextmanager
def opened() -> Iterator[Play]:
    """A lab for all trials."""
    with star_lab(AGENTS) as lab, competitors(COMPETITORS):

        def play(number: int) -> Trial:
            sweep = ("-n", AGENTS, "-b", "1M", "-e", "1M", "--iterations", 4, "--warmup", 1)
            where = ("--topology", "lab.yaml", "--lab", lab.id, "--out", "run")
            with started("bench", collective(number), *sweep, *where, cwd=lab.folder) as run:
                for agent in run.agents(AGENTS):
                    os.sched_setaffinity(agent, {CORE})  # their threads come later
                assert run.finish(timeout_s=300).code == 0
            verdict = judge(summarise(read_run(lab.folder / "run")), load_rules(EXAMPLE))
            shutil.rmtree(lab.folder / "run")
            return Trial(verdict.outcome.value, verdict.outcome is not Outcome.TESTER_LIMITED, headline(verdict))

        yield play


if __name__ == "__main__":
    sys.exit(command(__doc__, count=20, most_wrong=0, opened=opened))
