"""Looking at a trace: the facts of its page, and the files that `charkha trace view` writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from emulator.annexes.trace_kit.page import trace_page
from emulator.annexes.trace_kit.page_graph import TracePageFacts, WindowFacts, graph_window, position_of
from emulator.annexes.trace_kit.time_line import TimeLine, computed_time_line, recorded_time_line
from emulator.errors import InputError
from emulator.experiment.settle.workload import Alone, LoadedJob, load_job
from emulator.experiment.spec.spec import Job, Trace
from emulator.host.files import write_text
from emulator.planner.algorithm_choice import AlgorithmChoice
from emulator.planner.traffic.from_trace import traffic_of_workload
from emulator.planner.traffic.operation import Traffic, busiest_bytes, pair_bytes
from emulator.plugins import PluginKind, load
from emulator.trace.analysis.critical_path import CriticalPath, traced_ns
from emulator.trace.analysis.summary import summarise
from emulator.trace.files.et import read_texts
from emulator.trace.meaning.model import IntArray, Workload
from emulator.units import BITS_PER_BYTE, NS_PER_S
from emulator.views.columns.figures import link_rate_cell
from emulator.views.html.page.document import render

MOST_NODES = 2_000_000
"""Larger sets have no time line: it would take over ten seconds and a gigabyte."""
MOST_TRANSFERS = 4_000_000
"""Larger sets have no matrix of bytes."""
DEFAULT_RATE_BPS = 100 * 10**9


@dataclass(frozen=True, slots=True)
class Look:
    """How to look at a trace.

    Attributes:
        rate_bps: of every port, for communications without a recorded time.
        centre: (rank, node id) of the window of the graph; None: the longest communication on the critical path.
        depth: dependencies from the centre to the rim of the window.
        rank: the only one to look at; None: all, or the only one that was recorded.
    """

    rate_bps: int = DEFAULT_RATE_BPS
    centre: tuple[int, int] | None = None
    depth: int = 3
    rank: int | None = None


def view(
    trace: Trace, look: Look, *, page: Path | None, perfetto: Path | None, on_step: Callable[[str], None]
) -> TracePageFacts:
    """Gather the facts about a trace, and write them.

    Args:
        page: the HTML file; None: none.
        perfetto: the file for Perfetto; None: none.

    Raises:
        TraceError: the trace cannot be read or played, or lacks the node of `look`.
        InputError: it is too large for what was asked, or lacks the rank of `look`.
        HostError: a file cannot be written, or the perfetto package is missing.
    """
    # Before anything is read: it may lack a package.
    write_line = None if perfetto is None else load(PluginKind.HOOKS, "trace_line_writer")()
    with load_job(Job(trace=trace), on_step=on_step, alone=Alone(look.rank)) as job:
        on_step("gathering facts")
        facts = _facts(job, look, name=trace.path.rstrip("/"))
        if write_line is not None:
            on_step("writing the time line")
            line = _line_of(job, facts)
            spans = list(zip(line.start_ns, line.end_ns, strict=True))
            write_line(job.workload, spans, perfetto, names=lambda rank: read_texts(job.loaded.files.paths[rank]).names)
    if page is not None:
        on_step("writing the page")
        write_text(page, render(trace_page(facts)))
    return facts


def _facts(job: LoadedJob, look: Look, *, name: str) -> TracePageFacts:
    workload = job.workload
    traffic = traffic_of_workload(workload, name_of=AlgorithmChoice(workload, {}).name_of)
    lasting, about = _communication_ns(workload, traffic, look.rate_bps)
    critical = CriticalPath(workload)
    path = critical.steps(lasting)
    return TracePageFacts(
        name=name,
        workload=workload,
        summary=summarise(workload, job.loaded.traces, groups=job.loaded.groups),
        line=_line(job, lasting),
        pairs=pair_bytes(traffic).of_rank(workload.only) if traffic.transfers <= MOST_TRANSFERS else None,
        path=path,
        path_ns=critical.length_ns(lasting),
        communication_about=about,
        window=_window(
            job, look, _default_centre(workload, [(one.instance, one.end_ns - one.start_ns) for one in path])
        ),
    )


def _communication_ns(workload: Workload, traffic: Traffic, rate_bps: int) -> tuple[IntArray, str]:
    """Duration of each instance, and where it comes from."""
    recorded = traced_ns(workload)
    if not workload.instances or np.all(recorded):
        return recorded, "communication the shortest time that one of its ranks recorded"
    ideal = np.ceil(busiest_bytes(traffic) * (BITS_PER_BYTE * NS_PER_S / rate_bps)).astype(np.int64)
    rate = f"at {link_rate_cell(rate_bps)} for each rank, without latency (--rate)"
    if not np.any(recorded):
        return ideal, f"communication the time of its bytes {rate}"
    count = f"{np.count_nonzero(recorded == 0):,} of {workload.instances:,} operations"
    about = f"communication the shortest time that one of its ranks recorded; {count} have none: their bytes {rate}"
    return np.where(recorded > 0, recorded, ideal), about


def _line(job: LoadedJob, lasting: IntArray) -> TimeLine | None:
    if job.loaded.nodes > MOST_NODES:
        return None
    return recorded_time_line(job.workload, job.loaded.traces) or computed_time_line(job.workload, lasting)


def _default_centre(workload: Workload, path: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    """(rank, position) of the longest communication on the path, else of any; None: there is none."""
    longest = max((one for one in path if one[0] >= 0), key=lambda one: one[1], default=(0, 0))[0]
    for program in workload.programs:
        for position, node in program.communications.items():
            if node.instance == longest:
                return program.rank, position
    return None


def _window(job: LoadedJob, look: Look, default: tuple[int, int] | None) -> WindowFacts | None:
    if look.centre is None and default is None:
        return None
    rank, position = default or (0, 0)
    if look.centre is not None:
        rank = look.centre[0]
        if rank >= job.ranks:
            raise InputError(f"--graph {rank}:{look.centre[1]}: the trace has ranks 0 to {job.ranks - 1}")
        if job.workload.only not in (None, rank):
            raise InputError(f"--graph {rank}:{look.centre[1]}: only rank {job.workload.only} is shown")
        position = position_of(job.workload.programs[rank], job.loaded.traces[rank], look.centre[1])
    program, trace = job.workload.programs[rank], job.loaded.traces[rank]
    names = read_texts(job.loaded.files.paths[rank]).names
    return WindowFacts(
        rank=rank,
        window=graph_window(program, position, depth=look.depth),
        names=[names[row] for row in program.order.tolist()],
        ids=trace.node_id[program.order].astype(np.int64),
        depth=look.depth,
    )


def _line_of(job: LoadedJob, facts: TracePageFacts) -> TimeLine:
    if facts.line is None:
        raise InputError(
            f"--perfetto: {job.loaded.nodes:,} nodes are too many for a time line (at most {MOST_NODES:,})"
        )
    return facts.line
