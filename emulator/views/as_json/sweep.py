"""A sweep over sizes as a JSON document."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from emulator.results.statistics.bench.sweep import SweepTable
from emulator.views.columns.columns import row_to_json
from emulator.views.columns.sweep_columns import SWEEP_COLUMNS


def sweep_to_json(table: SweepTable) -> dict[str, Any]:
    """The sweep as a JSON document, including the statistics that the printed table omits; unknown values are null.

    Keys that end in _us and _gbps (1e9 bytes per second) are those of version 0.1; the next version drops them.
    """
    mean = table.mean_busbw_bytes_per_s
    return {
        "collective": table.label,
        "ranks": table.ranks,
        "root": table.root,
        "rows": [asdict(row) | row_to_json(SWEEP_COLUMNS, row) for row in table.rows],
        "mean_busbw_bytes_per_s": mean,
        "mean_busbw_gbps": None if mean is None else mean / 1e9,
        "counters": dict(table.counters),
        "paths": [asdict(one) for one in table.paths],
        "dut": dict(table.dut),
        "warnings": dict(table.warnings),
        "worst_steps": [asdict(one) for one in table.worst_steps],
        "units": {
            "time": "as the key says (_ns; _us in those of version 0.1), mean of cct over iterations",
            "bandwidth": "as the key says (_bytes_per_s); 1e9 bytes per second in _gbps, those of version 0.1",
        },
    }
