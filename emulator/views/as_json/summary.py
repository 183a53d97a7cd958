"""The summary of a run as a JSON document."""

from __future__ import annotations

import dataclasses
from typing import Any

from emulator.results.statistics.summary import RunSummary
from emulator.trace.meaning.imported import DROPPED, GUESSED
from emulator.views.columns.class_columns import CLASS_COLUMNS
from emulator.views.columns.columns import row_to_json
from emulator.views.columns.worst_flow_columns import WORST_FLOW_COLUMNS


def summary_to_json(summary: RunSummary) -> dict[str, Any]:
    """The summary of a run: units in the key names, unrounded, null for an unknown value."""
    document = dataclasses.asdict(dataclasses.replace(summary, flows=None))
    del document["flows"]  # there can be a million: they are in flows.parquet
    scaling = document.pop("scaling")
    document["scaling"] = {"bytes_factor": scaling["bytes"], **{k: v for k, v in scaling.items() if k != "bytes"}}
    for name, columns in (("classes", CLASS_COLUMNS), ("worst_flows", WORST_FLOW_COLUMNS)):
        for row, one in zip(document[name], getattr(summary, name), strict=True):
            row |= row_to_json(columns, one)
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
