"""Everything that the page about a trace shows, gathered once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from emulator.planner.traffic.operation import PairBytes
from emulator.trace.analysis.critical_path import PathStep
from emulator.trace.analysis.summary import Summary
from emulator.trace.analysis.time_line import TimeLine
from emulator.trace.meaning.model import IntArray, Workload
from emulator.trace.meaning.trace_graphs import GraphWindow


@dataclass(frozen=True, slots=True)
class WindowFacts:
    """A window of a rank's graph; `names` and `ids` are those of the rank's nodes, by position."""

    rank: int
    window: GraphWindow
    names: Sequence[str]
    ids: IntArray
    depth: int


@dataclass(frozen=True, slots=True)
class TracePageFacts:
    """A trace set and what follows from it.

    Attributes:
        name: of the trace, as the user named it.
        line: when nodes run; None: there are too many nodes for that.
        pairs: bytes between ranks; None: there are too many transfers for that.
        communication_about: where the durations of communications on the path, and on a computed time line, come from.
        window: part of a graph; None: the trace has no communication, or no node was chosen.
    """

    name: str
    workload: Workload
    summary: Summary
    line: TimeLine | None
    pairs: PairBytes | None
    path: Sequence[PathStep]
    path_ns: int
    communication_about: str
    window: WindowFacts | None
