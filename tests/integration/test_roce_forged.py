"""Forged packets of the peer that are correct except for one field: each is detected and counted."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from agents.nic.channel import Channel
from agents.nic.system_calls import cut_message
from emulator.roce.wire.headers import Bth, Extension, ImmDt, Reth
from emulator.roce.wire.icrc import UdpPath, icrc
from emulator.roce.wire.opcodes import Opcode
from emulator.roce.wire.packet import CNP_PAYLOAD, pack_icrc, pack_packet
from emulator.roce.wire.psn import Psn, add
from tests.integration.roce_bed import RoceBed
from tests.integration.transport_conformance import Listener
from tests.support.loopback import NET

PEER, TARGET, STRANGER = f"{NET}.0.1", f"{NET}.0.2", f"{NET}.0.9"
PATH_MTU = 1024
STRIDE = 12 + PATH_MTU + 4
TOLD = 77
MARKED = 3


class Forgery:
    """Rank 1 of connected agents, and a socket at the address of rank 0."""

    def __init__(self, bed: RoceBed, sender: socket.socket, a: Listener, b: Listener) -> None:
        self.bed, self.a, self.b, self._socket = bed, a, b, sender
        self.transport = bed.transports[1]
        self.context = self.transport.context
        self._path = UdpPath.between(sender.getsockname()[0], TARGET, source_port=sender.getsockname()[1])

    def channel(self, index: int = 1) -> Channel:
        return self.transport._endpoints[1]._links[0].channel(index)

    @property
    def due(self) -> Psn:
        return self.channel().pair.responder.expected

    def content(self, packet: int) -> bytes:
        """Payload of a packet of a message, by its index."""
        payload = self.context.payload
        return bytes(payload.take(payload.slot(packet), PATH_MTU))

    def packet(self, bth: Bth, *extensions: Extension, payload: bytes = b"", ip_id: int = 0, flipped: int = 0) -> bytes:
        """The packet with its ICRC, of which bits can be flipped."""
        packet = pack_packet(bth, *extensions, payload=payload)
        return packet + pack_icrc(icrc(self._path, packet, ip_id=ip_id) ^ flipped)

    def middle(self, psn: Psn, payload: bytes, *, channel: Channel | None = None, **fields: int) -> bytes:
        number = (channel or self.channel()).facts.qpn
        p_key = fields.pop("p_key", 0xFFFF)
        return self.packet(Bth(Opcode.RC_WRITE_MIDDLE, psn, number, p_key=p_key), payload=payload, **fields)

    def first(self, packets: int, *, channel: Channel | None = None) -> bytes:
        channel = channel or self.channel()
        reth = Reth(TOLD, channel.facts.rkey, packets * PATH_MTU)
        psn = channel.pair.responder.expected
        return self.packet(Bth(Opcode.RC_WRITE_FIRST, psn, channel.facts.qpn), reth, payload=self.content(0))

    def send(self, *datagrams: bytes, traffic_class: int | None = None) -> None:
        """Send packets one by one."""
        self._mark(traffic_class)
        for datagram in datagrams:
            self._socket.sendto(datagram, (TARGET, 4791))

    def send_merged(self, *datagrams: bytes) -> None:
        """Send packets in one call, which the kernel can merge."""
        self._mark(None)
        self._socket.sendmsg([b"".join(datagrams)], cut_message(len(datagrams[0])), 0, (TARGET, 4791))

    def _mark(self, traffic_class: int | None) -> None:
        usual = self.context.options.traffic_class
        self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, usual if traffic_class is None else traffic_class)

    async def until_dropped(self, **reasons: int) -> None:
        """Wait until that many are counted, and check that no others are."""
        await self.bed.until(lambda: self.transport.drops.total() >= sum(reasons.values()))
        assert self.transport.drops == reasons


@asynccontextmanager
async def forging(*, host: str = PEER, messages: int = 1, **options: object) -> AsyncIterator[Forgery]:
    """Begins after a message on each queue pair, with a socket at an address."""
    async with RoceBed(path_mtu=PATH_MTU, qp_timeout=22, **options) as bed:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.bind((host, 0))
            a, b = await bed.connected(2)
            for tag in range(messages):
                a.send(1, [(tag, 5000)])
            await bed.until(lambda: len(a.acknowledgements(1)) == messages)
            yield Forgery(bed, sender, a, b)


@pytest.mark.parametrize("payload", ["constant", "random"])
@pytest.mark.parametrize("receiver", ["gbn", "ooo"])
async def test_wrong_bytes_are_not_delivered_in_turn_or_early(receiver: str, payload: str) -> None:
    async with forging(receiver=receiver, payload=payload, verify_every=1) as forged:
        due, responder = forged.due, forged.channel().pair.responder
        last = Bth(Opcode.RC_WRITE_LAST_IMM, add(due, 3), forged.channel().facts.qpn)
        arrived = forged.b.arrivals(0)
        forged.send(
            forged.first(4),
            forged.middle(add(due, 2), bytes(PATH_MTU)),  # early, and never sent by anybody
            forged.middle(add(due, 1), forged.content(1)),
            forged.packet(last, ImmDt(1), payload=forged.content(3)),
        )
        if receiver == "ooo":
            await forged.bed.until(lambda: responder.early_packets == 1)
            assert forged.transport.drops == {"payload": 1}
        else:
            await forged.bed.until(lambda: responder.early_packets == 2)
            forged.send(forged.middle(add(due, 2), bytes(PATH_MTU)))
            await forged.until_dropped(payload=1)
        assert responder.expected == add(due, 2)
        assert forged.b.arrivals(0) == arrived


async def test_an_early_packet_of_a_message_that_has_not_begun_is_checked_for_sent_bytes() -> None:
    async with forging(receiver="ooo", payload="random") as forged:
        due, responder = forged.due, forged.channel().pair.responder
        forged.send(forged.middle(add(due, 2), bytes(PATH_MTU)))
        await forged.until_dropped(payload=1)
        forged.send(forged.middle(add(due, 2), forged.content(2)))
        await forged.bed.until(lambda: responder.early_packets == 1)
        assert forged.transport.drops == {"payload": 1}


async def test_wrong_bytes_with_a_correct_icrc_are_found_in_every_single_packet() -> None:
    async with forging() as forged:
        reth, bth = Reth(TOLD, forged.channel().facts.rkey, PATH_MTU), Bth(Opcode.RC_WRITE_ONLY_IMM, forged.due, 0)
        bth.dest_qp = forged.channel().facts.qpn
        arrived = forged.b.arrivals(0)
        forged.send(*20 * [forged.packet(bth, reth, ImmDt(1), payload=b"\xee" * PATH_MTU)])
        await forged.until_dropped(payload=20)
        assert forged.b.arrivals(0) == arrived


async def test_merged_packets_of_a_stranger_are_counted_each() -> None:
    async with forging(host=STRANGER) as forged:
        forged.send_merged(*15 * [bytes(STRIDE)], bytes(100))
        await forged.until_dropped(stranger=16)


async def test_a_wrong_packet_does_not_affect_packets_merged_after_it() -> None:
    async with forging() as forged:
        due, responder = forged.due, forged.channel().pair.responder
        forged.send(forged.first(9))
        await forged.bed.until(lambda: responder.expected == add(due, 1))
        middles = [forged.middle(add(due, 1 + k), forged.content(1 + k), ip_id=1 + k) for k in range(5)]
        forged.send_merged(forged.middle(add(due, 1), forged.content(1), p_key=0x1234), *middles)
        await forged.bed.until(lambda: responder.expected == add(due, 6))
        assert forged.transport.drops == {"header": 1}


async def test_merged_packets_of_two_queue_pairs_go_each_to_its_own() -> None:
    async with forging(messages=4, qps=2, source_port="fixed") as forged:
        channels = forged.channel(1), forged.channel(2)
        due = [channel.pair.responder.expected for channel in channels]

        def have_taken(packets: int) -> bool:
            reached = [channel.pair.responder.expected for channel in channels]
            return reached == [add(psn, packets) for psn in due]

        forged.send(*(forged.first(9, channel=channel) for channel in channels))
        await forged.bed.until(lambda: have_taken(1))
        forged.send_merged(*(
            forged.middle(add(psn, k), forged.content(k), channel=channel, ip_id=2 * k - 2 + place)
            for k in range(1, 5)
            for place, (channel, psn) in enumerate(zip(channels, due, strict=True))
        ))  # fmt: skip
        await forged.bed.until(lambda: have_taken(5))
        assert not forged.transport.drops


async def test_only_a_mark_on_a_correct_packet_causes_a_cnp() -> None:
    async with forging(congestion="dcqcn") as forged:
        due, pair = forged.due, forged.channel().pair
        early = add(due, 1)
        forged.send(forged.middle(early, forged.content(1), flipped=1 << 31 | 1), traffic_class=MARKED)
        await forged.until_dropped(icrc=1)
        assert (pair.ecn_marks, pair.cnps_sent) == (0, 0)
        forged.send(forged.middle(early, forged.content(1)), traffic_class=MARKED)
        await forged.bed.until(lambda: pair.ecn_marks == 1)
        assert pair.cnps_sent == 1


@pytest.mark.parametrize(
    ("becn", "psn", "payload", "reason"),
    [
        (False, 0, CNP_PAYLOAD, "header"),
        (True, 5, CNP_PAYLOAD, "header"),
        (True, 0, b"x" * 16, "header"),
        (True, 0, bytes(20), "length"),
    ],
    ids=["no BECN", "a PSN", "other bytes", "too long"],
)
async def test_a_malformed_cnp_does_not_reduce_the_rate(becn: bool, psn: int, payload: bytes, reason: str) -> None:
    async with forging() as forged:
        number, pair = forged.channel().facts.qpn, forged.channel().pair
        forged.send(forged.packet(Bth(Opcode.CNP, Psn(psn), number, becn=becn), payload=payload))
        await forged.until_dropped(**{reason: 1})
        assert pair.cnps_received == 0
        forged.send(forged.packet(Bth(Opcode.CNP, Psn(0), number, becn=True), payload=CNP_PAYLOAD))
        await forged.bed.until(lambda: pair.cnps_received == 1)


async def test_a_connection_that_breaks_with_nothing_in_flight_is_reported_at_once() -> None:
    async with forging() as forged:
        forged.send(forged.middle(forged.due, forged.content(1)))
        await forged.bed.until(lambda: forged.b.failures(0) == 1)
        assert forged.b.reasons == [
            "a packet in order does not continue a message, or the message is longer or shorter than announced"
        ]
