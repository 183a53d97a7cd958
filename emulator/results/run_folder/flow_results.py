"""The table of flows alongside the job: a row per flow, direction, and end that counted it."""

from __future__ import annotations

from dataclasses import dataclass, fields

import pyarrow as pa

from emulator.control.flows import FlowFigures


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowResult(FlowFigures):
    """A row: a flow, and the figures of one end in one direction. docs/results.md has the columns.

    Attributes:
        flow: its number among those of its kind.
        kind: perftest or background.
        host, peer: its ends, hosts of the topology; of background traffic the sender and the receiver as the run spec
            names them.
        role: of `host` in a perftest, or `sender`.
        verb: of a perftest, or the transport.
        size_bytes: of a message; of background traffic the mean of its sizes.
        is_complete: both ends agreed that it is over.
        name: that background traffic was given.
        pattern, sizes, rate_bps, dscp: of background traffic; the rate on the wire that was asked for.
        interval_ns: between two messages of background traffic; None: it is not always the same.
    """

    flow: int
    kind: str
    host: str
    peer: str
    role: str
    verb: str
    size_bytes: int
    is_complete: bool
    name: str | None = None
    pattern: str | None = None
    sizes: str | None = None
    rate_bps: int | None = None
    dscp: int | None = None
    interval_ns: int | None = None


_LABEL = pa.dictionary(pa.int32(), pa.string())
_TYPES = {
    "str": _LABEL, "FlowDirection": _LABEL, "FlowObserver": _LABEL,
    "int": pa.int64(), "Count": pa.int64(), "float": pa.float64(), "Amount": pa.float64(), "bool": pa.bool_(),
}  # fmt: skip


def _field(name: str, annotation: str) -> pa.Field[pa.DataType]:
    kind, _, none = annotation.partition(" | ")
    return pa.field(name, pa.int32() if name == "flow" else _TYPES[kind], nullable=bool(none))


_FIGURES = [one for one in fields(FlowFigures) if one.name != "gaps"]
_OWN = [one for one in fields(FlowResult) if one.name not in {figure.name for figure in fields(FlowFigures)}]
FLOW_GAPS_SCHEMA = pa.schema(
    [
        pa.field("flow", pa.int32(), nullable=False),
        pa.field("direction", _LABEL, nullable=False),
        pa.field("start_ns", pa.int64(), nullable=False),
        pa.field("end_ns", pa.int64(), nullable=False),
        pa.field("lost", pa.int64()),
        pa.field("late_ns", pa.int64()),
    ]
)
FLOW_RESULTS_SCHEMA = pa.schema([_field(one.name, str(one.type)) for one in (*_OWN, *_FIGURES)])
