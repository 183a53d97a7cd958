"""Time stamps of a finished run on one clock: the final estimates of the clock offsets replace the first ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from emulator.controller.clocks.clock_offset import ClockEstimate, difference_error_ns
from emulator.controller.run_plan import RunOutcome
from emulator.results.run_folder.manifest import TimeAxis
from emulator.results.run_folder.schema import RunTable
from emulator.results.run_folder.writer import RunWriter
from emulator.results.statistics.samples.table_columns import to_ints
from emulator.trace.meaning.model import IntArray

ONE_CLOCK = TimeAxis()
SEVERAL_CLOCKS = "CLOCK_MONOTONIC of the controller's host; other hosts' offsets estimated over the control stream"
_STAMPS = (
    (RunTable.SAMPLES, "rank", ("post_ns", "done_ns", "arrival_ns")),
    (RunTable.ITERATIONS, "rank", ("start_ns", "end_ns")),
    (RunTable.COMPUTE, "rank", ("start_ns", "end_ns")),
    (RunTable.STEPS, "src", ("start_ns", "post_ns", "acknowledged_ns")),
    (RunTable.STEPS, "dst", ("arrival_ns",)),
)
"""Table, the column with the rank whose clock it was, and the stamps."""


def describe_clock(clocks: Mapping[str, ClockEstimate]) -> TimeAxis:
    """The time axis for the manifest: error of the difference of stamps of two agents, largest offset corrected."""
    if not clocks:
        return ONE_CLOCK
    return TimeAxis(
        SEVERAL_CLOCKS,
        offset_ns=max((one.offset_ns for one in clocks.values()), key=abs),
        error_ns=difference_error_ns([one.error_ns for one in clocks.values()]),
    )


def settle_stamps(writer: RunWriter, outcome: RunOutcome, ranks_of: Mapping[str, Sequence[int]]) -> None:
    """Rewrite the samples and iterations of agents with another clock; nothing may be added to them afterwards.

    Raises:
        HostError: they cannot be written.
    """
    foreign = {name: ranks_of[name] for name in outcome.clocks}
    if not foreign:
        return

    for part, owner, names in _STAMPS:
        writer.adjust(part, partial(_settled, owner=owner, names=names, outcome=outcome, foreign=foreign))


def _settled(
    batch: pa.RecordBatch,
    *,
    owner: str,
    names: Sequence[str],
    outcome: RunOutcome,
    foreign: Mapping[str, Sequence[int]],
) -> pa.RecordBatch:
    rank, iteration = to_ints(batch[owner]), to_ints(batch["iteration"])
    columns = {name: to_ints(batch[name], null=0).copy() for name in names}
    for agent, ranks in foreign.items():
        rows = np.flatnonzero(np.isin(rank, list(ranks)))
        taken_off = outcome.taken_off_ns.get(agent, {})
        off: IntArray = np.array([taken_off.get(int(one), 0) for one in iteration[rows]], np.int64)
        for name in names:
            columns[name][rows] = outcome.clocks[agent].to_controller(columns[name][rows] + off)
    for name in names:
        missing = batch[name].is_null()
        settled = pa.array(columns[name], batch.schema.field(name).type, mask=np.asarray(missing))
        batch = batch.set_column(batch.schema.get_field_index(name), batch.schema.field(name), settled)
    return batch
