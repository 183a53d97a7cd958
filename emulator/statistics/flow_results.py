"""Flows beside the job, as a run folder has them."""

from __future__ import annotations

from emulator.run_folder.flow_results import FlowResult
from emulator.run_folder.reader import Run
from emulator.run_folder.schema import Part


def flow_results(run: Run) -> tuple[FlowResult, ...]:
    """All rows, in the order of the flows; empty if the run had none.

    Raises:
        ResultError: the table is damaged.
    """
    return tuple(FlowResult(**row) for row in run.table(Part.FLOW_RESULTS).to_pylist())
