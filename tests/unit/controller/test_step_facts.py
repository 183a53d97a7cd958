"""What steps get when a run is over."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from emulator.control.observations import FlowCounters
from emulator.controller.clock_offset import ClockEstimate, Offset, difference_error_ns
from emulator.controller.recording.step_facts import (
    ONE_CLOCK,
    SEVERAL_CLOCKS,
    StepFacts,
    StepQueuePair,
    complete_steps,
    describe_clock,
    settle_stamps,
)
from emulator.controller.run_plan import RunOutcome
from emulator.planner.algorithm_choice import AlgorithmChoice
from emulator.planner.network.header_overhead import WireOverhead
from emulator.results.run_folder.schema import RunTable
from emulator.results.run_folder.writer import RunWriter
from emulator.topology.model import Topology, default_loopback
from emulator.trace.meaning.workload import build_workload
from tests.support.playing import everyone
from tests.support.runs import manifest
from tests.support.topologies import shipped_topology
from tests.support.traces import coll

SIZE = 3_000_000
STEP_NS = SIZE // 4 * 8  # at 1 Gbit/s without headers


def facts(topology: Topology, flows: Sequence[FlowCounters] = (), *, size: int = SIZE) -> StepFacts:
    """Of one all-reduce by a ring of all ranks."""
    workload = build_workload(everyone(topology.ranks, [coll(1, "all_reduce", size)]))
    choice = AlgorithmChoice(workload, {"all_reduce": "ring"})
    return StepFacts(topology, workload, flows, algorithm_of=choice.name_of, overhead=WireOverhead(1, 1))


def flow(src: int, dst: int, *, qpn: int, size: int = 1, port: int = 50_000) -> FlowCounters:
    return FlowCounters(src, dst, bytes=size, messages=1, qpn=qpn, source_port=port)


def test_a_queue_pair_is_named_if_it_alone_carried_the_payload() -> None:
    flows = [flow(0, 1, qpn=16, size=0), flow(0, 1, qpn=17), flow(1, 0, qpn=17), flow(1, 0, qpn=18)]
    found = facts(default_loopback(2), flows)
    assert found.queue_pair(0, 1) == StepQueuePair(17, 50_000)
    assert found.queue_pair(1, 0) == found.queue_pair(0, 5) == StepQueuePair()


def test_a_network_without_rates_has_no_ideal() -> None:
    assert facts(default_loopback(2)).ideal(0) == {}


def test_transfers_in_a_host_are_ideal_at_once_and_between_hosts_at_the_rate() -> None:
    ideal = facts(shipped_topology("two-hosts-switch", ranks=4)).ideal(0)
    assert ideal[0, 1, 0, 0] == (0, 0)
    assert ideal[1, 2, 0, 0][0] == 0
    assert max(arrival_ns for _, arrival_ns in ideal.values()) == 6 * STEP_NS
    assert {line[:2] for line in ideal} == {(0, 1), (1, 2), (2, 3), (3, 0)}


def test_transfers_in_a_domain_take_its_time_and_name_it() -> None:
    topology = shipped_topology("domain-2x4", ranks=4)
    found = facts(topology)
    bytes_ns = 6 * SIZE // 4 * 10**9 // 22_500_000
    assert max(arrival_ns for _, arrival_ns in found.ideal(0).values()) == bytes_ns + 100_000
    assert found.path(0, 1) == "scale-up domain of server0"


@pytest.mark.parametrize("port", [49_200, 49_201, 50_000, 51_111])
def test_where_routers_choose_the_path_is_one(port: int) -> None:
    topology = shipped_topology("leaf-spine-2x2", ranks=8)
    path = facts(topology, [flow(0, 7, qpn=17, port=port)]).path(0, 7)
    assert path is not None
    assert ("spine0" in path) + ("spine1" in path) == 1
    everything = facts(topology).path(0, 7)
    assert everything is not None
    assert "spine0, spine1" in everything


def write(folder: Path, found: StepFacts, instances: Sequence[int], kept: Any) -> list[dict[str, Any]]:
    with RunWriter(folder, manifest()) as writer:
        for instance in instances:
            fixed = {"iteration": 0, "instance": instance, "lane": 0, "src": 1, "dst": 2}
            writer.add(RunTable.STEPS, fixed | {"step": [1, 0, 2], "start_ns": [3, 1, 5]})
        complete_steps(writer, found, kept=kept)
        return writer.run().table(RunTable.STEPS).to_pylist()


def test_rows_are_completed_by_the_order_of_their_steps(tmp_path: Path) -> None:
    found = facts(shipped_topology("two-hosts-switch", ranks=4), [flow(1, 2, qpn=19)])
    rows = write(tmp_path / "run", found, [0], None)
    assert [row["ideal_arrival_ns"] for row in rows] == [found.ideal(0)[1, 2, 0, k][1] for k in (1, 0, 2)]
    assert {(row["qpn"], row["source_port"], row["path"]) for row in rows} == {
        (19, 50_000, "h0:eth0 - sw0 (p0 to p1) - h1:eth0")
    }


def test_only_what_is_still_the_slowest_is_kept(tmp_path: Path) -> None:
    loopback = facts(default_loopback(3))
    rows = write(tmp_path / "run", loopback, [0], {(1, 0)})
    assert rows == []


def estimate(offset_ns: int, *, error_ns: int) -> ClockEstimate:
    return ClockEstimate((Offset(0, offset_ns, error_ns),), error_ns)


def test_agents_that_share_the_controllers_clock_need_no_correction() -> None:
    assert describe_clock({}) == ONE_CLOCK


def test_the_largest_offset_in_either_direction_and_the_error_of_a_difference_are_reported() -> None:
    found = describe_clock({"a": estimate(500, error_ns=20), "b": estimate(-9000, error_ns=30)})
    assert (found.source, found.offset_ns) == (SEVERAL_CLOCKS, -9000)
    assert found.error_ns == difference_error_ns([20, 30])


def test_each_end_of_a_step_is_put_right_by_the_clock_of_its_rank(tmp_path: Path) -> None:
    outcome = RunOutcome(clocks={"far": estimate(1000, error_ns=5)}, taken_off_ns={"far": {0: 900}})
    stamps = {"start_ns": 10_000, "post_ns": 10_001, "acknowledged_ns": None, "arrival_ns": 10_003}
    with RunWriter(tmp_path / "run", manifest()) as writer:
        for src, dst in ((0, 1), (1, 0)):
            writer.add(RunTable.STEPS, {"iteration": 0, "instance": 0, "lane": 0, "src": [src], "dst": [dst]} | stamps)
        settle_stamps(writer, outcome, {"near": [0], "far": [1]})
        there, back = writer.run().table(RunTable.STEPS).to_pylist()
    assert [there[name] for name in stamps] == [10_000, 10_001, None, 9_903]
    assert [back[name] for name in stamps] == [9_900, 9_901, None, 10_003]
