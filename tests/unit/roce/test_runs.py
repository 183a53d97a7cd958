"""The stateless seam against an oracle that takes packet by packet."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.roce.wire.headers import Bth, ImmDt, Reth
from emulator.roce.wire.icrc import UdpPath, icrc, ip_id_changes
from emulator.roce.wire.opcodes import Opcode
from emulator.roce.wire.packet import pack_icrc, pack_packet
from emulator.roce.wire.psn import PSN_SPACE, Psn, wrap
from emulator.roce.wire.runs import (
    PacketColumns,
    Prediction,
    Template,
    build,
    classify,
    follows_first,
    header_bytes,
    numbered_calls,
    slices,
    without_ack_requests,
)

V4 = UdpPath.between("127.0.0.1", "127.3.2.1", source_port=50_001)
V6 = UdpPath.between("::1", "fd00::2", source_port=60_001)
PSNS = st.integers(0, PSN_SPACE - 1) | st.sampled_from((0xFFFF, 0xFFFE, 0x12FFFF, PSN_SPACE - 1, PSN_SPACE - 2))
BTHS = st.builds(
    Bth,
    st.integers(0, 255),
    st.builds(Psn, PSNS),
    st.integers(0, PSN_SPACE - 1),
    ack_request=st.booleans(),
    solicited=st.booleans(),
    migration=st.booleans(),
    pad=st.integers(0, 3),
    version=st.integers(0, 15),
    p_key=st.integers(0, 0xFFFF),
    fecn=st.booleans(),
    becn=st.booleans(),
)


def on_end(headers: list[Bth], stride: int) -> bytes:
    return b"".join(header.pack().ljust(stride, b"\xa5") for header in headers)


@given(st.lists(BTHS, min_size=1, max_size=70), st.integers(16, 60))
@settings(deadline=None)
def test_classified_headers_are_those_of_the_codec(headers: list[Bth], stride: int) -> None:
    columns = classify(on_end(headers, stride), len(headers), stride)
    for i, bth in enumerate(headers):
        flags = bth.solicited << 7 | bth.migration << 6 | bth.pad << 4 | bth.version
        assert (columns.opcode[i], columns.flags[i], columns.p_key[i]) == (bth.opcode, flags, bth.p_key)
        assert (columns.marks[i], columns.dest_qp[i]) == (bth.fecn << 7 | bth.becn << 6, bth.dest_qp)
        assert (columns.psn[i], columns.ack_request[i]) == (bth.psn, bth.ack_request)


def middle(psn: int, **fields: int) -> Bth:
    opcode = fields.pop("opcode", Opcode.RC_WRITE_MIDDLE)
    return Bth(opcode, wrap(psn), fields.pop("dest_qp", 5), **fields)  # type: ignore[arg-type]


CHANGES = st.sampled_from(
    (
        {},
        {"opcode": 8},
        {"dest_qp": 6},
        {"pad": 1},
        {"version": 1},
        {"p_key": 0x7FFF},
        {"fecn": True},
        {"ack_request": True},
        {"skip": 1},
    )
)


@given(PSNS, st.lists(CHANGES, min_size=1, max_size=20))
@settings(deadline=None)
def test_slices_are_what_an_oracle_joins_packet_by_packet(psn: int, changes: list[dict[str, int]]) -> None:
    headers = []
    for change in changes:
        psn += 1 + change.get("skip", 0)
        headers.append(middle(psn, **{name: value for name, value in change.items() if name != "skip"}))
    expected: list[list[int]] = []
    for i, bth in enumerate(headers):
        before = headers[i - 1] if i else None
        plain = middle(bth.psn, dest_qp=bth.dest_qp, ack_request=bth.ack_request)
        joins = before is not None and bth == plain and bth.dest_qp == before.dest_qp
        is_next = before is not None and before == middle(
            bth.psn - 1, dest_qp=bth.dest_qp, ack_request=before.ack_request
        )
        if joins and is_next:
            expected[-1][1] = i + 1
        else:
            expected.append([i, i + 1])
    assert [list(found) for found in slices(classify(on_end(headers, 40), len(headers), 40))] == expected


@pytest.mark.parametrize("path", [V4, V6], ids=["v4", "v6"])
@given(
    psn=PSNS,
    count=st.integers(1, 64),
    first=st.integers(0, 3),
    asks=st.booleans(),
    has_extensions=st.booleans(),
    payload=st.binary(max_size=10),
    is_numbered=st.booleans(),
)
@settings(deadline=None)
def test_built_packets_are_those_of_the_codec(
    path: UdpPath, *, psn: int, count: int, first: int, asks: bool, has_extensions: bool, payload: bytes,
    is_numbered: bool,
) -> None:  # fmt: skip
    payload += bytes(-len(payload) % 4)
    extensions = (Reth(1 << 62, 7, 9), ImmDt(3)) if has_extensions else ()

    def packet(at: int) -> bytes:
        bth = Bth(Opcode.RC_WRITE_ONLY_IMM, wrap(psn + at), 0xABCDE, ack_request=asks)
        return pack_packet(bth, *extensions, payload=payload)

    header, zero = packet(0)[: len(packet(0)) - len(payload)], packet(-psn)
    stride, end = len(packet(0)) + 4, first + count
    buffer = bytearray((bytes(len(header)) + payload + bytes(4)) * end)
    columns = PacketColumns(buffer, end, stride=stride, header_bytes=len(header))
    changes = ip_id_changes(stride)[:count] if is_numbered and path.is_v4 else None
    build(Template(zero[: len(header)], icrc(path, zero), stride), Psn(psn), columns, first, end, changes)
    expected = [
        packet(at) + pack_icrc(icrc(path, packet(at), ip_id=at if changes is not None else 0)) for at in range(count)
    ]
    built = bytes(buffer[first * stride :])
    assert [built[start : start + stride] for start in range(0, len(built), stride)] == expected
    numbered = changes is not None
    assert follows_first(built, count, stride, header_bytes=len(header), is_numbered=numbered)
    if has_extensions and count > 1:
        damaged = bytearray(built)
        covered = [*range(4), *range(5, len(header)), *range(stride - 4, stride)]
        damaged[stride + covered[psn % len(covered)]] ^= 1 << psn % 8
        assert not follows_first(damaged, count, stride, header_bytes=len(header), is_numbered=numbered)


def test_packets_out_of_order_do_not_follow_the_first() -> None:
    def packet(psn: int) -> bytes:
        data = pack_packet(Bth(Opcode.RC_WRITE_ONLY_IMM, Psn(psn), 5), Reth(1, 2, 0), ImmDt(3))
        return data + pack_icrc(icrc(V6, data))

    first, second, third = packet(9), packet(10), packet(11)
    stride = len(first)
    for packets, expected in (
        ((first, second, third), True),
        ((first, third, second), False),
        ((first, third), False),
        ((first, first), False),
        (tuple(map(packet, range(9, 73))), True),
        (tuple(map(packet, range(9, 74))), False),
    ):
        data = b"".join(packets)
        assert follows_first(data, len(packets), stride, header_bytes=32, is_numbered=False) is expected


def test_the_kernel_numbers_every_call_from_0() -> None:
    changes = ip_id_changes(1040)
    assert numbered_calls(1040, 3, 7).tolist() == [int(changes[ip_id]) for ip_id in (0, 1, 2, 0, 1, 2, 0)]


def test_predicted_headers_are_those_that_come() -> None:
    prediction = Prediction(0xABCDE)
    for psn in (5, 9, 1025, 1020, 65_500, 65_530, 65_536, 131_067, PSN_SPACE - 40, PSN_SPACE - 3):
        headers = [middle(psn + i, dest_qp=0xABCDE) for i in range(9)]
        came = header_bytes(on_end(headers, 1040), 9, 1040)
        assert came == prediction.headers(Psn(psn), 9)
        assert came != prediction.headers(wrap(psn + 1), 9)


@given(st.lists(BTHS, min_size=1, max_size=10))
def test_headers_without_ack_requests_differ_in_nothing_else(headers: list[Bth]) -> None:
    came = b"".join(bth.pack() for bth in headers)
    for bth in headers:
        bth.ack_request = False
    assert without_ack_requests(came) == b"".join(bth.pack() for bth in headers)


def test_columns_write_into_the_buffer() -> None:
    buffer = bytearray(2 * 20)
    columns = PacketColumns(buffer, 2, stride=20, header_bytes=16)
    columns.starts[1], columns.psns[1], columns.icrcs[1] = 0x0807060504030201, 0x0C0B0A09, 0x14131211
    columns.extensions[1] = np.array([0x100F0E0D], np.uint32)
    assert buffer == bytes(20) + bytes(range(1, 21))
