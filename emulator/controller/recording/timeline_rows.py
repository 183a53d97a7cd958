"""What flows carried by time, as both of their ends counted it, in bins of one length on the clock of the run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from emulator.control.observations import Timeline, TimelineFlow
from emulator.controller.clock_offset import ClockEstimate
from emulator.controller.run_plan import RunOutcome
from emulator.results.run_folder.schema import Columns


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
