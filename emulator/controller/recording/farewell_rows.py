"""What agents say when they leave, as rows on the clock of the run: traffic that moved to another path, as events, and
what flows carried by time, as both of their ends counted it, in bins of one length.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from emulator.control.observations import Timeline, TimelineFlow
from emulator.controller.clock_offset import ClockEstimate
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


def timeline_rows(outcome: RunOutcome) -> Columns:
    """Columns of `TIMELINE_SCHEMA`; none if nothing was recorded. The longest bins of an agent are those of all."""
    said = {name: one.timeline for name, one in outcome.farewells.items() if one.timeline is not None}
    if not said:
        return {}
    bin_ns = max(one.bin_ns for one in said.values())
    numbers: dict[TimelineFlow, int] = {}
    parts = []
    for name, one in said.items():
        if name in outcome.clocks:
            one = _on_run_clock(one, outcome.clocks[name])
        renumbered = np.array([numbers.setdefault(flow, len(numbers)) for flow in one.flows], np.int64)
        parts.append((renumbered[one.flow], one.start_ns, one.bytes, one.retransmits, one.ecn_marks))
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    whole = Timeline(bin_ns, list(numbers), *columns).in_bins_of(bin_ns)
    ends = np.array(whole.flows, np.int64).reshape(-1, len(TimelineFlow._fields))[whole.flow]
    return dict(zip(TimelineFlow._fields, ends.T, strict=True)) | {
        "start_ns": whole.start_ns,
        "bin_ns": np.full(len(whole.flow), bin_ns, np.int64),
        "bytes": whole.bytes,
        "retransmits": whole.retransmits,
        "ecn_marks": whole.ecn_marks,
    }


def _on_run_clock(one: Timeline, clock: ClockEstimate) -> Timeline:
    """Bins of another clock count as those of the run that their middles are in, at most half a bin away."""
    return replace(one, start_ns=clock.to_controller(one.start_ns + one.bin_ns // 2))
