"""What a run came to: its summary, its sweep if it was one, and the verdict."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from emulator.experiment.settle.workload import planned_pair_sweep, planned_sweep
from emulator.experiment.spec.spec import Job
from emulator.results.run_folder.reader import Run
from emulator.results.statistics.bench.pair_sweep import PairTable, pair_table
from emulator.results.statistics.bench.sweep import SweepTable, sweep_table
from emulator.results.statistics.summary import RunSummary, summarise
from emulator.results.verdict.judge import Verdict, judge
from emulator.results.verdict.rules import rules_of
from emulator.views.as_json.summary import summary_to_json
from emulator.views.as_json.sweep import sweep_to_json
from emulator.views.as_json.verdict import verdict_to_json


@dataclass(frozen=True, slots=True)
class PlayedRun:
    """A run after its end; `sweep` and `pairs` are None if it was not one."""

    run: Run
    summary: RunSummary
    sweep: SweepTable | None
    pairs: PairTable | None
    verdict: Verdict

    def to_json(self) -> dict[str, Any]:
        """What `--json` prints."""
        if self.pairs is not None:
            facts = self.pairs.to_json()
        else:
            facts = sweep_to_json(self.sweep) if self.sweep is not None else summary_to_json(self.summary)
        for name in ("flow_results", "background"):
            if rows := [asdict(one) for one in getattr(self.summary, name)]:
                facts |= {name: rows}
        return facts | {"run_folder": str(self.run.folder), "verdict": verdict_to_json(self.verdict)}


def outcome_of(run: Run, job: Job) -> PlayedRun:
    """Summarise a run, and judge it by the rules that it was played with.

    Args:
        run: the run.
        job: what it played.

    Raises:
        ResultError: a table of the run is missing or damaged.
        InputError: its rules cannot be read.
    """
    table = pairs = None
    if job.sweep is not None:
        planned = planned_sweep(job.sweep)
        table = sweep_table(run, kind=planned.kind, ranks=planned.ranks, sizes=planned.sizes)
    if job.pair_sweep is not None:
        pairs = pair_table(run, size_bytes=planned_pair_sweep(job.pair_sweep).size_bytes)
    summary = summarise(run)
    return PlayedRun(run, summary, table, pairs, judge(summary, rules_of(run)))
