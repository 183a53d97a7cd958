"""A synthetic workload that was written as a trace, as a JSON document."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from emulator.trace.synthetic.synthetic import SyntheticWorkload, WorkloadTotals
from emulator.units import NS_PER_US


def workload_to_json(workload: SyntheticWorkload, paths: Sequence[Path]) -> dict[str, Any]:
    """Name, parameters and traffic of a workload."""
    return {
        "workload": workload.name,
        "parameters": dict(workload.parameters),
        **_totals(workload.totals),
        "groups": len(workload.groups),
        "files": [str(path) for path in paths],
    }


def _totals(totals: WorkloadTotals) -> dict[str, Any]:
    return {
        "ranks": totals.ranks,
        "nodes": totals.nodes,
        "compute_nodes": totals.compute_nodes,
        "compute_ns": totals.compute_micros * NS_PER_US,
        "compute_micros": totals.compute_micros,  # the name of version 0.1; the next version drops it
        "traffic": [
            {
                "role": entry.role.value,
                "operation": entry.kind.label,
                "size_bytes": entry.size_bytes if entry.uneven_bytes is None else None,
                "mean_size_bytes": entry.total_bytes / entry.nodes if entry.nodes else None,
                "group_size": entry.group_size,
                "operations": entry.operations,
                "nodes": entry.nodes,
                "total_bytes": entry.total_bytes,
            }
            for entry in totals.traffic
        ],
    }
