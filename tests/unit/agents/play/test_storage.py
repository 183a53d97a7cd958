"""Reads and writes of ranks at an endpoint of a storage host, in virtual time."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

from agents.part import StorageEndpoint
from agents.play import tags
from emulator.errors import LocalProtocolError
from emulator.planner.rank_program import Chunk, PlannedCommunication
from emulator.trace.meaning.model import CommKind
from emulator.trace.meaning.storage import play_on_storage_hosts
from emulator.trace.meaning.workload import build_workload
from tests.support.memory_transport.transport import MemoryNetwork
from tests.support.playing import Played, check_bytes, check_order, everyone, play
from tests.support.traces import Node, coll, storage
from tests.support.virtual_clock import VirtualClock

US = 1_000


def play_with_storage(nodes: list[Node], *, ranks: int = 1, endpoints: int = 1, **options: Any) -> Played:
    traces = everyone(ranks, nodes)
    workload = play_on_storage_hosts(build_workload(traces), traces, endpoints=endpoints)
    return play(traces, workload=workload, **options)


def reached(played: Played, endpoint: int) -> int:
    return sum(one.size for one in played.arrivals if one.rank == endpoint)


@pytest.mark.parametrize("with_credits", [True, False])
@pytest.mark.parametrize(("ranks", "endpoints"), [(1, 1), (3, 1), (5, 2), (2, 4)])
def test_every_byte_goes_where_it_should(ranks: int, endpoints: int, with_credits: bool) -> None:
    nodes = [
        storage(1, "write", 1000),
        storage(2, "write", 500),
        coll(3, "all_reduce", 8, deps=[1, 2]),
        storage(4, "read", 300, deps=[3]),
    ]
    played = play_with_storage(
        nodes, ranks=ranks, endpoints=endpoints, with_credits=with_credits, message_bytes=100, iterations=(-1, 0, 1)
    )
    check_order(played)
    check_bytes(played)
    users = Counter(rank % endpoints for rank in range(ranks))
    for number in range(endpoints):
        assert reached(played, ranks + number) == 3 * users[number] * 1500
    for rank in range(ranks):
        sent_by_storage = sum(one.size for one in played.arrivals if one.rank == rank and one.peer >= ranks)
        assert sent_by_storage == 3 * 300


@pytest.mark.parametrize("with_credits", [True, False])
def test_a_read_takes_a_request_and_its_answer(with_credits: bool) -> None:
    nodes = [storage(1, "write", 64), storage(2, "read", 64, deps=[1])]
    played = play_with_storage(nodes, latency_ns=10 * US, with_credits=with_credits)
    write, read = played.at(0, 1), played.at(0, 2)
    assert write.done_ns - write.post_ns == 20 * US  # there, and its acknowledgement back
    assert read.done_ns - read.post_ns == 20 * US
    assert read.arrival_ns == read.done_ns
    assert not read.early


def test_operations_of_a_rank_are_under_way_together() -> None:
    apart = [storage(number, "read", 64) for number in range(1, 9)]
    chain = [storage(number, "read", 64, deps=[number - 1] if number > 1 else []) for number in range(1, 9)]
    assert play_with_storage(apart, latency_ns=10 * US).length(0) == 20 * US
    assert play_with_storage(chain, latency_ns=10 * US).length(0) == 8 * 20 * US


def test_a_program_in_pieces_is_played_like_a_whole_one() -> None:
    nodes = [storage(number, "read" if number % 3 else "write", number) for number in range(1, 60)]
    played = play_with_storage(nodes, ranks=2, window=4)
    check_order(played)
    check_bytes(played)


def test_a_request_that_nobody_foresaw_is_an_error() -> None:
    memory = MemoryNetwork(VirtualClock())
    read = PlannedCommunication(CommKind.SEND, 0, 100, instance=2, peer=0, root=-1, algorithm=0)
    one = np.ones(1, np.uint64)
    server = StorageEndpoint(memory.attach(1), instances=3, nodes=1, failed=lambda *_: None)
    server.deliver(Chunk(1, 0, one, one.astype(np.uint32), one, one.astype(np.uint32), one, {0: read}))
    server.arrived(0, tags.pair_tag(1), 100, 0)
    for peer, serial in ((0, 1), (5, 2)):
        with pytest.raises(LocalProtocolError, match=f"rank {peer} asks storage endpoint 1 for an unknown read"):
            server.arrived(peer, tags.credit_tag(serial), 0, 0)
