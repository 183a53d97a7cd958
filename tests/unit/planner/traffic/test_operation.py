"""Operations of a plan: sizes, parts, refusals."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from emulator.errors import PlanError
from emulator.planner.algorithm_choice import AlgorithmChoice
from emulator.planner.algorithms import schedule
from emulator.planner.built_in import BUILT_IN
from emulator.planner.schedule import Collective
from emulator.planner.traffic.from_trace import traffic_of_workload
from emulator.planner.traffic.operation import (
    Operation,
    Traffic,
    busiest_bytes,
    check_size,
    pair_bytes,
    peer_totals,
    phases,
    traffic_of_collective,
    transfers_per_group,
)
from emulator.planner.traffic.phase import Phase
from emulator.trace.meaning.model import CommKind, Workload
from emulator.trace.meaning.workload import build_workload
from tests.support.random_traces import random_traces
from tests.support.traces import coll, rank_trace, recv, send

MEMBERS = 8
ALL = [(kind, name) for kind, names in BUILT_IN.items() for name in names]


def collective(kind: CommKind, size_bytes: int = 4096, members: int = MEMBERS) -> Collective:
    return Collective(kind, members, 0, size_bytes, 0)


def scheduled(name: str, one: Collective) -> Counter[tuple[int, int]]:
    """Bytes of each (sender, receiver), by walking every member's schedule."""
    totals: Counter[tuple[int, int]] = Counter()
    for sender in range(one.members):
        for lane in schedule(name, replace(one, member=sender)):
            for step in lane:
                for transfer in step.sends:
                    totals[sender, transfer.peer] += transfer.size
    return +totals


@pytest.mark.parametrize(("kind", "name"), ALL, ids=lambda value: str(value))
def test_phases_and_totals_move_what_the_schedules_move(kind: CommKind, name: str) -> None:
    one = collective(kind)
    expected = scheduled(name, one)
    for parts in (list(phases(name, one)), [peer_totals(name, one)]):
        found: Counter[tuple[int, int]] = Counter()
        for phase in parts:
            for sender, receiver, size in zip(phase.senders, phase.receivers, phase.sizes, strict=True):
                found[int(sender), int(receiver)] += int(size)
        assert found == expected
        assert all((phase.sizes > 0).all() for phase in parts)


def test_some_senders_are_a_part_of_all() -> None:
    one = collective(CommKind.ALL_TO_ALL)
    some = peer_totals("parallel", one, np.array([2, 5]))
    assert set(some.senders.tolist()) == {2, 5}
    assert len(some.sizes) == 2 * (MEMBERS - 1)


@pytest.mark.parametrize(("members", "size_bytes"), [(1, 4096), (8, 0)])
def test_a_group_of_one_and_nothing_to_send_have_no_traffic(members: int, size_bytes: int) -> None:
    one = collective(CommKind.ALL_REDUCE, size_bytes, members)
    assert list(phases("ring", one)) == []
    assert len(peer_totals("ring", one).sizes) == 0


def test_an_unknown_algorithm_is_refused_even_with_nothing_to_send() -> None:
    with pytest.raises(PlanError, match="no algorithm 'helix'"):
        list(phases("helix", collective(CommKind.ALL_REDUCE, 0)))


@pytest.mark.parametrize(("kind", "name"), ALL, ids=lambda value: str(value))
def test_the_estimate_of_transfers_is_of_the_right_order(kind: CommKind, name: str) -> None:
    moved = len(scheduled(name, collective(kind)))
    assert moved <= transfers_per_group(name, kind, MEMBERS) <= 16 * max(1, moved)


MIB = 1 << 20


def sent(phases: list[Phase]) -> Counter[tuple[int, int]]:
    found: Counter[tuple[int, int]] = Counter()
    for phase in phases:
        for sender, receiver, size in zip(phase.senders, phase.receivers, phase.sizes, strict=True):
            found[int(sender), int(receiver)] += int(size)
    return found


def test_totals_are_the_same_in_parts() -> None:
    one = Operation("", CommKind.ALL_TO_ALL, "parallel", 8 * MIB, np.arange(8).reshape(1, -1), np.ones(1, np.int64))
    whole = sent(list(one.totals()))
    parts = list(one.totals(at_once=10))
    assert len(parts) > 1
    assert sent(parts) == whole == sent(list(one.phases()))


def test_the_last_group_is_smaller_if_ranks_do_not_divide() -> None:
    traffic = traffic_of_collective(CommKind.ALL_REDUCE, ranks=10, size_bytes=MIB, group_size=4, overrides={})
    assert [(one.groups, one.members) for one in traffic.operations] == [(2, 4), (1, 2)]
    assert traffic.operations[1].ranks.tolist() == [[8, 9]]


def test_sends_of_no_bytes_move_nothing() -> None:
    pair = Operation("", CommKind.SEND, "", 0, np.array([[0, 1]]), np.ones(1, np.int64))
    assert list(pair.phases()) == []
    assert pair.transfers == 1


def test_an_uneven_all_to_all_is_its_splits() -> None:
    splits = Phase(np.array([0, 1]), np.array([1, 0]), np.array([5, 7]))
    one = Operation("", CommKind.ALL_TO_ALL, "direct", 12, np.array([[3, 4]]), np.ones(1, np.int64), splits=splits)
    assert sent(list(one.totals())) == {(0, 1): 5, (1, 0): 7}
    assert one.transfers == 2


def test_plans_that_would_take_too_long_are_refused() -> None:
    traffic = traffic_of_collective(
        CommKind.ALL_TO_ALL, ranks=100, size_bytes=100 * MIB, group_size=100, overrides={"all_to_all": "parallel"}
    )
    check_size(traffic, most=9900)
    with pytest.raises(PlanError, match=r"about 9.9e.03 pairs of communicating ranks; at most 1e.02 are supported"):
        check_size(traffic, most=100)


def traffic_of(workload: Workload) -> Traffic:
    return traffic_of_workload(workload, name_of=AlgorithmChoice(workload, {}).name_of)


def pair_bytes_scheduled(workload: Workload) -> Counter[tuple[int, int]]:
    """(sender, receiver) → bytes, by walking every member's schedule."""
    name_of, found = AlgorithmChoice(workload, {}).name_of, Counter()
    for program in workload.programs:
        for node in program.communications.values():
            ranks = workload.groups[node.group].ranks
            if node.kind is CommKind.SEND:
                found[program.rank, node.peer] += node.size_bytes
            if not node.kind.is_collective or len(ranks) == 1:
                continue
            root = ranks.index(node.root) if node.root in ranks else 0
            splits = {"send_splits": node.send_splits, "recv_splits": node.recv_splits}
            member = Collective(node.kind, len(ranks), ranks.index(program.rank), node.size_bytes, root, **splits)
            if not node.size_bytes and node.kind is not CommKind.BARRIER:
                continue
            for lane in schedule(name_of(node), member):
                for step in lane:
                    for transfer in step.sends:
                        found[program.rank, ranks[transfer.peer]] += transfer.size
    return Counter({pair: size for pair, size in found.items() if size})


@pytest.mark.parametrize("seed", range(40))
def test_pairs_add_up_to_what_the_schedules_send(seed: int) -> None:
    workload = build_workload(random_traces(seed))
    pairs = pair_bytes(traffic_of(workload))
    found = dict(zip(zip(pairs.src.tolist(), pairs.dst.tolist(), strict=True), pairs.bytes.tolist(), strict=True))
    assert found == pair_bytes_scheduled(workload)


def test_the_busiest_member_of_each_operation() -> None:
    ranks = [[coll(1, "broadcast", 12, root=0)] for _ in range(3)]
    ranks[0].append(send(2, 1, 5))
    ranks[1].append(recv(2, 0, 5))
    traffic = traffic_of(build_workload([rank_trace(rank, nodes) for rank, nodes in enumerate(ranks)]))
    assert busiest_bytes(traffic).tolist()[1] == 5
    assert busiest_bytes(traffic).tolist()[0] >= 12
    assert traffic.transfers >= 3


def test_a_trace_without_communication_has_no_pairs() -> None:
    traffic = Traffic(2, [])
    assert len(pair_bytes(traffic).src) == len(busiest_bytes(traffic)) == 0
