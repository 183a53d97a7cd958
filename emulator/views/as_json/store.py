"""Stored runs and the statistics of one of them as JSON documents."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from emulator.results.run_folder.manifest import RUNNING, Manifest
from emulator.results.run_folder.store import StoredRun, firmware_of
from emulator.results.statistics.method.distribution import Distribution
from emulator.results.statistics.worst.stragglers import Lateness
from emulator.views.columns.columns import row_to_json
from emulator.views.columns.figures import transport_of
from emulator.views.columns.result_columns import RESULT_COLUMNS, result_of


def runs_to_json(runs: Sequence[StoredRun]) -> list[dict[str, Any]]:
    """A document per run: its folder and status, and what its manifest has if it can be read."""
    return [_run_to_json(run) for run in runs]


def _run_to_json(run: StoredRun) -> dict[str, Any]:
    document: dict[str, Any] = {"folder": str(run.folder), "status": run.status, "problem": run.problem}
    manifest = run.manifest
    if manifest is None:
        return document
    return document | {
        "run_id": manifest.run_id,
        "created": manifest.created,
        "trace": dataclasses.asdict(manifest.trace),
        "transport": transport_of(manifest),
        "dut": dict(manifest.dut),
        "firmware": firmware_of(manifest),
        **result_to_json(manifest),
        "trials": None if manifest.status == RUNNING else dataclasses.asdict(manifest.trials),
    }


def result_to_json(manifest: Manifest) -> dict[str, Any]:
    """What lists show of a run: verdict, median JCT (ns), lost, profile, topology; null for what is not known."""
    return row_to_json(RESULT_COLUMNS, result_of(manifest))


def statistics_to_json(found: Sequence[Distribution], late: Sequence[Lateness], *, incomplete: int) -> dict[str, Any]:
    """Percentiles of every class, and who was last; units in the keys, null for an unknown value."""
    return {
        "classes": [_distribution_to_json(one) for one in found],
        "incomplete": incomplete,
        "lateness": [dataclasses.asdict(one) for one in late],
    }


def _distribution_to_json(one: Distribution) -> dict[str, Any]:
    document = dataclasses.asdict(one)
    interval = one.median_interval_ns
    return {
        **document.pop("key"),
        **document,
        "median_interval_ns": None if interval is None else interval._asdict(),
    }
