"""The flows of a run with their figures, a column each: there can be a million."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from emulator.results.run_folder.manifest import Manifest
from emulator.results.statistics.samples.measured_rows import to_ints
from emulator.results.statistics.worst.worst_flows import endpoint_names, ports_of_ranks
from emulator.trace.meaning.model import IntArray
from emulator.units import NS_PER_S

GOODPUT, RTT = "goodput_bytes_per_s", "rtt_ns"


class FlowKey(NamedTuple):
    """A flow: ranks or storage endpoints, queue pair of the receiver, and ports, "" if the topology names none."""

    src: int
    dst: int
    qpn: int | None
    source: str
    destination: str


@dataclass(frozen=True, slots=True, eq=False)
class RunFlows:
    """All flows of a run, warm-up included.

    Attributes:
        table: flows.parquet.
        communication_ns: time in which an end was communicating, by its number; 0 if it is not known.
        ports: port of an end, by its number.
    """

    table: pa.Table
    communication_ns: IntArray
    ports: Sequence[str]

    def readings(self, name: str) -> Iterator[tuple[FlowKey, float | None]]:
        """A figure of every flow: a column of the table, or GOODPUT of those with payload; None: not measured."""
        table = self.table
        if name == GOODPUT:
            table = table.filter(pa.array(to_ints(table["bytes"]) > 0))
            known = goodput(to_ints(table["src"]), to_ints(table["bytes"]), self.communication_ns)
            values = [None if np.isnan(one) else one for one in known.tolist()]
        else:
            values = table[name].to_pylist()
        ends = (table[column].to_pylist() for column in ("src", "dst", "qpn"))
        for src, dst, qpn, value in zip(*ends, values, strict=True):
            yield FlowKey(src, dst, qpn, self.ports[src], self.ports[dst]), value


def goodput(src: IntArray, size_bytes: IntArray, communication_ns: IntArray) -> npt.NDArray[np.float64]:
    """Payload / time in which the sender was communicating, bytes per second; NaN if that time is not known.

    Args:
        src: senders, shape (n,).
        size_bytes: their payload, shape (n,).
        communication_ns: by number of the end.
    """
    time_ns = communication_ns[src]
    return np.where(time_ns > 0, size_bytes * NS_PER_S / np.maximum(time_ns, 1), np.nan)


def communication_times(usage: Mapping[str, IntArray], *, ends: int) -> IntArray:
    """Time in which each end was communicating, ns, over all rows of the iterations table; 0 for storage hosts."""
    return np.bincount(usage["rank"], weights=usage["communication_ns"], minlength=ends).astype(np.int64)


def flow_figures(flows: pa.Table, iterations: pa.Table, manifest: Manifest) -> RunFlows:
    """The flows of a run.

    Args:
        flows, iterations: tables of the run, warm-up included.
    """
    ends, ports = len(endpoint_names(manifest)), ports_of_ranks(manifest)
    usage = {name: to_ints(iterations[name]) for name in ("rank", "communication_ns")}
    return RunFlows(flows, communication_times(usage, ends=ends), [ports.get(end, "") for end in range(ends)])
