"""Stored runs and the statistics of one as JSON documents."""

from __future__ import annotations

import json
from pathlib import Path

from emulator.results.run_folder.manifest import Manifest
from emulator.results.run_folder.store import UNREADABLE, StoredRun
from emulator.results.statistics.method.distribution import distributions
from emulator.results.statistics.samples.measurements import measurements
from emulator.views.as_json.store import runs_to_json, statistics_to_json
from emulator.views.columns.figures import NONE
from tests.support.runs import collective, manifest, write_run

ROOT = Path("runs")


def stored(name: str, found: Manifest | None = None, status: str = "complete") -> StoredRun:
    return StoredRun(ROOT / name, found, status, None if found else "manifest.json is missing")


def test_the_document_of_a_run_has_its_problem_or_its_facts() -> None:
    broken, good = runs_to_json(
        [stored("x", None, UNREADABLE), stored("y", manifest(status="complete", dut={"firmware": "1.2"}))]
    )
    assert broken == {"folder": "runs/x", "status": UNREADABLE, "problem": "manifest.json is missing"}
    assert (good["folder"], good["firmware"], good["transport"]) == ("runs/y", "1.2", NONE)
    assert good["trials"]["included"] == 2


def test_statistics_have_a_class_per_entry_with_null_for_what_the_samples_do_not_allow(tmp_path: Path) -> None:
    samples = [row for n in range(20) for row in collective([0, 0], [100 + n] * 2, iteration=n)]
    found = distributions(measurements(write_run(tmp_path / "run", samples)))
    document = json.loads(json.dumps(statistics_to_json(found, [], incomplete=2), allow_nan=False))
    one = document["classes"][0]
    assert (one["collective"], one["members"], one["size_bytes"], one["algorithm"]) == ("all_reduce", 2, 1000, "ring")
    assert (one["samples"], one["p50_ns"], one["max_ns"], one["p99_ns"]) == (20, 109, 119, None)
    assert one["median_interval_ns"]["low"] <= one["p50_ns"] <= one["median_interval_ns"]["high"]
    assert (document["incomplete"], document["lateness"]) == (2, [])
