"""The summary of a trace set as a JSON document."""

from __future__ import annotations

import dataclasses
from typing import Any

from emulator.trace.analysis.compare import Difference
from emulator.trace.analysis.summary import Summary


def trace_to_json(summary: Summary) -> dict[str, Any]:
    """Every field of the summary, with its unit in its key."""
    content = dataclasses.asdict(summary)
    content["groups"] = [{"name": group.name, "ranks": list(group.ranks)} for group in summary.groups]
    return content


def difference_to_json(found: Difference) -> dict[str, Any]:
    """Every aspect, whether it differs or not."""
    ratio = None
    if found.duration_ratio is not None:
        ratio = dict(zip(("least", "median", "most"), found.duration_ratio, strict=True))
    return {
        "same": found.is_same,
        "differ": [aspect.value for aspect in found.aspects],
        "aspects": {aspect.value: dataclasses.asdict(finding) for aspect, finding in found.findings.items()},
        "duration_ratio": ratio,
        "tolerance": found.tolerance,
    }
