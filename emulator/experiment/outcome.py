"""What a run came to: its summary, its sweep if it was one, and the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from emulator.experiment.spec import Sweep
from emulator.experiment.workload import planned_sweep
from emulator.run_folder.reader import Run
from emulator.statistics.summary import RunSummary, summarise
from emulator.statistics.sweep import SweepTable, sweep_table, sweep_to_json
from emulator.verdict.judge import Verdict, judge
from emulator.verdict.rules import rules_of
from emulator.views.as_json.summary import summary_to_json
from emulator.views.as_json.verdict import verdict_to_json


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run after its end; `sweep` is None if it was not one."""

    run: Run
    summary: RunSummary
    sweep: SweepTable | None
    verdict: Verdict

    def to_json(self) -> dict[str, Any]:
        """What `--json` prints."""
        facts = sweep_to_json(self.sweep) if self.sweep is not None else summary_to_json(self.summary)
        return facts | {"run_folder": str(self.run.folder), "verdict": verdict_to_json(self.verdict)}


def outcome_of(run: Run, sweep: Sweep | None) -> Outcome:
    """Summarise a run, and judge it by the rules that it was played with.

    Args:
        run: the run.
        sweep: what was swept; None: a trace was played.

    Raises:
        ResultError: a table of the run is missing or damaged.
        InputError: its rules cannot be read.
    """
    table = None
    if sweep is not None:
        planned = planned_sweep(sweep)
        table = sweep_table(run, kind=planned.kind, ranks=planned.ranks, sizes=planned.sizes)
    summary = summarise(run)
    return Outcome(run, summary, table, judge(summary, rules_of(run)))
