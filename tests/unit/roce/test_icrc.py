"""The ICRC against zlib, against scapy, and against every frame a foreign endpoint sent."""

import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.annexes.bench_kit.audit.audit import Capture
from emulator.roce.constants import BTH_BYTES, ICRC_BYTES
from emulator.roce.wire.headers import Bth
from emulator.roce.wire.icrc import (
    UdpPath,
    WordTable,
    icrc,
    icrc_of_datagram,
    ip_id_changes,
    multiply,
    power_of_x,
    psn_changes,
    recover_ip_id,
    shift_table,
    word_table,
)
from emulator.roce.wire.opcodes import Opcode
from emulator.roce.wire.packet import Packet, pack_icrc, parse_packet
from emulator.roce.wire.psn import Psn, wrap
from tests.support.roce_capture import ip_datagram
from tests.support.shared_traces import require_shared

ONE, X = 1 << 31, 1 << 30
words = st.integers(0, (1 << 32) - 1)


@given(words, words, words)
def test_multiplication_is_commutative_associative_and_distributes_over_xor(a: int, b: int, c: int) -> None:
    assert multiply(a, b) == multiply(b, a)
    assert multiply(multiply(a, b), c) == multiply(a, multiply(b, c))
    assert multiply(a, b ^ c) == multiply(a, b) ^ multiply(a, c)


@given(words)
def test_one_changes_nothing_and_zero_takes_everything(a: int) -> None:
    assert (multiply(a, ONE), multiply(a, 0)) == (a, 0)


@given(st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6))
def test_exponents_add_up(a: int, b: int) -> None:
    assert multiply(power_of_x(a), power_of_x(b)) == power_of_x(a + b)


def test_small_powers_are_single_bits_and_the_32nd_is_the_polynomial() -> None:
    assert [power_of_x(n) for n in range(32)] == [1 << 31 - n for n in range(32)]
    assert power_of_x(32) == 0xEDB88320
    assert power_of_x(1) == X


@given(st.binary(min_size=1, max_size=64), st.binary(min_size=1, max_size=64), st.integers(0, 3))
def test_what_two_messages_of_one_length_differ_by_shifts_with_what_follows(
    one: bytes, other: bytes, tail_words: int
) -> None:
    size = min(len(one), len(other))
    tail = bytes(range(4 * tail_words))
    before = zlib.crc32(one[:size]) ^ zlib.crc32(other[:size])
    after = zlib.crc32(one[:size] + tail) ^ zlib.crc32(other[:size] + tail)
    assert shift_table(len(tail)).product(before) == after
    assert shift_table(-len(tail)).product(after) == before


@given(words, st.integers(0, 5000))
def test_a_table_gives_the_products_of_its_constant(word: int, zero_bytes: int) -> None:
    assert shift_table(zero_bytes).product(word) == multiply(word, power_of_x(8 * zero_bytes))


@pytest.mark.parametrize("constant", [ONE, X, 0xDEADBEEF])
def test_the_tables_of_a_constant_are_linear(constant: int) -> None:
    tables = WordTable(constant).tables
    assert (tables.shape, tables.dtype) == ((4, 256), np.uint32)
    assert not tables[:, 0].any()
    for row in tables:
        assert (row[0x0F] ^ row[0xF0]) == row[0xFF]


@given(st.binary(min_size=4, max_size=4), st.binary(max_size=40))
def test_a_word_adds_to_a_crc_what_its_table_says_for_the_bytes_after_it(word: bytes, after: bytes) -> None:
    with_word = zlib.crc32(bytes(3) + word + after)
    without = zlib.crc32(bytes(3) + bytes(4) + after)
    assert with_word ^ without == word_table(len(after)).product(int.from_bytes(word, "little"))


V4 = UdpPath.between("10.0.0.1", "10.0.0.2", source_port=50123)
V6 = UdpPath.between("fd00::1", "fd00::2", source_port=50123)
PATHS = pytest.mark.parametrize("path", [V4, V6], ids=["v4", "v6"])
U24 = st.integers(0, (1 << 24) - 1)
ETHERNET_BYTES, V4_BYTES, UDP_BYTES = 14, 20, 8


def bth(psn: int, *, opcode: int = Opcode.RC_WRITE_MIDDLE, ack_request: bool = False, becn: bool = False) -> bytes:
    return Bth(opcode, Psn(psn), 0x123456, ack_request=ack_request, becn=becn).pack()


def test_powers_of_x_repeat_after_2_to_the_32_less_1() -> None:
    assert power_of_x(0) == power_of_x((1 << 32) - 1) == 1 << 31
    assert power_of_x(-1) == power_of_x((1 << 32) - 2)


@settings(deadline=None)
@PATHS
@given(
    payload=st.binary(max_size=60).map(lambda data: data + bytes(-len(data) % 4)), psn=U24, ip_id=st.integers(0, 65535)
)
def test_scapy_agrees(path: UdpPath, payload: bytes, psn: int, ip_id: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries it finds on its way
        from scapy.contrib.roce import BTH
        from scapy.layers.inet import IP, UDP
        from scapy.layers.inet6 import IPv6
        from scapy.packet import Raw
    if path.is_v4:
        layers = IP(src="10.0.0.1", dst="10.0.0.2", id=ip_id, flags="DF")
    else:
        layers = IPv6(src="fd00::1", dst="fd00::2")
    layers /= UDP(sport=50123, dport=4791)
    layers /= BTH(opcode=int(Opcode.RC_WRITE_MIDDLE), becn=1, dqpn=0x123456, psn=psn) / Raw(payload)
    assert bytes(layers)[-4:] == pack_icrc(icrc(path, bth(psn, becn=True) + payload, ip_id=ip_id))


def golden_datagrams() -> list[bytes]:
    folder: Path = require_shared("golden", "rocev2")
    return [frame.data[ETHERNET_BYTES:] for path in sorted(folder.iterdir()) for frame in Capture(path)]


def test_every_frame_of_a_foreign_endpoint_verifies() -> None:
    datagrams = golden_datagrams()
    assert len(datagrams) == 1845
    for datagram in datagrams:
        payload = datagram[V4_BYTES + UDP_BYTES :]
        packet = parse_packet(payload)
        assert isinstance(packet, Packet)
        assert packet.pack() == payload
        assert packet.icrc == icrc_of_datagram(datagram, V4_BYTES)
        path = UdpPath(datagram[12:16], datagram[16:20], int.from_bytes(datagram[20:22], "big"))
        ip_id = int.from_bytes(datagram[4:6], "big")
        assert icrc(path, payload[:-4], ip_id=ip_id) == packet.icrc
        assert recover_ip_id(path, payload[:-4], packet.icrc) == ip_id


@PATHS
def test_every_bit_that_is_not_masked_counts(path: UdpPath) -> None:
    """Each bit flipped changes the ICRC, but for those that routers may change, and the byte of FECN and BECN."""
    datagram = ip_datagram(path, bth(5) + b"data", ip_id=77)
    header_bytes = V4_BYTES if path.is_v4 else 40
    right = icrc_of_datagram(datagram, header_bytes)
    udp = header_bytes + 6
    masked = {*range(8, 16), *range(64, 72), *range(80, 96)} if path.is_v4 else {*range(4, 32), *range(56, 64)}
    masked |= {*range(8 * udp, 8 * udp + 16), *range(8 * (header_bytes + 12), 8 * (header_bytes + 13))}
    for bit in range(4, 8 * (len(datagram) - 4)):
        if bit // 8 == 0:
            continue  # version and header length: another parse
        changed = bytearray(datagram)
        changed[bit // 8] ^= 0x80 >> bit % 8
        assert (icrc_of_datagram(bytes(changed), header_bytes) == right) is (bit in masked), f"bit {bit}"


PAYLOAD = bytes(range(256)) * 4
LOW = st.integers(0, 65_535)


@PATHS
@settings(deadline=None)
@given(psn=U24 | st.just(0xFFFF) | st.just(0xFFFFFE), count=st.integers(1, 70))
def test_packets_with_the_next_psns_differ_by_what_the_table_has(path: UdpPath, psn: int, count: int) -> None:
    expected = [icrc(path, bth(wrap(psn + at)) + PAYLOAD) for at in range(count)]
    changes, constant = psn_changes(BTH_BYTES + len(PAYLOAD) + ICRC_BYTES, Psn(psn), count)
    assert [int(change) ^ constant ^ icrc(path, bth(0) + PAYLOAD) for change in changes] == expected


@given(packet=st.builds(bth, U24), ip_id=st.integers(0, 255))
def test_small_ip_ids_change_what_the_table_has(packet: bytes, ip_id: int) -> None:
    changes = ip_id_changes(len(packet) + len(PAYLOAD) + ICRC_BYTES)
    assert icrc(V4, packet + PAYLOAD) ^ int(changes[ip_id]) == icrc(V4, packet + PAYLOAD, ip_id=ip_id)


@PATHS
@settings(deadline=None)
@given(
    packet=st.builds(bth, U24, opcode=st.integers(0, 255), ack_request=st.booleans(), becn=st.booleans()),
    ip_id=LOW,
    damage=st.integers(1, 0xFFFF),
)
def test_an_id_is_recovered_and_damage_is_found(path: UdpPath, packet: bytes, ip_id: int, damage: int) -> None:
    right = icrc(path, packet + PAYLOAD, ip_id=ip_id)
    expected = ip_id if path.is_v4 else 0
    assert recover_ip_id(path, packet + PAYLOAD, right) == expected
    wrong = right ^ (int(word_table(0).product(damage)) if path.is_v4 else damage)
    assert recover_ip_id(path, packet + PAYLOAD, wrong) != expected


def test_of_all_damage_one_in_65536_passes_as_another_id() -> None:
    """What recovering the ID costs: 16 bits that check, not 32."""
    packet = bth(5)
    wrong = np.random.default_rng(1).integers(0, 1 << 32, 1 << 17, dtype=np.uint32)
    assert 0 < sum(recover_ip_id(V4, packet, int(crc)) is not None for crc in wrong) < 12
