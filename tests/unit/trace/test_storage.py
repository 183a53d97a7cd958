"""File operations on the network, where there are storage hosts."""

import pytest

from emulator.errors import TraceError
from emulator.trace.meaning.meaning import TraceOptions
from emulator.trace.meaning.model import CommKind, NodeType, RankTrace, Resource, StorageLevel, Workload
from emulator.trace.meaning.storage import play_on_storage_hosts
from emulator.trace.meaning.workload import build_workload
from tests.support.traces import Node, coll, node, rank_trace, storage

NODES = [
    node(1, NodeType.CHECKPOINT, duration=50),
    storage(2, "write", 100, duration=40, ctrl=[1]),
    storage(3, duration=30, ctrl=[2], level=StorageLevel.BLOCK),
    storage(4, duration=3, deps=[2]),
    coll(5, "all_reduce", 8, deps=[4]),
    storage(6, "read", 70, deps=[5]),
]


def traces(ranks: int, nodes: list[Node] = NODES) -> list[RankTrace]:
    return [rank_trace(rank, nodes) for rank in range(ranks)]


def played(ranks: int, endpoints: int, **options: float) -> Workload:
    given = traces(ranks)
    return play_on_storage_hosts(
        build_workload(given), given, endpoints=endpoints, options=TraceOptions(**options) if options else None
    )


def test_operations_go_to_the_storage_host_of_their_rank() -> None:
    workload = played(3, 2)
    found = [
        [(node.kind.label, node.size_bytes, node.peer, node.index_in_group) for node in program.communications.values()]
        for program in workload.programs
    ]
    for rank, peer in enumerate((3, 4, 3)):
        assert found[rank] == [("storage_write", 100, peer, 0), ("all_reduce", 8, -1, 0), ("storage_read", 70, peer, 1)]


def test_every_operation_is_an_instance_of_its_own() -> None:
    workload = played(3, 2)
    instances = [one.instance for program in workload.programs for one in program.communications.values()]
    assert sorted(set(instances)) == list(range(workload.instances)) == list(range(1 + 6))


def test_it_takes_the_time_of_the_network_and_what_is_inside_takes_none() -> None:
    program = played(1, 1).programs[0]
    names = [Resource(number).name for number in program.resource]
    assert names == ["CPU", "NETWORK", "NONE", "CPU", "NETWORK", "NETWORK"]
    assert program.duration_ns.tolist() == [10_000, 0, 0, 3_000, 0, 0]


def test_a_storage_endpoint_sends_what_its_ranks_read() -> None:
    workload = played(3, 2)
    assert [program.rank for program in workload.storage] == [3, 4]
    sent = [[one.ends(program.rank) for one in program.communications.values()] for program in workload.storage]
    assert sent == [[(3, 0), (3, 2)], [(4, 1)]]
    reads = {one.instance for program in workload.programs for one in program.communications.values() if one.peer >= 3}
    assert {one.instance for program in workload.storage for one in program.communications.values()} < reads
    assert {one.kind for program in workload.storage for one in program.communications.values()} == {CommKind.SEND}


def test_warnings_name_what_still_is_time() -> None:
    assert played(1, 0).warnings["storage node played as its recorded time"] == 5
    warnings = played(1, 1).warnings
    assert warnings["storage node played as its recorded time"] == 2
    assert warnings["storage node inside a file operation"] == 1


def test_without_storage_hosts_or_operations_nothing_changes() -> None:
    given = traces(2)
    workload = build_workload(given)
    assert play_on_storage_hosts(workload, given, endpoints=0) is workload
    idle = [rank_trace(0, [node(1), storage(2)])]
    workload = build_workload(idle)
    assert play_on_storage_hosts(workload, idle, endpoints=4) is workload


def test_sizes_are_scaled_and_checked() -> None:
    sizes = [one.size_bytes for one in played(1, 1, scale_bytes=0.01).programs[0].communications.values()]
    assert sizes == [1, 8, 1]  # the all-reduce was scaled before
    given = [rank_trace(0, [storage(7, "write", (1 << 50) + 1)])]
    with pytest.raises(TraceError, match="node 7: transfers 1125899906842625 bytes, which is not a valid size"):
        play_on_storage_hosts(build_workload(given), given, endpoints=1)
