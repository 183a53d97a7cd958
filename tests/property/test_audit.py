"""Invariant: every capture leads to a report; a correct connection has no violations."""

import json
import struct
from collections.abc import Callable, Iterable
from contextlib import suppress
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from emulator.annexes.bench_kit.audit.audit import Capture
from emulator.annexes.bench_kit.audit.command import render
from emulator.annexes.bench_kit.audit.pcap import CapturedFrame
from emulator.annexes.bench_kit.audit.report import to_json
from emulator.errors import InputError
from emulator.roce.connection.messages import Arrival, ConnectionSettings, Message, Verb
from emulator.roce.wire.headers import NO_CREDIT_LIMIT, Aeth, Bth, ImmDt, Reth
from emulator.roce.wire.icrc import UdpPath
from emulator.roce.wire.opcodes import MEANINGS, Opcode
from emulator.roce.wire.packet import pack_packet, pad_bytes
from emulator.roce.wire.psn import Psn
from tests.support.full import examples
from tests.support.roce_capture import (
    CLIENT,
    CLIENT_QP,
    MTU,
    SERVER,
    SERVER_QP,
    Conversation,
    audit_frames,
    ethernet,
    ip_datagram,
    pcap,
    pcapng,
)
from tests.support.virtual_wire import Reply, Wire

Container = Callable[[Iterable[tuple[int, bytes]]], bytes]
LINK_TYPES = st.sampled_from([0, 1, 12, 101, 108, 113, 276, 147])
PATH = UdpPath.between(CLIENT, SERVER, source_port=50001)


@settings(deadline=None)
@given(st.lists(st.tuples(LINK_TYPES, st.binary(max_size=200)), max_size=8))
def test_any_frames(frames: list[tuple[int, bytes]]) -> None:
    check(CapturedFrame(number, number, link, data) for number, (link, data) in enumerate(frames, 1))


@st.composite
def bth(draw: st.DrawFn) -> bytes:
    """A BTH that lets most packets through to the rules: few queue pairs, near PSNs, any opcode."""
    opcode = draw(st.sampled_from([*range(0x18), *range(0x20, 0x2C), 0x64, 0x65, 0x81, 0xA4]))
    psn = draw(st.integers(0, 40) | st.integers((1 << 24) - 9, (1 << 24) - 1))
    flags = draw(st.sampled_from([0, 0x10, 0x20, 0x30]))
    return struct.pack(">BBHII", opcode, flags, 0xFFFF, draw(st.integers(1, 2)), psn)


BODIES = st.binary(max_size=64).map(lambda body: body[: len(body) & ~3])
PACKETS = st.builds(lambda head, body: head + body, bth(), BODIES)


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.tuples(PACKETS, st.booleans()), max_size=20))
def test_any_packets_with_a_right_icrc(packets: list[tuple[bytes, bool]]) -> None:
    back = UdpPath.between(SERVER, CLIENT, source_port=50001)
    datagrams = [ip_datagram(back if is_back else PATH, packet) for packet, is_back in packets]
    check(CapturedFrame(number, number, 1, ethernet(data)) for number, data in enumerate(datagrams, 1))


@settings(deadline=None)
@given(
    tail=st.binary(max_size=300),
    container=st.sampled_from([pcap, pcapng]),
    at=st.integers(0, 400),
    patch=st.binary(max_size=4),
)
def test_any_damage_to_a_file(
    tail: bytes, container: Container, at: int, patch: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    talk = Conversation()
    talk.write(100)
    data = bytearray(container((one.time_ns or 0, one.data) for one in talk.captured()))
    data[at : at + len(patch)] = patch
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(bytes(data) + tail)
    with suppress(InputError):  # a header that is damaged; anything else would be a bug
        check(Capture(path))


def check(frames: Iterable[CapturedFrame]) -> None:
    report = audit_frames(frames)
    json.dumps(to_json(report))
    render(report)
    assert all(1 <= one.frame <= report.frames for one in report.violations)


SIZES = st.lists(st.integers(0, 5 * MTU), min_size=1, max_size=6)


@settings(deadline=None)
@given(SIZES, st.integers(0, (1 << 24) - 1), st.booleans(), st.integers(0, 10))
def test_a_correct_connection_has_no_violations_wherever_the_capture_begins(
    sizes: list[int], first_psn: int, is_v6: bool, start: int
) -> None:
    talk = Conversation(is_v6=is_v6, first_psn=first_psn)
    for size in sizes:
        talk.write(size)
        talk.ack(messages=1)
    report = audit_frames(list(talk.captured())[start:])
    assert report.violations == ()
    assert sum(one.stats.gaps for one in report.flows) == 0


@settings(max_examples=examples(300), deadline=None)
@example(drops=[0, 0, 1, 1, 1], is_server=True, first_psn=0)
@given(
    drops=st.lists(st.integers(0, 11), max_size=40), is_server=st.booleans(), first_psn=st.integers(0, (1 << 24) - 1)
)
def test_go_back_n_is_recognised_on_both_sides_of_the_loss(drops: list[int], is_server: bool, first_psn: int) -> None:
    talk = Conversation(first_psn=first_psn)
    play_go_back_n(talk, drops, is_server=is_server)
    report = talk.audit()
    assert report.violations == ()
    flow = next(one for one in report.flows if one.data_frames)
    assert flow.payload_bytes == 12 * MTU
    if not is_server:
        assert flow.stats.go_back_n == ("followed" if flow.stats.retransmitted else "none")


def play_go_back_n(talk: Conversation, drops: list[int], *, is_server: bool) -> None:
    """Twelve packets, sent again from the oldest missing one until all are there.

    `drops`: which packets are lost, each entry the next time that packet is sent after the entry before took effect.
    A lost packet is in the client's capture and not in the server's.
    """
    packets = talk.packets_of_write(12 * MTU)
    lost, expected = list(drops), 0
    while expected < len(packets):
        was_naked = False
        for index in range(expected, len(packets)):
            opcode, extensions, payload, psn = packets[index]
            if is_lost := index in lost[:1]:
                lost.pop(0)
            if not (is_lost and is_server):
                talk.request(opcode, *extensions, payload=payload, psn=psn)
            if not is_lost and index == expected:
                expected += 1
            elif not is_lost and not was_naked:
                was_naked = True
                talk.nak(packets[expected][3])
        if expected:
            talk.ack(packets[expected - 1][3])


class Tap:
    """The capture of an end of a virtual wire: what it sends, lost or not, and what arrives at it."""

    def __init__(self, end: int) -> None:
        self._end = end
        self.talk = Conversation()

    def __call__(self, side: int, what: Arrival | Reply, is_arriving: bool) -> None:
        if is_arriving is (side == self._end):
            path = self.talk.to_server if side else self.talk.to_client
            self.talk.add(path, packed(what, dest_qp=SERVER_QP if side else CLIENT_QP))


def packed(what: Arrival | Reply, *, dest_qp: int) -> bytes:
    """The packet of an arrival, with zeros as payload."""
    if not isinstance(what, Arrival):
        return pack_packet(Bth(Opcode.RC_ACK, Psn(what[0]), dest_qp), Aeth(what[1], what[2]))
    known = {Reth: Reth(what.address, what.rkey, what.length), ImmDt: ImmDt(what.imm), Aeth: Aeth(NO_CREDIT_LIMIT, 0)}
    bth = Bth(what.opcode, what.psn, dest_qp, ack_request=what.ack_request, pad=pad_bytes(what.size))
    extensions = (known[kind] for kind in MEANINGS[what.opcode].extensions)
    return pack_packet(bth, *extensions, payload=bytes(what.size))


@settings(max_examples=examples(60), deadline=None)
@given(
    seed=st.integers(0, 2**32),
    loss=st.floats(0, 0.15),
    first_psn=st.integers(0, (1 << 24) - 1),
    window=st.integers(8, 80),
    reads=st.floats(0, 1),
    end=st.integers(0, 1),
    is_mutual=st.booleans(),
)
def test_reads_with_loss_have_no_violations_at_either_end(
    *, seed: int, loss: float, first_psn: int, window: int, reads: float, end: int, is_mutual: bool
) -> None:
    random, tap = Random(seed), Tap(end)
    settings = ConnectionSettings(path_mtu=256, window_packets=window, ack_interval=max(1, window // 4), retry_count=60)
    wire = Wire(settings, seed=seed, loss=loss, first_psns=(first_psn, 77), tap=tap)
    for side in range(1 + is_mutual):
        for key in range(20):
            verb = Verb.READ if random.random() < reads else random.choice((Verb.SEND, Verb.WRITE, Verb.WRITE_IMM))
            wire.ends[side].pair.requester.post(Message(verb, random.randrange(10 * 256), address=key << 20))
    wire.run()
    report = tap.talk.audit()
    assert report.violations == ()
    assert all(one.stats.go_back_n in ("none", "followed") for one in report.flows if one.stats.proves_go_back_n)
