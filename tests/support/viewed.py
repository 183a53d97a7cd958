"""Facts of the page about a trace, from traces written by hand."""

from collections.abc import Sequence

import numpy as np

from emulator.annexes.trace_kit.page_graph import TracePageFacts, WindowFacts, graph_window
from emulator.annexes.trace_kit.time_line import computed_time_line, recorded_time_line
from emulator.planner.algorithm_choice import AlgorithmChoice
from emulator.planner.traffic.from_trace import traffic_of_workload
from emulator.planner.traffic.operation import pair_bytes
from emulator.trace.analysis.critical_path import CriticalPath
from emulator.trace.analysis.summary import summarise
from emulator.trace.meaning.workload import build_workload
from tests.support.traces import Node, rank_trace


def viewed(*ranks: Sequence[Node], lasting_ns: int = 10_000) -> TracePageFacts:
    """Facts in which every communication takes as long; the window is around the first node of rank 0."""
    traces = [rank_trace(rank, nodes) for rank, nodes in enumerate(ranks)]
    workload = build_workload(traces)
    lasting = np.full(workload.instances, lasting_ns, dtype=np.int64)
    path = CriticalPath(workload)
    program = workload.programs[0]
    ids = traces[0].node_id[program.order].astype(np.int64)
    names = [ranks[0][row].name for row in program.order.tolist()]
    return TracePageFacts(
        name="mine",
        workload=workload,
        summary=summarise(workload, traces),
        line=recorded_time_line(workload, traces) or computed_time_line(workload, lasting),
        pairs=pair_bytes(traffic_of_workload(workload, name_of=AlgorithmChoice(workload, {}).name_of)),
        path=path.steps(lasting),
        path_ns=path.length_ns(lasting),
        communication_about="communication 10 µs",
        window=WindowFacts(0, graph_window(program, 0, depth=2), names, ids, 2),
    )
