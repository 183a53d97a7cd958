"""What an agent reports of a job."""

from typing import Any

import pytest

from agents.part import Part
from emulator.control import conversation as control
from emulator.control.observations import Completions
from emulator.controller.program_stream import ProgramStream
from emulator.errors import RemoteProtocolError
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


async def _playing(clock: VirtualClock, outlet: Outlet, *, prepares_itself: bool = False) -> Part:
    """A rank alone, whose collective is done at once; it then computes for a second."""
    traces = [rank_trace(0, [coll(7, "all_reduce", 100), node(8, duration=1_000_000, deps=[7])])]
    workload = build_workload(traces)
    choice, program = AlgorithmChoice(workload, {}), workload.programs[0]
    settings = PlaySettings(credits=True, instances=1, algorithms=choice.names, groups=[(0,)])
    place = control.RankPlace(0, "127.0.0.1", len(program), 8)
    part = Part(
        0,
        control.JobSetup("r", [place], "memory", 1 << 20, 0, settings, prepares_itself=prepares_itself),
        MemoryNetwork(clock, seed=0),
        clock=clock,
        outlet=outlet,
        report_interval_ns=INTERVAL_NS,
        fail=lambda reason, between: None,
    )
    await part.bind({})
    ids = traces[0].node_id[program.order]
    chunks = ProgramStream(program, ids, window=8, algorithm_of=choice.index_of).chunks()
    for value in (
        control.Directory({0: control.Address("127.0.0.1", 1)}),
        control.Prepare(0),
        *chunks,
        control.Start(0, START_NS, 0),
    ):
        part.carry_out(value)
    clock.run(START_NS)
    return part


async def test_completions_are_reported_at_the_interval_that_the_controller_named() -> None:
    clock, outlet = VirtualClock(), Outlet()
    await _playing(clock, outlet)
    clock.run(INTERVAL_NS)
    assert outlet.nodes() == []
    clock.run(START_NS + INTERVAL_NS)
    assert outlet.nodes() == [7]


@pytest.mark.parametrize("is_at_once", [True, False])
async def test_a_part_that_prepares_itself_begins_the_next_iteration_when_it_is_told_to(is_at_once: bool) -> None:
    clock, outlet = VirtualClock(), Outlet()
    part = await _playing(clock, outlet, prepares_itself=True)
    clock.run(START_NS + 10**9)
    if not is_at_once:
        clock.run(2 * 10**9)
    part.carry_out(control.Start(1, clock.now() + START_NS, 1))
    clock.run(4 * 10**9)
    assert [value.iteration for value in outlet.sent if isinstance(value, control.IterationDone)] == [0, 1]
    assert sum(isinstance(value, control.Ready) for value in outlet.sent) == 1
    assert outlet.nodes() == [7, 7]


async def test_a_part_that_does_not_is_asked_to_prepare_first() -> None:
    clock, outlet = VirtualClock(), Outlet()
    part = await _playing(clock, outlet)
    clock.run(START_NS + 10**9)
    with pytest.raises(RemoteProtocolError, match="Start before the ranks had their nodes"):
        part.carry_out(control.Start(1, clock.now() + START_NS, 1))


async def test_a_run_that_is_given_up_keeps_what_was_collected_until_then() -> None:
    clock, outlet = VirtualClock(), Outlet()
    part = await _playing(clock, outlet)
    part.stop()
    part.count()
    assert outlet.nodes() == [7]
    assert isinstance(outlet.sent[-1], control.Farewell)
