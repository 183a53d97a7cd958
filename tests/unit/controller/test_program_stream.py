"""A program on its way to its agent."""

import numpy as np
import pytest

from emulator.controller.program_stream import CHUNK_NODES, ProgramStream
from emulator.planner.rank_program import PlannedCommunication
from emulator.trace.meaning.model import CommKind, RankTrace
from emulator.trace.meaning.workload import build_workload
from tests.support.traces import METADATA, coll, node, rank_trace, recv, send


def streamed(trace: RankTrace, *others: RankTrace, window: int) -> ProgramStream:
    program = build_workload([trace, *others]).programs[trace.rank]
    return ProgramStream(program, trace.node_id[program.order], window=window, algorithm_of=lambda item: item.row + 40)


def long(count: int, window: int) -> ProgramStream:
    return streamed(rank_trace(0, [node(k + 1) for k in range(count)]), rank_trace(1, []), window=window)


def sizes(stream: ProgramStream) -> list[int]:
    return [len(chunk) for chunk in stream.chunks()]


def test_a_chunk_says_everything_about_its_nodes() -> None:
    nodes = [
        node(7, duration=3, cpu=True),
        send(8, 1, 30, tag=4, deps=[7]),
        node(9, METADATA, deps=[7, 8]),
        coll(10, "broadcast", 50, deps=[9], root=1),
        coll(12, "all_to_all", 8, deps=[9], in_splits=(3, 5), out_splits=(3, 4)),
        node(11, duration=2),
    ]
    peer = [
        recv(1, 0, 30, tag=4),
        coll(2, "broadcast", 50, root=1),
        coll(3, "all_to_all", 6, deps=[2], in_splits=(4, 2), out_splits=(5, 2)),
    ]
    (chunk,) = streamed(rank_trace(0, nodes), rank_trace(1, peer), window=6).chunks()
    assert (chunk.rank, chunk.first_position, chunk.node_id.tolist()) == (0, 0, [7, 8, 9, 10, 11, 12])
    assert chunk.resource.tolist() == [1, 3, 0, 3, 2, 3]
    assert chunk.duration_ns.tolist() == [3000, 0, 0, 0, 2000, 0]
    assert (chunk.dependencies.tolist(), chunk.distance.tolist()) == ([0, 1, 2, 1, 0, 1], [1, 2, 1, 1, 3])
    instances = {position: item.instance for position, item in chunk.communications.items()}
    assert sorted(instances.values()) == [0, 1, 2]
    assert chunk.communications == {
        1: PlannedCommunication(CommKind.SEND, 0, 30, instances[1], peer=1, root=-1, algorithm=41),
        3: PlannedCommunication(CommKind.BROADCAST, 0, 50, instances[3], peer=-1, root=1, algorithm=43),
        5: PlannedCommunication(
            CommKind.ALL_TO_ALL, 0, 8, instances[5], -1, -1, 44, send_splits=(3, 5), recv_splits=(3, 4)
        ),
    }
    types = [chunk.node_id.dtype, chunk.resource.dtype, chunk.duration_ns.dtype, chunk.dependencies.dtype]
    assert types == [np.uint64, np.uint32, np.uint64, np.uint32]


def test_a_program_that_fits_goes_out_whole_in_pieces() -> None:
    stream = long(2 * CHUNK_NODES + 3, window=5000)
    assert (stream.is_resident, stream.rank) == (True, 0)
    assert sizes(stream) == [CHUNK_NODES, CHUNK_NODES, 3]
    assert sizes(stream) == []


def test_never_more_than_there_is_room_for() -> None:
    stream = long(20, window=8)
    assert not stream.is_resident
    assert sizes(stream) == [8]
    assert sizes(stream) == []
    stream.grant(3)
    stream.grant(2)
    assert sizes(stream) == [5]
    stream.grant(100)
    assert sizes(stream) == [7]


@pytest.mark.parametrize("granted", [0, 5, 100])
def test_rewound_it_begins_again_with_the_window_it_had(granted: int) -> None:
    stream = streamed(
        rank_trace(0, [coll(k + 1, "all_reduce", 8) for k in range(12)]),
        rank_trace(1, [coll(k + 1, "all_reduce", 8) for k in range(12)]),
        window=4,
    )
    list(stream.chunks())
    stream.grant(granted)
    list(stream.chunks())
    stream.rewind()
    (chunk,) = stream.chunks()
    assert (chunk.first_position, list(chunk.communications)) == (0, [0, 1, 2, 3])


def test_a_reader_that_stops_half_way_loses_nothing() -> None:
    stream = long(2 * CHUNK_NODES, window=5000)
    first = next(stream.chunks())
    second = next(stream.chunks())
    assert (first.first_position, second.first_position) == (0, CHUNK_NODES)


def test_a_program_of_no_nodes_sends_nothing() -> None:
    assert sizes(long(0, window=4)) == []
