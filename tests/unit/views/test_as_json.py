"""Documents of `--json` as somebody has read and approved them: their keys are a promise to scripts."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from emulator.results.comparison.groups import RunGroup
from emulator.results.comparison.verdicts import GroupComparison
from emulator.results.run_folder.manifest import RUNNING, RunFigures, Scaling
from emulator.results.run_folder.store import UNREADABLE, StoredRun
from emulator.results.statistics.events import Migrations
from emulator.results.statistics.method.distribution import distributions
from emulator.results.statistics.samples.iterations import measurements
from emulator.results.statistics.summary import summarise
from emulator.results.statistics.worst.stragglers import lateness
from emulator.views.as_json import (
    comparison_to_json,
    runs_to_json,
    statistics_to_json,
    summary_to_json,
    verdict_to_json,
)
from tests.support.approved import approved, json_text
from tests.support.recorded import compared, recorded, slower_firmware, too_few_runs
from tests.support.runs import collective, manifest, write_run
from tests.unit.views.terminal.test_approved import rich_summary
from tests.unit.views.terminal.test_verdict_table import rule, verdict


def comparison(_: Path) -> dict[str, Any]:
    def short(found: GroupComparison) -> Any:
        (first,) = found.pairs
        return comparison_to_json(replace(found, pairs=[replace(first, classes=first.classes[:2])]))

    runs = recorded("paced")
    return {
        "a slower firmware, and a run left out": short(slower_firmware()),
        "too few runs pass only the lenient gate": short(too_few_runs()),
        "one run each: what is unknown is null": short(compared(RunGroup("a", runs[0:1]), RunGroup("b", runs[1:2]))),
    }


def verdicts(folder: Path) -> dict[str, Any]:
    return {
        "a class that fails": verdict_to_json(verdict(folder / "class", rule("cct_p50", 10))),
        "an iteration that passes": verdict_to_json(verdict(folder / "run", rule("jct", 900))),
        "no rules": verdict_to_json(verdict(folder / "none")),
    }


def summary(folder: Path) -> dict[str, Any]:
    rich = rich_summary(folder / "rich")
    moved = (Migrations("h0:eth0", "migration to eth1", 3, 1_500_000_000, 2 * 10**9),)
    odd = replace(rich, migrations=moved, scaling=Scaling(bytes=0.5, compute="skip"), classes=())
    return {
        "a run with everything": summary_to_json(replace(rich, classes=rich.classes[:2])),
        "a port that moved, sizes and compute scaled": summary_to_json(odd),
        "no iteration": summary_to_json(summarise(write_run(folder / "bare", collective([0, 0], [100, 100])))),
    }


def runs(_: Path) -> list[Any]:
    figures = RunFigures(verdict="TESTER-LIMITED", jct_ns=188_000_000, lost=1204)
    judged = manifest(status="complete", figures=figures, topology={"name": "loopback"}, dut={"firmware": "1.2"})
    return runs_to_json(
        [
            StoredRun(Path("runs/a"), judged, "complete", None),
            StoredRun(Path("runs/b"), manifest(status=RUNNING), RUNNING, None),
            StoredRun(Path("runs/x"), None, UNREADABLE, "manifest.json is missing"),
        ]
    )


def statistics(folder: Path) -> dict[str, Any]:
    many = [row for n in range(20) for row in collective([0, 0], [100 + n] * 2, iteration=n)]
    late = [row for n in range(12) for row in collective([0, 0, 0, 900], [2000] * 4, iteration=n, name="grad")]
    found = distributions(measurements(write_run(folder / "many", many)))
    return statistics_to_json(found, [lateness(write_run(folder / "late", late), "post")], incomplete=2)


@pytest.mark.parametrize("make", [comparison, verdicts, summary, runs, statistics], ids=lambda one: one.__name__)
def test_a_document_is_what_was_approved(make: Any, tmp_path: Path) -> None:
    approved(f"json/{make.__name__}", json_text(make(tmp_path)).replace(str(tmp_path), "FOLDER"))
