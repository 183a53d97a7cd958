"""The summary of a run as a JSON document."""

from __future__ import annotations

import dataclasses
from typing import Any

from emulator.results.statistics.summary import RunSummary
from emulator.trace.meaning.imported import DROPPED, GUESSED


def summary_to_json(summary: RunSummary) -> dict[str, Any]:
    """The summary of a run: units in the key names, unrounded, null for an unknown value."""
    document = dataclasses.asdict(dataclasses.replace(summary, flows=None))
    del document["flows"]  # there can be a million: they are in flows.parquet
    scaling = document.pop("scaling")
    document["scaling"] = {"bytes_factor": scaling["bytes"], **{k: v for k, v in scaling.items() if k != "bytes"}}
    for row, one in zip(document["classes"], summary.classes, strict=True):
        row["tester_limited"] = one.is_tester_limited
    for row, frames in zip(document["totals"]["device_frames"], summary.totals.device_frames, strict=True):
        row |= {"lost": frames.lost, "unexplained": frames.unexplained}
    document["totals"]["lost"] = summary.totals.lost
    if summary.iteration is not None:
        document["iteration"] |= {
            "exposed_ns": summary.iteration.exposed_ns,
            "exposed_fraction": summary.iteration.exposed_fraction,
            "overlap_fraction": summary.iteration.overlap_fraction,
        }
    if summary.imported is not None:
        document["imported"] |= {fate: summary.imported.number(fate) for fate in (GUESSED, DROPPED)}
    return document
