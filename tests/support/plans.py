"""Plans for the controller."""

from collections.abc import Mapping, Sequence

from emulator.control.conversation import JobSetup, RankPlace
from emulator.controller.assignment import Assignment
from emulator.controller.run_plan import RunPlan
from emulator.planner.algorithm_choice import AlgorithmChoice
from emulator.planner.rank_program import PlaySettings
from emulator.trace.meaning.model import RankTrace
from emulator.trace.meaning.workload import build_workload


def run_plan(
    traces: Sequence[RankTrace],
    ranks_of: Mapping[str, Sequence[int]],
    *,
    iterations: Sequence[int] = range(1),
    transport: str = "zmq",
    hosts: Sequence[str] = (),
    is_local: bool = True,
    silence_timeout_s: float = 1,
) -> RunPlan:
    """The plan of a run of these traces, by agents on this host. Without `hosts` rank n is at 127.1.0.n + 1."""
    workload = build_workload(traces)
    choice = AlgorithmChoice(workload, {})
    places = [
        RankPlace(one.rank, hosts[one.rank] if hosts else f"127.1.0.{one.rank + 1}", len(one), workload.window)
        for one in workload.programs
    ]
    groups = [group.ranks for group in workload.groups]
    settings = PlaySettings(credits=True, instances=workload.instances, algorithms=choice.names, groups=groups)
    return RunPlan(
        setup=JobSetup("run", places, transport, 1 << 20, 0, settings),
        workload=workload,
        node_ids=[trace.node_id for trace in traces],
        choice=choice,
        assignment=Assignment(ranks_of, frozenset(ranks_of if is_local else ())),
        iterations=iterations,
        silence_timeout_s=silence_timeout_s,
    )
