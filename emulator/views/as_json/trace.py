"""The summary of a trace set as a JSON document."""

from __future__ import annotations

import dataclasses
from typing import Any

from emulator.trace.summary import Summary


def trace_to_json(summary: Summary) -> dict[str, Any]:
    """Every field of the summary, with its unit in its key."""
    content = dataclasses.asdict(summary)
    content["groups"] = [{"name": group.name, "ranks": list(group.ranks)} for group in summary.groups]
    return content
