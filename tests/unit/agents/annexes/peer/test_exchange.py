"""The exchange: both roles against each other, and the order of blocks that the stock tools expect."""

from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.annexes.peer.exchange import (
    FAREWELL,
    OVER_RDMA,
    RECORD_BYTES,
    Greeting,
    QpRecord,
    Swap,
    conclude,
    confirm,
    decode_int,
    decode_path_mtu,
    decode_record,
    decode_report,
    decode_version,
    encode_int,
    encode_path_mtu,
    encode_report,
    encode_version,
    greet,
    introduce,
    meet,
)
from emulator.errors import RemoteProtocolError
from emulator.flows.perftest_parameters import PeerTest, TestVerb, make_test
from emulator.flows.perftest_results import BandwidthReport
from emulator.roce.constants import PATH_MTUS

VERSION = b"6.06" + bytes(12)
WRITE_BW = (
    b"0000:0001:000011:94b3d3:0000027b:00007f4838903000:00:00:00:00:00:00:00:00:00:00:ff:ff:0a:63:00:02:00000000:\0"
)
READ_LAT = (
    b"0000:0080:000012:78b7b2:00000321:000055a8fe9e0000:00:00:00:00:00:00:00:00:00:00:ff:ff:0a:63:00:02:00000000:\0"
)


def test_this_end_announces_what_perftest_6_06_does() -> None:
    assert (encode_version(), encode_int(4096), encode_int(64)) == (VERSION, b"\0\0\x10\0", b"\0\0\0@")
    assert encode_path_mtu(4096) == b"5\0"


def test_records_of_the_tool_are_read_and_written_alike() -> None:
    for data, reads in ((WRITE_BW, 1), (READ_LAT, 128)):
        record = decode_record(data)
        assert (record.host, record.outstanding_reads) == ("10.99.0.2", reads)
        assert record.encode() == data
    assert decode_record(WRITE_BW) == QpRecord(
        qpn=0x11, psn=0x94B3D3, rkey=0x27B, address=0x7F4838903000, host="10.99.0.2"
    )


@given(
    st.builds(
        QpRecord,
        qpn=st.integers(0, (1 << 24) - 1),
        psn=st.integers(0, (1 << 24) - 1),
        rkey=st.integers(0, (1 << 32) - 1),
        address=st.integers(0, (1 << 64) - 1),
        host=st.one_of(st.ip_addresses(v=4), st.just("2001:db8::1"), st.just("fe80::1")).map(str),
        outstanding_reads=st.integers(0, 0xFFFF),
    )
)
def test_every_record_has_one_length_and_survives_the_wire(record: QpRecord) -> None:
    assert len(record.encode()) == RECORD_BYTES
    assert decode_record(record.encode()) == record


@given(st.binary(min_size=RECORD_BYTES, max_size=RECORD_BYTES))
def test_other_bytes_are_no_record(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="describes a queue pair"):
        decode_record(data)


def test_numbers_with_too_many_digits_are_refused() -> None:
    wide = WRITE_BW.replace(b":000011:", b":1000011:").replace(b"0000:0001", b"0000:0001")
    with pytest.raises(RemoteProtocolError, match="too many digits"):
        decode_record(wide)


@pytest.mark.parametrize("version", ["5.70", "6.06", "6.28", "26.01.5"])
def test_versions_that_can_be_talked_to(version: str) -> None:
    assert decode_version(encode_version(version)) == version


def test_an_older_version_is_named() -> None:
    with pytest.raises(RemoteProtocolError, match=r"runs version 5\.33 .* 5\.70 or newer"):
        decode_version(encode_version("5.33"))


@pytest.mark.parametrize("data", [bytes(16), b"GET / HTTP/1.1\r\n", b"6" + bytes(15), b"0000:0001:000011"])
def test_a_stranger_is_named(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="is it perftest"):
        decode_version(data)


def test_path_mtus_survive_the_wire() -> None:
    assert [encode_path_mtu(mtu) for mtu in PATH_MTUS] == [b"1\0", b"2\0", b"3\0", b"4\0", b"5\0"]
    assert [decode_path_mtu(encode_path_mtu(mtu)) for mtu in PATH_MTUS] == list(PATH_MTUS)


@pytest.mark.parametrize("data", [b"0\0", b"6\0", b"\0\0", b"x\0", b"-1"])
def test_other_path_mtus_are_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="1 to 5 is expected"):
        decode_path_mtu(data)


@given(st.integers(-(1 << 31), (1 << 31) - 1))
def test_numbers_survive_the_wire(value: int) -> None:
    assert decode_int(encode_int(value)) == value


def test_results_are_big_endian_and_survive_the_wire() -> None:
    report = BandwidthReport(size_bytes=65536, iterations=5000, peak=0.0, average=93.75, messages_per_us=0.0015)
    blocks = encode_report(report)
    assert blocks[:2] == [bytes.fromhex("0000000000010000"), bytes.fromhex("0000000000001388")]
    assert blocks[3] == bytes.fromhex("4057700000000000")
    assert decode_report(blocks) == report
    assert report.bytes_per_s == pytest.approx(1500 * 65536)


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
    return last(greet(test), [encode_version("26.01.5"), *sizes])


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
