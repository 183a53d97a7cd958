"""The table of flows beside the job: a row per flow, direction, and end that counted it."""

from __future__ import annotations

import pyarrow as pa

_LABEL = pa.dictionary(pa.int32(), pa.string())

FLOW_RESULTS_SCHEMA = pa.schema(
    [
        pa.field("flow", pa.int32(), nullable=False),
        pa.field("kind", _LABEL, nullable=False),
        pa.field("host", _LABEL, nullable=False),
        pa.field("peer", _LABEL, nullable=False),
        pa.field("role", _LABEL, nullable=False),
        pa.field("verb", _LABEL, nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("direction", _LABEL, nullable=False),
        pa.field("observer", _LABEL, nullable=False),
        pa.field("is_complete", pa.bool_(), nullable=False),
        pa.field("messages", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("start_ns", pa.int64()),
        pa.field("duration_ns", pa.int64()),
        pa.field("bytes_per_s", pa.float64()),
        pa.field("packets", pa.int64()),
        pa.field("retransmits", pa.int64()),
        pa.field("timeouts", pa.int64()),
        pa.field("naks", pa.int64()),
        pa.field("rnr_naks", pa.int64()),
        pa.field("duplicates", pa.int64()),
        pa.field("latency_median_ns", pa.float64()),
        pa.field("latency_p99_ns", pa.float64()),
    ]
)
