"""What an agent reports of a job."""

from __future__ import annotations

import asyncio
from typing import Any

from agents.part import Part
from emulator.control import conversation as control
from emulator.control.observations import Completions
from emulator.controller.program_stream import ProgramStream
from emulator.planner.algorithm_choice import AlgorithmChoice
from emulator.planner.rank_program import PlaySettings
from emulator.trace.meaning.workload import build_workload
from tests.support.memory_transport.transport import MemoryNetwork
from tests.support.traces import coll, node, rank_trace
from tests.support.virtual_clock import VirtualClock

INTERVAL_NS = 300_000_000
START_NS = 1_000


class Outlet:
    """What was reported."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.waiting = 0

    def send(self, value: control.AgentValue, job: int) -> None:
        self.sent.append(value)

    def nodes(self) -> list[int]:
        return [int(node) for value in self.sent if isinstance(value, Completions) for node in value.node_id]


async def _playing(clock: VirtualClock, outlet: Outlet) -> Part:
    """A rank alone, whose collective is done at once; it then computes for a second."""
    traces = [rank_trace(0, [coll(7, "all_reduce", 100), node(8, duration=1_000_000, deps=[7])])]
    workload = build_workload(traces)
    choice, program = AlgorithmChoice(workload, {}), workload.programs[0]
    settings = PlaySettings(credits=True, instances=1, algorithms=choice.names, groups=[(0,)])
    place = control.RankPlace(0, "127.0.0.1", len(program), 8)
    part = Part(
        control.JobSetup(0, "r", [place], "memory", 1 << 20, 0, settings),
        MemoryNetwork(clock, seed=0),
        clock=clock,
        outlet=outlet,
        report_interval_ns=INTERVAL_NS,
        fail=lambda reason, between: None,
    )
    await part.bind({})
    ids = traces[0].node_id[program.order]
    chunks = ProgramStream(program, ids, window=8, algorithm_of=choice.index_of).chunks()
    for value in (control.Directory({0: ("127.0.0.1", 1)}), control.Prepare(0), *chunks, control.Start(0, START_NS, 0)):
        part.carry_out(value)
    clock.run(START_NS)
    return part


def test_completions_are_reported_at_the_interval_that_the_controller_named() -> None:
    clock, outlet = VirtualClock(), Outlet()
    asyncio.run(_playing(clock, outlet))
    clock.run(INTERVAL_NS)
    assert outlet.nodes() == []
    clock.run(START_NS + INTERVAL_NS)
    assert outlet.nodes() == [7]


def test_a_run_that_is_given_up_keeps_what_was_collected_until_then() -> None:
    clock, outlet = VirtualClock(), Outlet()
    part = asyncio.run(_playing(clock, outlet))
    part.stop()
    part.count()
    assert outlet.nodes() == [7]
    assert isinstance(outlet.sent[-1], control.Farewell)
