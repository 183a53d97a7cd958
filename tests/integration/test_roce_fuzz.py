"""Arbitrary datagrams to port 4791 are counted by reason, and do not affect running flows."""

import asyncio
import socket
from collections import Counter
from random import Random

import pytest

from agents.nic.channel import Channel
from agents.nic.context import Context
from agents.nic.system_calls import cut_message
from emulator.control.observations import FlowCounters
from emulator.roce.connection.messages import LEAST_REACH_PACKETS, Arrival
from emulator.roce.wire.framing import Framing
from emulator.roce.wire.headers import Aeth, Bth, Extension, ImmDt, Reth
from emulator.roce.wire.icrc import UdpPath, icrc
from emulator.roce.wire.opcodes import MEANINGS, Opcode, PacketOperation, TransportService
from emulator.roce.wire.packet import pack_icrc, pack_packet, pad_bytes
from emulator.roce.wire.psn import Psn, add
from tests.integration.roce_bed import RoceBed
from tests.integration.transport_conformance import Listener
from tests.support.full import IS_FULL
from tests.support.loopback import NET

DATAGRAMS = 1_000_000 if IS_FULL else 10_000
BATCH = 50
"""Small enough for any receive buffer."""
PEER, TARGET, STRANGER = f"{NET}.0.1", f"{NET}.0.2", f"{NET}.0.9"
PATH_MTU = 1024
WRITES = [Opcode(code) for code, one in MEANINGS.items() if code < 0x20 and one.operation is PacketOperation.WRITE]
OTHERS = [
    Opcode(code)
    for code, one in MEANINGS.items()
    if code != Opcode.CNP
    and (one.service is not TransportService.RC or one.operation not in (PacketOperation.WRITE, PacketOperation.ACK))
]

REASONS = ("header", "icrc", "length", "opcode", "payload", "refused", "rkey", "stranger")


class Forger:
    """Datagrams for a queue pair, most with a single error; each with the reason for which it is dropped.

    Args:
        channel: the receiver's end of the queue pair.
        port: where they will come from, at the peer's address.
        context: what all its queue pairs share.
    """

    def __init__(self, random: Random, channel: Channel, *, port: int, context: Context) -> None:
        self._random, self._channel, self._rkey = random, channel, channel.facts.rkey
        self._payload = bytes(context.payload.take(0, PATH_MTU))
        self._path = UdpPath.between(PEER, TARGET, source_port=port)
        self._kinds = (
            self.noise,
            self.to_another_queue_pair,
            self.with_another_icrc,
            self.with_another_rkey,
            self.with_other_bytes,
            self.with_a_distant_psn,
            self.answering_what_was_not_sent,
            self.of_another_operation,
            self.of_another_partition_or_version,
        )

    def next(self) -> tuple[str | None, bytes]:
        """A datagram and its reason; None: the first one noticed."""
        return self._random.choice(self._kinds)()

    def noise(self) -> tuple[str | None, bytes]:
        return None, self._random.randbytes(self._random.choice((0, 1, 11, 15, 16, 32, 60, 1040, 1041, 3000)))

    def to_another_queue_pair(self) -> tuple[str | None, bytes]:
        return "stranger", self._packet(self._write(), qp=self._random.randrange(64, 1 << 24))

    def with_another_icrc(self) -> tuple[str | None, bytes]:
        """The receiver does not know the IP ID: an error that 16 bits of it can explain is not damage."""
        packet = bytearray(self._packet(self._write()))
        for position in self._random.sample(range(12, len(packet)), k=4):
            packet[position] ^= self._random.randrange(1, 256)
        return None, bytes(packet)

    def with_another_rkey(self) -> tuple[str | None, bytes]:
        opcode = self._random.choice((Opcode.RC_WRITE_FIRST, Opcode.RC_WRITE_ONLY, Opcode.RC_WRITE_ONLY_IMM))
        return "rkey", self._packet(opcode, rkey=self._rkey ^ self._random.randrange(1, 1 << 32))

    def with_other_bytes(self) -> tuple[str | None, bytes]:
        return "payload", self._packet(Opcode.RC_WRITE_ONLY, payload=self._random.randbytes(PATH_MTU))

    def with_a_distant_psn(self) -> tuple[str | None, bytes]:
        return "refused", self._packet(self._write())

    def answering_what_was_not_sent(self) -> tuple[str | None, bytes]:
        return "refused", self._packet(Opcode.RC_ACK)

    def of_another_operation(self) -> tuple[str | None, bytes]:
        return "opcode", self._packet(self._random.choice(OTHERS))

    def of_another_partition_or_version(self) -> tuple[str | None, bytes]:
        version, p_key = self._random.choice(((self._random.randrange(1, 16), 0xFFFF), (0, 0x1234)))
        return "header", self._packet(self._write(), version=version, p_key=p_key)

    def near(self, steps: int) -> bytes:
        """A MIDDLE some packets away from the next one, with wrong bytes, in case it becomes the next one."""
        psn = add(self._channel.pair.responder.expected, steps)
        return self._packet(Opcode.RC_WRITE_MIDDLE, psn=psn, payload=self._random.randbytes(PATH_MTU))

    def in_turn(self, opcode: Opcode) -> bytes:
        """The next packet."""
        return self._packet(opcode, psn=self._channel.pair.responder.expected)

    def _write(self) -> Opcode:
        return self._random.choice(WRITES)

    def _packet(
        self,
        opcode: Opcode,
        *,
        qp: int | None = None,
        psn: Psn | None = None,
        rkey: int | None = None,
        payload: bytes | None = None,
        version: int = 0,
        p_key: int = 0xFFFF,
    ) -> bytes:
        if psn is None:
            far = self._random.randrange(2 * LEAST_REACH_PACKETS, (1 << 24) - 2 * LEAST_REACH_PACKETS)
            is_answer = MEANINGS[opcode].operation is PacketOperation.ACK
            psn = add(self._sent() if is_answer else self._channel.pair.responder.expected, far)
        if payload is None:
            payload = self._payload if opcode in WRITES else b""
        bth = Bth(opcode, psn, qp or self._channel.facts.qpn, version=version, p_key=p_key)
        bth.pad = pad_bytes(len(payload))
        packet = pack_packet(bth, *self._extensions(opcode, rkey), payload=payload)
        return packet + pack_icrc(icrc(self._path, packet))

    def _sent(self) -> Psn:
        """A response near the PSNs that the receiver has sent, which are none."""
        return self._channel.pair.requester.initial_psn

    def _extensions(self, opcode: Opcode, rkey: int | None) -> list[Extension]:
        values = {
            Reth: lambda: Reth(self._random.getrandbits(64), self._rkey if rkey is None else rkey, PATH_MTU),
            ImmDt: lambda: ImmDt(self._random.getrandbits(32)),
            Aeth: lambda: Aeth(self._random.choice((0x1F, 0x20, 0x60, 0x61, 0x62, 0x63, 0x7F)), 1),
        }
        return [values[kind]() if kind in values else kind.unpack(bytes(64), 0) for kind in MEANINGS[opcode].extensions]


class Flow:
    """Successive transfers from one rank to another, during another activity."""

    def __init__(self, sender: Listener) -> None:
        self._sender = sender
        self.posted: list[tuple[int, int]] = []

    def keep_up(self) -> None:
        """Keep two transfers under way."""
        while len(self.posted) - len(self._sender.acknowledgements(1)) < 2:
            self.posted.append((len(self.posted), 1 + len(self.posted) * 7919 % 30_000))
            self._sender.send(1, self.posted[-1:])

    async def finish(self, bed: RoceBed) -> None:
        """Wait until all of them are acknowledged."""
        await bed.until(lambda: len(self._sender.acknowledgements(1)) == len(self.posted))


def senders() -> tuple[socket.socket, socket.socket]:
    """A socket at the address of the peer and one at that of a stranger, at the same port."""
    pair = tuple(socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    pair[0].bind((PEER, 0))
    pair[1].bind((STRANGER, pair[0].getsockname()[1]))
    return pair[0], pair[1]


async def forger(bed: RoceBed, flow: Flow, random: Random, *, port: int) -> Forger:
    """Datagrams for the queue pair that carries the payload of the flow, once it exists."""
    flow.keep_up()
    await flow.finish(bed)
    channel = bed.transports[1]._endpoints[1]._links[0].channel(1)
    return Forger(random, channel, port=port, context=bed.transports[1].context)


def sent_to_receiver(bed: RoceBed) -> FlowCounters:
    """The counters of the sender of the flow."""
    return next(one for one in bed.transports[0]._endpoints[0].counters() if (one.src, one.dst) == (0, 1) and one.bytes)


@pytest.mark.timeout(3600 if IS_FULL else 240)
async def test_many_datagrams_of_anything_are_counted_by_reason_and_change_nothing() -> None:
    async with RoceBed(payload="random", path_mtu=PATH_MTU, qp_timeout=22).ranks() as (bed, a, b):
        random, flow, certain = Random(4791), Flow(a), Counter[str]()
        peer, stranger = senders()
        with peer, stranger:
            forging = await forger(bed, flow, random, port=peer.getsockname()[1])
            for sent in range(BATCH, DATAGRAMS + 1, BATCH):
                flow.keep_up()
                for _ in range(BATCH):
                    reason, datagram = forging.next()
                    source = random.choice((peer, peer, stranger))
                    source.sendto(datagram, (TARGET, 4791))
                    if reason is not None:
                        certain[reason if source is peer else "stranger"] += 1
                await bed.until(lambda sent=sent: bed.transports[1].drops.total() >= sent)  # type: ignore[misc]
            await flow.finish(bed)
        drops = bed.transports[1].drops
        assert drops.total() == DATAGRAMS
        assert {*certain, "icrc", "length"} == set(drops) == {*REASONS}
        assert all(drops[reason] >= count for reason, count in certain.items())
        assert b.arrivals(0) == flow.posted
        assert len(flow.posted) > DATAGRAMS // BATCH
        assert a.failures(1) == b.failures(0) == 0
        counted = sent_to_receiver(bed)
        assert (counted.retransmits, counted.naks, counted.timeouts) == (0, 0, 0)


async def test_repeated_or_early_packets_of_the_peer_cost_only_retransmissions() -> None:
    async with RoceBed(payload="random", path_mtu=PATH_MTU, qp_timeout=22).ranks() as (bed, a, b):
        random, flow = Random(4792), Flow(a)
        peer, stranger = senders()
        with peer, stranger:
            forging = await forger(bed, flow, random, port=peer.getsockname()[1])
            for _ in range(300):
                flow.keep_up()
                peer.sendto(forging.near(random.choice((-60, -2, -1, 1, 2, 60))), (TARGET, 4791))
                await asyncio.sleep(0)
            await flow.finish(bed)
        assert b.arrivals(0) == flow.posted
        assert a.failures(1) == b.failures(0) == 0
        assert set(bed.transports[1].drops) <= {"payload"}
        assert sent_to_receiver(bed).naks


@pytest.mark.parametrize("opcode", [Opcode.RC_WRITE_MIDDLE, Opcode.RC_WRITE_LAST_IMM], ids=lambda opcode: opcode.name)
async def test_a_packet_in_turn_that_does_not_continue_a_message_ends_the_connection(opcode: Opcode) -> None:
    """As hardware does: a peer that sends this cannot be trusted with the rest."""
    async with RoceBed().ranks() as (bed, a, b):
        flow = Flow(a)
        peer, stranger = senders()
        with peer, stranger:
            forging = await forger(bed, flow, Random(1), port=peer.getsockname()[1])
            peer.sendto(forging.in_turn(opcode), (TARGET, 4791))
            arrived = b.arrivals(0)
            flow.keep_up()
            await bed.until(lambda: a.failures(1) == 1)
        assert a.reasons == ["the peer refused with an invalid request"]
        assert b.arrivals(0) == arrived


async def test_any_number_of_full_calls_of_a_stranger_is_dropped() -> None:
    async with RoceBed(path_mtu=PATH_MTU, message_bytes=2 << 20, qp_timeout=22).ranks() as (bed, a, _):
        a.send(1, [(1, 4 << 20)])
        await bed.until(lambda: a.acknowledgements(1) == [1])
        context, endpoint = bed.transports[1].context, bed.transports[1]._endpoints[1]
        channel, count = endpoint._links[0].channel(1), context.payload.per_call
        responder = channel.pair.responder
        responder.receive(Arrival(Opcode.RC_WRITE_FIRST, responder.expected, 1, PATH_MTU, length=1 << 30))
        due = responder.expected
        peer, stranger = senders()
        with peer, stranger:
            stranger.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, context.options.traffic_class)
            path = UdpPath.between(STRANGER, TARGET, source_port=stranger.getsockname()[1])
            framing = Framing(path, channel.facts.qpn, context.payload)
            framing.middles(context.staging, due, 0, 4 * count, ack_request=False, ends=False, are_cut=True)
            calls = [context.staging.pieces(slot * count, count) for slot in (0, 0, 1, 2, 3)]
            for pieces in calls:
                stranger.sendmsg(pieces, cut_message(context.staging.packet_bytes), 0, (TARGET, 4791))
            await bed.until(lambda: bed.transports[1].drops.total() == len(calls) * count)
        assert bed.transports[1].drops == {"stranger": len(calls) * count}
        assert responder.expected == due
