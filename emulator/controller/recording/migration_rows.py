"""Traffic of ranks that moved to another path, as rows of events.parquet on the clock of the run."""

from __future__ import annotations

from typing import Any

import numpy as np

from emulator.controller.run_plan import RunOutcome
from emulator.results.run_folder.schema import BEGIN, BY_AGENT, END, Columns
from emulator.topology.model import Topology


def migration_rows(outcome: RunOutcome, topology: Topology) -> Columns:
    """Columns of `EVENTS_SCHEMA`; none if no traffic moved. The port of a row is the one that traffic left."""
    rows: list[dict[str, Any]] = []
    for agent, farewell in outcome.farewells.items():
        clock = outcome.clocks.get(agent)
        for one in farewell.migrations:
            host, at_ns, error_ns = topology.host_of(one.rank), one.at_ns, 0
            ports = topology.interface_of(one.rank).name, topology.alternate_interface_of(one.rank).name
            left, taken = ports[::-1] if one.is_back else ports
            if clock is not None:
                at_ns, error_ns = int(clock.to_controller(np.array([at_ns]))[0]), clock.error_ns
            rows.append(
                {
                    "name": f"rank {one.rank} to rank {one.peer} (queue pair {one.qpn})",
                    "edge": END if one.is_back else BEGIN,
                    "what": f"migration {'back ' if one.is_back else ''}to {taken}",
                    "device": host.name,
                    "interface": left,
                    "stops_traffic": False,
                    "planned_ns": None,
                    "time_ns": at_ns,
                    "uncertainty_ns": error_ns,
                    "seen_by": BY_AGENT,
                    "routes_ns": None,
                    "exit_code": None,
                }
            )
    rows.sort(key=lambda one: (one["time_ns"], one["name"]))
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}
