"""The exchange: both roles against each other, and the order of blocks that the stock tools expect."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from emulator.errors import RemoteProtocolError
from emulator.flows.perftest.exchange import Greeting, Swap, conclude, confirm, greet, introduce, meet
from emulator.flows.perftest.parameters import PeerTest, TestVerb, make_test
from emulator.flows.perftest.records import (
    FAREWELL,
    OVER_RDMA,
    BandwidthReport,
    QpRecord,
    encode_int,
    encode_path_mtu,
    encode_version,
)

REPORT = BandwidthReport(size_bytes=2, iterations=10, peak=0.0, average=1.5, messages_per_us=2.5)


def records(count: int, host: str = "192.0.2.1", first: int = 16) -> list[QpRecord]:
    return [QpRecord(qpn=first + place, psn=7, rkey=9, address=4096, host=host) for place in range(count)]


def swap_all(client: Generator[Swap, bytes, Any], server: Generator[Swap, bytes, Any]) -> tuple[Any, Any, list[Swap]]:
    """Drive both ends against each other; returns what they return, and what the client sent."""
    results: list[Any] = []
    sent, theirs = [], b""
    ours = next(client, None)
    reply = next(server, None)
    while ours is not None and reply is not None:
        sent.append(ours)
        theirs, ours_block = reply.block, ours.block
        assert len(theirs) == len(ours_block)
        if not ours.expected_bytes:
            theirs = ours_block = b""
        ours = step(client, theirs, results)
        reply = step(server, ours_block, results)
    assert ours is reply is None
    return results[0] if results else None, results[1] if results else None, sent


def step(end: Generator[Swap, bytes, Any], block: bytes, results: list[Any]) -> Swap | None:
    try:
        return end.send(block)
    except StopIteration as stop:
        results.append(stop.value)
        return None


def every_test() -> list[PeerTest]:
    made = []
    for verb in TestVerb:
        made.append(make_test(verb))
        if not verb.is_latency:
            made += [make_test(verb, queue_pairs=3), make_test(verb, is_bidirectional=True)]
            made.append(make_test(verb, is_bidirectional=True, duration_s=2))
    return made


@pytest.mark.parametrize("test", every_test(), ids=lambda test: test.command())
def test_both_ends_swap_the_same_blocks_and_agree(test: PeerTest) -> None:
    ours, theirs = records(test.queue_pairs), records(test.queue_pairs, "192.0.2.2", 99)
    at_client, at_server, _ = swap_all(greet(test), greet(test))
    assert at_client == at_server == Greeting("6.06", 4096, max(test.size_bytes, 4096))
    at_client, at_server, _ = swap_all(introduce(test, ours), introduce(test, theirs))
    assert (at_client, at_server) == (theirs, ours)
    swap_all(confirm(test, ours), confirm(test, theirs))
    client, server, _ = swap_all(conclude(test, ours, REPORT), conclude(test, theirs, REPORT))
    assert client == server


def blocks(test: PeerTest) -> list[str]:
    """What a client sends after the path MTU, as letters: a record of queue pair n, Results, Farewell."""
    ends = records(test.queue_pairs, first=0)
    letters = []
    for part in (introduce, confirm):
        letters += [*swap_all(part(test, ends), part(test, ends))[2], None]
    letters += swap_all(conclude(test, ends, REPORT), conclude(test, ends, REPORT))[2]
    return " ".join("|" if swap is None else letter(swap) for swap in letters).split(" | ")


def letter(swap: Swap) -> str:
    if swap.block == FAREWELL:
        return "F"
    return "R" if len(swap.block) == 8 else str(int(swap.block[10:16], 16))


@pytest.mark.parametrize(
    ("verb", "options", "expected"),
    [
        (TestVerb.WRITE, {}, ["0", "0 0", "0 R R R R R 0 F"]),
        (TestVerb.WRITE, {"queue_pairs": 2}, ["0 1", "0 1 0", "0 R R R R R 0 F"]),
        (TestVerb.WRITE, {"is_bidirectional": True}, ["0", "0 0 0", "R R R R R 0 F"]),
        (TestVerb.READ, {"queue_pairs": 2}, ["0 1", "0 1 0", "0 R R R R R 0 F"]),
        (TestVerb.READ, {"is_bidirectional": True, "duration_s": 1}, ["0", "0 0 0", "R R R R R 0 F"]),
        (TestVerb.SEND, {}, ["0", "0 0 0", "0 F"]),
        (TestVerb.SEND, {"queue_pairs": 2}, ["0 1", "0 0 1 0", "0 F"]),
        (TestVerb.SEND, {"is_bidirectional": True}, ["0", "0 0 0", "R R R R R 0 F"]),
        (TestVerb.SEND, {"is_bidirectional": True, "duration_s": 1}, ["0", "0 0 0", "0 F"]),
        (TestVerb.WRITE_LATENCY, {}, ["0 0", "0 0 |"]),
        (TestVerb.READ_LATENCY, {}, ["0 0", "0 0", "0 F"]),
        (TestVerb.SEND_LATENCY, {}, ["0", "0 0 0", "0 F"]),
    ],
)
def test_each_tool_has_an_order_of_its_own(verb: TestVerb, options: dict[str, Any], expected: list[str]) -> None:
    assert blocks(make_test(verb, **options)) == expected


def last(part: Generator[Swap, bytes, Any], answers: list[bytes]) -> Any:
    """What a part returns after these answers."""
    next(part)
    for block in answers[:-1]:
        part.send(block)
    with pytest.raises(StopIteration) as end:
        part.send(answers[-1])
    return end.value.value


def greeted(test: PeerTest, *, path_mtu: int = 4096, cycle: int = 4096) -> Greeting:
    sizes = [encode_int(cycle), encode_int(64), encode_path_mtu(path_mtu)]
    found: Greeting = last(greet(test), [encode_version("26.01.5"), *sizes])
    return found


def test_the_smaller_path_mtu_and_the_larger_buffer_count() -> None:
    test = make_test(TestVerb.WRITE, path_mtu=1024, size_bytes=10)
    assert greeted(test, path_mtu=4096).path_mtu == 1024
    assert greeted(test, path_mtu=512).path_mtu == 512
    assert greeted(test, cycle=65536).buffer_bytes == 65536
    assert greeted(make_test(TestVerb.WRITE, size_bytes=1 << 20)).buffer_bytes == 1 << 20


def test_addresses_of_two_families_are_refused() -> None:
    with pytest.raises(RemoteProtocolError, match=r"address 2001:db8::2, ours has 192\.0\.2\.1"):
        last(introduce(make_test(TestVerb.WRITE), records(1)), [records(1, "2001:db8::2")[0].encode()])


def test_over_a_queue_pair_records_are_binary_and_nobody_says_farewell() -> None:
    test, ours, theirs = make_test(TestVerb.WRITE), records(1), records(1, "192.0.2.2", 99)
    at_client, at_server, sent = swap_all(introduce(test, ours, OVER_RDMA), introduce(test, theirs, OVER_RDMA))
    assert [len(swap.block) for swap in sent] == [56]
    assert [one.qpn for one in (*at_client, *at_server)] == [99, 16]
    assert at_client[0].host == ""  # a peer with rdma_cm does not always know its own
    swap_all(meet(ours[0], OVER_RDMA), meet(theirs[0], OVER_RDMA))
    _, _, sent = swap_all(conclude(test, ours, REPORT, OVER_RDMA), conclude(test, theirs, REPORT, OVER_RDMA))
    assert [len(swap.block) for swap in sent] == [56, 8, 8, 8, 8, 8, 56]
