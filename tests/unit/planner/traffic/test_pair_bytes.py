"""Bytes between ranks, against the messages that the schedules of all members send."""

from __future__ import annotations

from collections import Counter

import pytest

from emulator.planner.algorithm_choice import AlgorithmChoice
from emulator.planner.algorithms import schedule
from emulator.planner.schedule import Collective
from emulator.planner.traffic.from_trace import traffic_of_workload
from emulator.planner.traffic.operation import Traffic
from emulator.planner.traffic.pair_bytes import busiest_bytes, pair_bytes
from emulator.trace.meaning.model import CommKind, Workload
from emulator.trace.meaning.workload import build_workload
from tests.support.random_traces import random_traces
from tests.support.traces import coll, rank_trace, recv, send


def traffic_of(workload: Workload) -> Traffic:
    return traffic_of_workload(workload, name_of=AlgorithmChoice(workload, {}).name_of)


def scheduled(workload: Workload) -> Counter[tuple[int, int]]:
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
    assert found == scheduled(workload)


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
