"""Flows beside the job, as a run folder has them."""

from __future__ import annotations

from dataclasses import dataclass

from emulator.run_folder.reader import Run
from emulator.run_folder.schema import Part


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowResult:
    """A flow in one direction, as one end counted it; None: it does not count that. docs/results.md has the columns."""

    flow: int
    kind: str
    host: str
    peer: str
    role: str
    verb: str
    size_bytes: int
    direction: str
    observer: str
    is_complete: bool
    messages: int
    bytes: int
    start_ns: int | None = None
    duration_ns: int | None = None
    bytes_per_s: float | None = None
    packets: int | None = None
    retransmits: int | None = None
    timeouts: int | None = None
    naks: int | None = None
    rnr_naks: int | None = None
    duplicates: int | None = None
    latency_median_ns: float | None = None
    latency_p99_ns: float | None = None


def flow_results(run: Run) -> tuple[FlowResult, ...]:
    """All rows, in the order of the flows; empty if the run had none.

    Raises:
        ResultError: the table is damaged.
    """
    return tuple(FlowResult(**row) for row in run.table(Part.FLOW_RESULTS).to_pylist())
