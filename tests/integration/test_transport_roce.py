import errno
import os
import random
import re
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import uvloop

from agents.nic.channel import Channel
from agents.nic.sockets import Sender
from agents.nic.system_calls import UDP_SEGMENT, ControlMessages, SendBatch, SocketAddress, cut_message
from emulator.control.observations import join_ends
from emulator.control.parameter import Parameter
from emulator.errors import HostError
from emulator.roce.dcqcn import ReactionPoint
from emulator.roce.tuning import RECEIVE_BUFFER_BYTES
from emulator.roce.wire.framing import BTH_RETH_IMM, BTH_WORD, ICRC
from emulator.roce.wire.opcodes import Opcode
from emulator.roce.wire.payload import Pieces
from emulator.roce.wire.psn import Psn
from tests.integration.roce_bed import RoceBed, run
from tests.integration.transport_conformance import CASES, Case, directory, sent_from
from tests.support.full import variant
from tests.support.loopback import NET


@pytest.mark.parametrize("agents", [1, 2])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_conformance(case: Case, agents: int) -> None:
    run(case, agents=agents)


@pytest.mark.parametrize(
    "options",
    [
        {"qps": 4},
        {"payload": "random", "path_mtu": 256},
        pytest.param({"receiver": "ooo", "qps": 2, "source_port": "message"}, marks=variant),
        pytest.param({"path_mtu": 4096, "congestion": "dcqcn", "ecn": "off"}, marks=variant),
    ],
    ids=str,
)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_conformance_with_options(case: Case, options: dict[str, object]) -> None:
    run(case, loop_factory=uvloop.new_event_loop, **options)


def refuse_cutting(monkeypatch: pytest.MonkeyPatch, error: int) -> list[int]:
    """Make the kernel refuse UDP_SEGMENT, as old kernels and IPsec do; returns the lengths of all other calls."""
    send = Sender.send
    calls: list[int] = []

    def refusing(
        self: Sender, pieces: Pieces, to: SocketAddress, control: ControlMessages = (), *, packets: int = 1
    ) -> bool:
        if any(kind == UDP_SEGMENT for _, kind, _ in control):
            raise OSError(error, os.strerror(error))
        calls.append(sum(map(len, pieces)))
        return send(self, pieces, to, control, packets=packets)

    def refusing_to_cut(self: Sender, batch: SendBatch, slot: int, count: int, to: SocketAddress) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(Sender, "send", refusing)
    monkeypatch.setattr(Sender, "send_cut", refusing_to_cut)
    return calls


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_conformance_if_the_kernel_does_not_cut(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = refuse_cutting(monkeypatch, errno.EIO)
    run(case, payload="random")
    assert all(size < 1024 + 64 for size in calls)


async def test_a_silent_peer_is_reported_until_it_responds() -> None:
    async with RoceBed() as bed:
        a, b = await bed.listeners(2)
        a.connect(directory([a, b]))
        transport = bed.transports[0]
        assert transport.silence() is None
        before = time.monotonic_ns()
        a.send(1, [(1, 5000)])
        after = time.monotonic_ns()
        await bed.until(lambda: (a.endpoint.counters()[0].timeouts or 0) >= 2)
        silence = transport.silence()
        assert silence[:2] == (0, 1)
        assert before <= silence.since_ns <= after
        assert a.endpoint.acknowledged_bytes == 0
        b.connect(directory([a, b]))
        await bed.until(lambda: a.acknowledgements(1) == [1])
        assert (transport.silence(), a.endpoint.acknowledged_bytes) == (None, 5000)


@pytest.mark.parametrize("error", [errno.EINVAL, errno.EOPNOTSUPP, errno.ENOPROTOOPT], ids=errno.errorcode.get)
async def test_every_error_that_means_no_cutting_is_recognised(error: int, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_cutting(monkeypatch, error)
    async with RoceBed(message_bytes=1 << 20, qp_timeout=22).ranks() as (bed, a, b):
        a.send(1, [(1, 300_000)])
        await bed.until(lambda: a.acknowledgements(1) == [1])
        flow = a.endpoint.counters()[0]
        assert (flow.packets, flow.retransmits) == (293, 0)
        assert b.arrivals(0) == [(1, 300_000)]


async def test_payload_lost_in_the_kernel_is_retransmitted() -> None:
    """Both directions use a receive buffer of a few packets; the drop counts agree with those of the kernel."""
    async with RoceBed().ranks() as (bed, a, b):
        for listener in (a, b):
            listener.endpoint.nic._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8000)  # type: ignore[attr-defined]
        a.send(1, [(tag, 50_000) for tag in range(20)])
        b.send(0, [(tag, 50_000) for tag in range(20)])
        await bed.until(lambda: len(a.acknowledgements(1)) + len(b.acknowledgements(0)) == 40)
        assert b.arrivals(0) == a.arrivals(1) == [(tag, 50_000) for tag in range(20)]
        flow = a.endpoint.counters()[0]
        assert flow.retransmits
        assert flow.packets == 20 * 49 + flow.retransmits
        a.send(1, [(20, 1)])  # every datagram tells how many were dropped before it
        b.send(0, [(20, 1)])
        await bed.until(lambda: len(a.acknowledgements(1)) + len(b.acknowledgements(0)) == 42)
        drops = [transport.drops["queue"] for transport in bed.transports]
        assert drops == [drops_of(listener.endpoint.address.host) for listener in (a, b)]
        assert any(drops)


def drops_of(host: str) -> int:
    """Datagrams that the kernel dropped before the socket at port 4791 of an address."""
    place = f"{int.from_bytes(socket.inet_aton(host), 'little'):08X}:{4791:04X}"
    for _ in range(20):  # the kernel hands the table out in parts: while sockets come and go, one may be missed
        for line in Path("/proc/net/udp").read_text().splitlines():
            if place in line:
                return int(line.split()[-1])
    pytest.fail(f"no socket at {place}")


@pytest.mark.parametrize("options", [{}, {"payload": "random"}, {"receiver": "ooo"}], ids=str)
async def test_merged_runs_after_a_gap_are_received_as_runs(options: dict[str, object]) -> None:
    """One call in seven is lost on its way out, so that merged runs come early, late and doubled.

    Which ones is drawn: every 7th would meet the same packet again and again where a repetition takes 7 calls.
    """
    async with RoceBed(message_bytes=100_000, **options).ranks() as (bed, a, b):
        a.send(1, [(1, 1)])
        await bed.until(lambda: a.acknowledgements(1) == [1])
        sender = bed.transports[0].context.senders._senders[f"{NET}.0.1"]
        draw = random.Random(7)

        def lossy(send: Callable[..., int]) -> Callable[..., int]:
            def call(*args: object) -> int:
                return 0 if draw.randrange(7) == 0 else send(*args)

            return call

        for one in sender.values():
            one._sendmsg = lossy(one._sendmsg)  # type: ignore[assignment]
            one._sendto = lossy(one._sendto)  # type: ignore[assignment]
        a.send(1, [(tag, 500_000) for tag in range(2, 10)])
        await bed.until(lambda: len(a.acknowledgements(1)) == 9)
        assert b.arrivals(0) == [(1, 1), *((tag, 500_000) for tag in range(2, 10))]
        flow = a.endpoint.counters()[0]
        assert flow.retransmits
        assert flow.naks or "ooo" in options.values()
        assert sent_from(b) == {}
        assert bed.transports[1].drops == {}
        came = join_ends(bed.transports[1]._endpoints[1].counters())[0]
        assert (came.src, came.dst, came.qpn) == (flow.src, flow.dst, flow.qpn)
        assert came.out_of_order
        assert came.largest_displacement


async def test_packets_posted_together_leave_together() -> None:
    """60 full packets to a call, over the end of the PSNs' lower 16 bits; every 8th call is compared in full."""
    async with RoceBed(window_bytes="4M", qp_timeout=22, verify_every=8).ranks() as (bed, a, b):
        one = a.endpoint._make_link(1).channel(1)  # type: ignore[attr-defined]
        other = b.endpoint._make_link(0).channel(1)  # type: ignore[attr-defined]
        one.pair.requester.initial_psn = other.pair.responder.expected = Psn(0x12FFF0)
        calls = 0
        a.send(1, [(5, 1024)])
        await bed.until(lambda: a.acknowledgements(1) == [5])
        (sender,) = bed.transports[0].context.senders._senders[f"{NET}.0.1"].values()
        send = sender._sendmsg

        def counting(*call: Any) -> int:
            nonlocal calls
            calls += 1
            return send(*call)

        sender._sendmsg = counting  # type: ignore[assignment]
        for _ in range(10):
            a.send(1, [(5, 1024)] * 120)
        await bed.until(lambda: len(a.acknowledgements(1)) == 1201)
        assert b.arrivals(0) == [(5, 1024)] * 1201
        flow = a.endpoint.counters()[0]
        assert (flow.packets, flow.retransmits) == (1201, 0)
        assert bed.transports[1].drops == {}
        assert calls == 20


@pytest.mark.parametrize("damage", ["payload", "icrc", "length"])
@pytest.mark.parametrize("payload", ["constant", "random"])
async def test_only_the_damaged_packet_of_a_merged_batch_is_dropped(damage: str, payload: str) -> None:
    async with RoceBed(payload=payload, qp_timeout=22, verify_every=1).ranks() as (bed, a, b):
        a.send(1, [(4, 256)])
        await bed.until(lambda: a.acknowledgements(1) == [4])
        (sender,) = bed.transports[0].context.senders._senders[f"{NET}.0.1"].values()
        send, damaged = sender._sendmsg, []

        def damaging(pieces: Pieces, control: ControlMessages, flags: int, to: SocketAddress) -> int:
            if damaged:
                return send(pieces, control, flags, to)
            damaged.append(pieces)
            stride = 32 + 256 + 4
            data = bytearray(b"".join(pieces))
            at = {"payload": 3 * stride - 20, "icrc": 3 * stride - 1, "length": 2 * stride + 27}[damage]
            data[at] ^= 4
            return send((data,), control, flags, to)

        sender._sendmsg = damaging  # type: ignore[assignment]
        a.send(1, [(5, 256)] * 10)
        await bed.until(lambda: len(a.acknowledgements(1)) == 11)
        assert b.arrivals(0) == [(4, 256)] + [(5, 256)] * 10
        drops = bed.transports[1].drops
        assert sum(drops.values()) == 1, drops
        assert len(damaged) == 1
        assert a.endpoint.counters()[0].retransmits == 8  # it, and what came behind it


async def test_merged_datagrams_shorter_than_a_packet_are_dropped() -> None:
    """Calls cut into pieces shorter than a packet, with the expected headers spread over them, and empty datagrams."""
    async with RoceBed(qp_timeout=22).ranks() as (bed, a, b):
        a.send(1, [(4, 256)])
        await bed.until(lambda: a.acknowledgements(1) == [4])
        peer = bed.transports[0]
        expected = b.endpoint._links[0].channel(1).pair.responder.expected  # type: ignore[attr-defined]
        own = a.endpoint._links[1].channel(1).facts  # type: ignore[attr-defined]
        ahead, header = (
            BTH_RETH_IMM.pack(Opcode.RC_WRITE_ONLY_IMM, 0, 0xFFFF, own.peer_qpn, 1 << 31 | psn, 4, own.rkey, 4, 1)
            for psn in (expected + 5, expected)
        )
        (sender,) = peer.context.senders._senders[f"{NET}.0.1"].values()
        for stride in (1, 3, 15, 20, 35):
            for data in (ahead + bytes(3 * stride), header + bytes(3 * stride)):
                sender._socket.sendmsg((data,), cut_message(stride), 0, (f"{NET}.0.2", 4791))
        sender._socket.sendto(header + bytes(4), (f"{NET}.0.2", 4791))
        for size in range(4):
            sender._socket.sendto(header[:size], (f"{NET}.0.2", 4791))
        a.send(1, [(5, 256)] * 10)
        await bed.until(lambda: len(a.acknowledgements(1)) == 11)
        assert b.arrivals(0) == [(4, 256)] + [(5, 256)] * 10
        assert a.endpoint.counters()[0].retransmits == 0
        assert bed.transports[1].drops["length"]


async def test_a_packet_of_another_transport_version_is_dropped_in_spite_of_a_correct_icrc() -> None:
    async with RoceBed().ranks() as (bed, a, b):
        a.send(1, [(1, 3000)])
        await bed.until(lambda: a.acknowledgements(1) == [1])
        channel = a.endpoint._links[1]._channels[1]  # type: ignore[attr-defined]
        framing, sender = channel._transmitter._paths[0]
        send, header_bytes, altered = sender._sendto, BTH_WORD.size, 0

        def call(data: bytes, to: tuple[str, int]) -> int:
            nonlocal altered
            if data[0] == Opcode.RC_WRITE_LAST_IMM and not altered:
                altered += 1
                header = data[:1] + bytes([data[1] | 1]) + data[2:header_bytes]
                icrc = ICRC.pack(framing.icrc(header, len(data) - header_bytes - 4))
                data = header + data[header_bytes:-4] + icrc
            return send(data, to)

        sender._sendto = call
        a.send(1, [(2, 3000)])
        await bed.until(lambda: a.acknowledgements(1) == [1, 2])
        assert altered == 1
        assert bed.transports[1].drops == {"header": 1}
        assert b.arrivals(0) == [(1, 3000), (2, 3000)]


async def test_a_congestion_mark_causes_a_notification_that_slows_the_sender(monkeypatch: pytest.MonkeyPatch) -> None:
    rates: list[tuple[float, float]] = []

    class Watched:
        """A CongestionControl around a reaction point."""

        def __init__(self, *arguments: Any, **named: Any) -> None:
            self._point = ReactionPoint(*arguments, **named)
            self.rate_bps, self.sent = self._point.rate_bps, self._point.sent

        def notified(self, now: int) -> None:
            before = self.rate_bps(now)
            self._point.notified(now)
            rates.append((before, self.rate_bps(now)))

    monkeypatch.setattr("emulator.roce.options.ReactionPoint", Watched)
    async with RoceBed(congestion="dcqcn", qp_timeout=22).ranks() as (bed, a, _):
        channel_class = 3 | 26 << 2  # every packet leaves as though a switch had marked it
        bed.transports[0].context.senders._traffic_class = channel_class
        a.send(1, [(1, 200_000)])
        await bed.until(lambda: a.acknowledgements(1) == [1])
        a.send(1, [(2, 1)])
        await bed.until(lambda: a.acknowledgements(1) == [1, 2])
        (theirs,) = (one for one in bed.transports[1]._endpoints[1].counters() if one.src == 0)
        await bed.until(lambda: a.endpoint.counters()[0].cnps_received == theirs.cnps_sent)
        (flow,) = join_ends([*a.endpoint.counters(), theirs])
        assert flow.ecn_marks == flow.packets
        assert len(rates) == flow.cnps_received > 0
        assert rates[0] == (100e9, 10e9)
        assert all(after <= before for before, after in rates)


async def test_facts_report_granted_buffers_and_drops() -> None:
    async with RoceBed(verify_every=8, window_bytes="64K").ranks() as (bed, a, b):
        a.send(1, [(tag, 100_000) for tag in range(5)])
        await bed.until(lambda: len(a.acknowledgements(1)) == 5)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            stranger.bind((f"{NET}.0.9", 0))
            stranger.sendto(b"x" * 60, (f"{NET}.0.2", 4791))
        await bed.until(lambda: bed.transports[1].drops["stranger"] == 1)
        facts = bed.transports[1].facts()
        assert facts["receive_buffer_asked"] == Parameter(RECEIVE_BUFFER_BYTES, "bytes")
        granted = b.endpoint.nic._socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)  # type: ignore[attr-defined]
        assert facts["receive_buffer_granted"] == Parameter(granted // 2, "bytes")
        assert facts["window"] == Parameter(64 << 10, "bytes")
        assert facts["verified_share"].value == 1 / 8
        assert facts["dropped.stranger"] == Parameter(1, "packets")
        assert facts["sending"].value == "UDP_SEGMENT"


@pytest.mark.parametrize(("call_bytes", "packets"), [(1, 1), (5_000, 1), (16 << 10, 3)])
@pytest.mark.parametrize("agents", [1, 2])
def test_calls_can_be_short(call_bytes: int, packets: int, *, agents: int) -> None:
    transfers = [(tag, (2 << 20) + tag) for tag in range(3)]

    async def scenario(bed: RoceBed) -> None:
        a, b = await bed.connected(2)
        a.send(1, transfers)
        await bed.until(lambda: len(a.acknowledgements(1)) == 3)
        assert b.arrivals(0) == transfers
        assert not any(row.retransmits for row in a.endpoint.counters())
        assert bed.transports[0].context.payload.per_call == packets

    for payload in ("constant", "random"):
        run(scenario, agents=agents, call_bytes=call_bytes, path_mtu=4096, payload=payload, qp_timeout=22)


@pytest.mark.parametrize(
    ("before", "says"),
    [
        (0, r"packets of path MTU 1024 do not fit the route to 127\S+ \(MTU \d+\): choose a smaller --path-mtu"),
        (1, r"packets to 127\S+ fitted and no longer do, as the MTU of the route there is \d+ now: .*"),
    ],
)
async def test_a_packet_that_the_route_cannot_carry_is_a_failure_that_says_so(
    before: int, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EMSGSIZE, "Message too long")

    async with RoceBed().ranks() as (bed, a, _):
        a.send(1, [(6, 100)] * before)
        await bed.until(lambda: len(a.acknowledgements(1)) == before)
        for call in ("send", "send_cut", "send_whole"):
            monkeypatch.setattr(Sender, call, refuse)
        a.send(1, [(7, 10 << 10)])
        await bed.until(lambda: a.failures(1) == 1)
        assert [re.fullmatch(says, reason) is not None for reason in a.reasons] == [True], a.reasons


async def test_a_failure_of_a_rank_that_has_closed_is_not_reported() -> None:
    async with RoceBed().ranks() as (bed, a, _):
        a.send(1, [(1, 1)])
        await bed.until(lambda: a.acknowledgements(1) == [1])
        a.endpoint._links[1].broke("it is gone")  # type: ignore[attr-defined]
        a.endpoint.close()
        await bed.quiesce()
        assert a.failures(1) == 0


async def test_a_flow_rate_spreads_a_transfer_over_time() -> None:
    async with RoceBed(flow_rate_bps="10Mbit", qp_timeout=22).ranks() as (bed, a, _):
        a.send(1, [(6, 1)])
        await bed.until(lambda: a.acknowledgements(1) == [6])
        begun_ns = time.monotonic_ns()
        a.send(1, [(7, 100_000)])
        await bed.until(lambda: a.acknowledgements(1) == [6, 7])
        assert time.monotonic_ns() - begun_ns > 0.8 * 100_000 * 8 * 100  # ns a bit


async def test_an_address_of_another_host_is_refused_by_name() -> None:
    async with RoceBed() as bed:
        with pytest.raises(HostError, match=r"192\.0\.2\.1 is not an address of this host"):
            await bed.transports[0].open(0, "192.0.2.1")


async def test_a_port_in_use_is_refused_by_name() -> None:
    async with RoceBed() as bed:
        await bed.open(0)
        with pytest.raises(HostError, match=r"4791 .* is in use"):
            await bed.transports[1].open(1, f"{NET}.0.1")


def waiting_bytes(sock: socket.socket) -> int:
    """Memory of the unread datagrams of a socket."""
    so_meminfo, words = 55, 9  # asm-generic/socket.h
    return int.from_bytes(sock.getsockopt(socket.SOL_SOCKET, so_meminfo, 4 * words)[:4], sys.byteorder)


@pytest.mark.parametrize(("agents", "least", "most"), [(1, 256 << 10, 2 << 20), (2, 4 << 20, 1 << 30)])
async def test_ranks_of_one_agent_read_before_many_packets_wait(
    agents: int, least: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Data that waits in a socket leaves the cache of the core; between agents, the window limits it."""
    if os.geteuid() != 0:
        pytest.skip("needs root: only its receive buffers hold a window")
    depths, sockets = [], dict[str, socket.socket]()
    send_cut = Sender.send_cut

    def noting(self: Sender, batch: SendBatch, slot: int, count: int, to: SocketAddress) -> None:
        send_cut(self, batch, slot, count, to)
        depths.append(waiting_bytes(sockets[to[0]]))

    monkeypatch.setattr(Sender, "send_cut", noting)
    transfers = [(tag, (20 << 20) + tag) for tag in range(3)]
    async with RoceBed(
        agents=agents, message_bytes=4 << 20, path_mtu=4096, window_bytes=8 << 20, qp_timeout=22
    ).ranks() as (bed, *ranks):
        for rank in ranks:
            sockets[rank.endpoint.address.host] = cast(Any, rank.endpoint).nic._socket
        for rank in ranks:
            rank.send(1 - rank.endpoint.rank, transfers)
        await bed.until(lambda: all(len(rank.acknowledgements(1 - rank.endpoint.rank)) == 3 for rank in ranks))
        assert all(rank.arrivals(1 - rank.endpoint.rank) == transfers for rank in ranks)
        assert not any(row.retransmits for rank in ranks for row in rank.endpoint.counters())
    assert least < max(depths) < most


async def test_in_traffic_only_ranks_without_unread_data_are_timed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ranks wait for an overdue acknowledgement; the socket of one of them has unread data."""
    async with RoceBed(agents=2, qp_timeout=11) as bed:
        a, b, c = await bed.listeners(3)
        transport, deaf = bed.transports
        for rank in (a, c):  # b never reads
            rank.connect(directory([a, b, c]))
            rank.send(1, [(1, 1000)])
        channels = {
            int(channel.host.rpartition(".")[2]) - 1: channel.pair.requester
            for channel in transport.passes.agenda.active
            if isinstance(channel, Channel)
        }
        assert set(channels) == {0, 2}
        assert not deaf.passes.agenda.active
        unread = [fd for fd, nic in transport.passes._nics.items() if nic.host == bed.host(0)]
        sent = {rank: requester.sent_packets for rank, requester in channels.items()}
        time.sleep(0.02)  # noqa: ASYNC251 the timeout is 8 ms, and the loop must not run
        transport.passes._suspected_ns = 1
        transport.passes._time_out(unread=unread)
        assert {rank: requester.sent_packets - sent[rank] for rank, requester in channels.items()} == {0: 0, 2: 1}
        monkeypatch.setattr("agents.nic.passes.LONGEST_DOUBT_NS", 0)
        transport.passes._suspected_ns = 1
        transport.passes._time_out(unread=unread)
        assert channels[0].sent_packets - sent[0] == 1, "an answer that is never read is none"
