"""The tables of a run folder and their columns. docs/results.md explains each column."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from emulator.control.flows import FlowDirection
from emulator.control.observations import EVENTS, Medium
from emulator.results.run_folder.flow_results import FLOW_GAPS_SCHEMA, FLOW_RESULTS_SCHEMA
from emulator.trace.meaning.model import CommKind

FORMAT_VERSION = 2
"""Version of the run folder: raised when a reader of the old version would misread the new one."""

Columns: TypeAlias = Mapping[str, Any]
"""Column name → numpy array, list (None = null), Arrow array, or one value for every row."""

_LABEL = pa.dictionary(pa.int32(), pa.string())

SAMPLES_SCHEMA = pa.schema(
    [
        pa.field("iteration", pa.int32(), nullable=False),
        pa.field("rank", pa.int32(), nullable=False),
        pa.field("node_id", pa.uint64(), nullable=False),
        pa.field("name", _LABEL, nullable=False),
        pa.field("kind", _LABEL, nullable=False),
        pa.field("group", _LABEL, nullable=False),
        pa.field("group_size", pa.int32(), nullable=False),
        pa.field("index_in_group", pa.int64(), nullable=False),
        pa.field("instance", pa.int64(), nullable=False),
        pa.field("peer", pa.int32()),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("algorithm", _LABEL, nullable=False),
        pa.field("post_ns", pa.int64(), nullable=False),
        pa.field("done_ns", pa.int64(), nullable=False),
        pa.field("arrival_ns", pa.int64()),
        pa.field("bytes_sent", pa.int64(), nullable=False),
        pa.field("bytes_received", pa.int64(), nullable=False),
        pa.field("early", pa.bool_(), nullable=False),
        pa.field("traced_ns", pa.int64()),
        pa.field("ideal_ns", pa.int64()),
        pa.field("read_delay_ns", pa.int64()),
        pa.field("core_wait_ns", pa.int64()),
        pa.field("remaining_ideal_ns", pa.int64()),
        pa.field("network_ns", pa.int64()),
        pa.field("network_crossings", pa.int64()),
        pa.field("stalled_ns", pa.int64()),
        pa.field("port_ns", pa.int64()),
    ]
)

ITERATIONS_SCHEMA = pa.schema(
    [
        pa.field("iteration", pa.int32(), nullable=False),
        pa.field("rank", pa.int32(), nullable=False),
        pa.field("start_ns", pa.int64(), nullable=False),
        pa.field("end_ns", pa.int64(), nullable=False),
        pa.field("compute_ns", pa.int64(), nullable=False),
        pa.field("communication_ns", pa.int64(), nullable=False),
        pa.field("overlap_ns", pa.int64(), nullable=False),
    ]
)

COMPUTE_SCHEMA = pa.schema(
    [
        pa.field("iteration", pa.int32(), nullable=False),
        pa.field("rank", pa.int32(), nullable=False),
        pa.field("start_ns", pa.int64(), nullable=False),
        pa.field("end_ns", pa.int64(), nullable=False),
    ]
)

FLOWS_SCHEMA = pa.schema(
    [
        pa.field("src", pa.int32(), nullable=False),
        pa.field("dst", pa.int32(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("messages", pa.int64(), nullable=False),
        pa.field("packets", pa.int64()),
        pa.field("retransmits", pa.int64()),
        pa.field("naks", pa.int64()),
        pa.field("cnps_sent", pa.int64()),
        pa.field("cnps_received", pa.int64()),
        pa.field("ecn_marks", pa.int64()),
        pa.field("out_of_order", pa.int64()),
        pa.field("rtt_ns", pa.int64()),
        pa.field("qpn", pa.int32()),
        pa.field("source_port", pa.int32()),
        pa.field("timeouts", pa.int64()),
        pa.field("rnr_naks", pa.int64()),
        pa.field("duplicates", pa.int64()),
        pa.field("largest_displacement", pa.int64()),
        pa.field("dropped_header", pa.int64()),
        pa.field("dropped_icrc", pa.int64()),
        pa.field("dropped_payload", pa.int64()),
        pa.field("medium", _LABEL),
        pa.field("copies", pa.int64()),
    ]
)

FLOW_EVENTS_SCHEMA = pa.schema(
    [
        pa.field("iteration", pa.int32(), nullable=False),
        pa.field("src", pa.int32(), nullable=False),
        pa.field("dst", pa.int32(), nullable=False),
        pa.field("qpn", pa.int32()),
        pa.field("source_port", pa.int32()),
        *(pa.field(name, pa.int64()) for name in EVENTS),
    ]
)

STEPS_SCHEMA = pa.schema(
    [
        pa.field("iteration", pa.int32(), nullable=False),
        pa.field("instance", pa.int64(), nullable=False),
        pa.field("node_id", pa.uint64()),
        pa.field("lane", pa.int32(), nullable=False),
        pa.field("step", pa.int32()),
        pa.field("src", pa.int32(), nullable=False),
        pa.field("dst", pa.int32(), nullable=False),
        pa.field("size_bytes", pa.int64()),
        pa.field("start_ns", pa.int64()),
        pa.field("post_ns", pa.int64()),
        pa.field("acknowledged_ns", pa.int64()),
        pa.field("arrival_ns", pa.int64()),
        pa.field("qpn", pa.int32()),
        pa.field("source_port", pa.int32()),
        pa.field("path", _LABEL),
        pa.field("ideal_post_ns", pa.int64()),
        pa.field("ideal_arrival_ns", pa.int64()),
    ]
)

COUNTERS_SCHEMA = pa.schema(
    [
        pa.field("time_ns", pa.int64(), nullable=False),
        pa.field("device", _LABEL, nullable=False),
        pa.field("interface", _LABEL, nullable=False),
        pa.field("counter", _LABEL, nullable=False),
        pa.field("value", pa.int64(), nullable=False),
    ]
)

TIMELINE_SCHEMA = pa.schema(
    [
        pa.field("src", pa.int32(), nullable=False),
        pa.field("dst", pa.int32(), nullable=False),
        pa.field("qpn", pa.int32(), nullable=False),
        pa.field("start_ns", pa.int64(), nullable=False),
        pa.field("bin_ns", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("retransmits", pa.int64(), nullable=False),
        pa.field("ecn_marks", pa.int64(), nullable=False),
    ]
)

EVENTS_SCHEMA = pa.schema(
    [
        pa.field("name", _LABEL, nullable=False),
        pa.field("edge", _LABEL, nullable=False),
        pa.field("what", _LABEL, nullable=False),
        pa.field("device", _LABEL, nullable=False),
        pa.field("interface", _LABEL, nullable=False),
        pa.field("stops_traffic", pa.bool_(), nullable=False),
        pa.field("planned_ns", pa.int64()),
        pa.field("time_ns", pa.int64()),
        pa.field("uncertainty_ns", pa.int64()),
        pa.field("seen_by", _LABEL),
        pa.field("routes_ns", pa.int64()),
        pa.field("exit_code", pa.int32()),
    ]
)
BEGIN, END = "begin", "end"
"""Edges of an event."""
BY_KERNEL, BY_COMMAND, BY_AGENT = "kernel", "command", "agent"
"""Who said when it happened; an agent says when traffic of its ranks moved to another path."""


class RunTable(Enum):
    """A table of the run folder; the value is the stem of its file name."""

    SAMPLES = "samples"
    ITERATIONS = "iterations"
    COMPUTE = "compute"
    FLOWS = "flows"
    FLOW_EVENTS = "flow_events"
    TIMELINE = "timeline"
    STEPS = "steps"
    COUNTERS = "counters"
    FLOW_RESULTS = "flow_results"
    FLOW_GAPS = "flow_gaps"
    EVENTS = "events"

    @property
    def is_optional(self) -> bool:
        """Whether a run folder can lack it; it then reads as an empty table."""
        return self in (
            RunTable.COMPUTE,
            RunTable.FLOW_EVENTS,
            RunTable.TIMELINE,
            RunTable.STEPS,
            RunTable.COUNTERS,
            RunTable.FLOW_RESULTS,
            RunTable.FLOW_GAPS,
            RunTable.EVENTS,
        )

    @property
    def schema(self) -> pa.Schema:
        """Its columns."""
        return _SCHEMAS[self]

    @property
    def file_name(self) -> str:
        """Its file in a closed run folder."""
        return f"{self.value}.parquet"

    @property
    def stream_name(self) -> str:
        """Its file during the run."""
        return f"{self.value}.partial.arrows"


_SCHEMAS = {
    RunTable.SAMPLES: SAMPLES_SCHEMA,
    RunTable.ITERATIONS: ITERATIONS_SCHEMA,
    RunTable.COMPUTE: COMPUTE_SCHEMA,
    RunTable.FLOWS: FLOWS_SCHEMA,
    RunTable.FLOW_EVENTS: FLOW_EVENTS_SCHEMA,
    RunTable.TIMELINE: TIMELINE_SCHEMA,
    RunTable.STEPS: STEPS_SCHEMA,
    RunTable.COUNTERS: COUNTERS_SCHEMA,
    RunTable.FLOW_RESULTS: FLOW_RESULTS_SCHEMA,
    RunTable.FLOW_GAPS: FLOW_GAPS_SCHEMA,
    RunTable.EVENTS: EVENTS_SCHEMA,
}


_ENDPOINTS = ("rank", "src", "dst", "peer")
_MOST_RANKS = 1 << 20
_LONGEST_NS, _LARGEST = 1 << 62, 1 << 53


def limits_of(field: pa.Field[Any], *, places: int | None) -> tuple[float, float] | None:
    """The least and the largest number that a column may have; None: any, or no numbers.

    Args:
        field: the column.
        places: number of ranks and storage endpoints; None: the run does not say.
    """
    if pa.types.is_floating(field.type):
        return -_FLOAT_MAX, _FLOAT_MAX
    if not pa.types.is_signed_integer(field.type) or field.name == "iteration":
        return None
    if field.name in _ENDPOINTS:
        return 0, (places or _MOST_RANKS) - 1
    if field.name == "bin_ns":
        return 1, _LONGEST_NS
    return (-_LONGEST_NS, _LONGEST_NS) if field.name.endswith("_ns") else (0, _LARGEST)


def order_of(part: RunTable) -> tuple[str, str] | None:
    """Two columns of which the first is never above the second; None: there are none."""
    return _ORDER.get(part)


_ORDER = {
    RunTable.ITERATIONS: ("start_ns", "end_ns"),
    RunTable.COMPUTE: ("start_ns", "end_ns"),
    RunTable.FLOW_GAPS: ("start_ns", "end_ns"),
}


def words_of(part: RunTable, column: str) -> Collection[str] | None:
    """The words that a column of text may have; None: any."""
    return _WORDS.get((part, column))


_WORDS: Mapping[tuple[RunTable, str], Collection[str]] = {
    (RunTable.SAMPLES, "kind"): {kind.label for kind in CommKind},
    (RunTable.FLOWS, "medium"): {*Medium},
    (RunTable.FLOW_RESULTS, "direction"): {*FlowDirection},
    (RunTable.FLOW_GAPS, "direction"): {*FlowDirection},
    (RunTable.EVENTS, "edge"): {BEGIN, END},
    (RunTable.EVENTS, "seen_by"): {BY_KERNEL, BY_COMMAND, BY_AGENT},
}
_FLOAT_MAX = float(np.finfo(np.float64).max)


def to_batch(schema: pa.Schema, columns: Columns) -> pa.RecordBatch:
    """Rows from columns. Nullable columns can be omitted.

    Raises:
        ValueError: a column is unknown, missing, of the wrong type or of another length.
    """
    unknown = set(columns) - set(schema.names)
    if unknown:
        raise ValueError(f"no such columns: {', '.join(sorted(unknown))}")
    rows = max((len(column) for column in columns.values() if _is_array(column)), default=1)
    arrays = [_to_array(field, columns.get(field.name), rows) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _is_array(column: Any) -> bool:
    return isinstance(column, np.ndarray | list | tuple | pa.Array)


def _to_array(field: pa.Field[Any], column: Any, rows: int) -> pa.Array[Any]:
    if not _is_array(column):
        column = [column] * rows
    if len(column) != rows:
        raise ValueError(f"column {field.name} has {len(column)} rows where others have {rows}")
    array = _encode(field.type, column)
    if array.null_count and not field.nullable:
        raise ValueError(f"column {field.name} has missing values")
    return array


def _encode(kind: pa.DataType, column: Any) -> pa.Array[Any]:
    if isinstance(column, pa.Array):
        return column.cast(kind)
    if pa.types.is_dictionary(kind):
        return pa.array(column, pa.string()).dictionary_encode()
    return pa.array(column, kind)
