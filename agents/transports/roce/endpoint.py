"""One rank's place on the network: a socket that listens, a link to every peer it has to do with."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from agents.transports.base import Address, EndpointEvents, FlowCounters
from agents.transports.roce.channel import Channel
from agents.transports.roce.ends import FIRST_QPN
from agents.transports.roce.link import Link, window_bytes
from agents.transports.roce.port import PortPacer
from agents.transports.roce.receptions import CONTROL_BYTES, LARGEST_BYTES, Expected, Receptions
from agents.transports.roce.sockets import IPV6_TCLASS, SO_RXQ_OVFL, Listener
from agents.transports.roce.system_calls import UDP_GRO, ControlMessages, SocketAddress
from emulator.errors import LocalProtocolError
from emulator.roce.constants import LEAST_WINDOW_PACKETS, UDP_PORT
from emulator.roce.headers import P_KEYS
from emulator.roce.opcodes import Opcode
from emulator.roce.psn import wrap
from emulator.roce.runs import BTH, FIRST, P_KEY
from emulator.roce.single import ACK_BYTES, WRITE

if TYPE_CHECKING:
    from agents.transports.roce.transport import RoceTransport

RECEPTIONS_PER_TURN = 16
"""Receptions after which the next socket has its turn; those that come together are all taken."""

_DRAIN_BYTES = 16 << 10  # after a reception as large as this, more is likely to wait at the same socket
_INT = struct.Struct("=i")
_P_KEY = struct.pack(">H", P_KEY)
_LEAST_TRAIN_BYTES = WRITE.size + 4  # headers and ICRC
_QPN = struct.Struct(">I")
_CE = 3
_WRITE_ONLY_IMM, _ACK = int(Opcode.RC_WRITE_ONLY_IMM), int(Opcode.RC_ACK)  # looking them up costs as much as a call


class RoceEndpoint:
    """One rank's place on the network; made by `RoceTransport.open`."""

    def __init__(
        self,
        transport: RoceTransport,
        rank: int,
        listener: Listener,
        *,
        line_rate_bps: int = 0,
        port: PortPacer | None = None,
    ) -> None:
        self.rank, self.address, self.port = rank, Address(listener.host, UDP_PORT), port
        self.make_congestion = transport.options.congestion_maker(line_rate_bps)
        self.cnp_gap_ns = transport.options.cnp_gap_ns(line_rate_bps)
        self.buffer_bytes, self.is_merging = listener.buffer_bytes, listener.is_merging
        self.queue_drops = 0
        self.is_closed = False
        self._transport, self._shared = transport, transport.shared
        self._socket = listener.socket
        self._fd = self._socket.fileno()
        self._recvmsg_into = self._socket.recvmsg_into
        self._buffers = (self._shared.buffer[:LARGEST_BYTES],)
        self._plain: ControlMessages = []
        self._merged: ControlMessages = [(0, 0, b"")]
        self._train: ControlMessages = [(0, 0, b"")]
        self._train_stride = 1
        self._stride = self._shared.staging.stride
        self._per_call = self._shared.payload.per_call
        self._call_bytes = self._per_call * self._stride
        self._bulk_calls = 0  # so many full calls are taken together; 0: none came last
        self._bulk_sender: SocketAddress = ("", 0)  # they come from there, to that queue pair, and look like that
        self._bulk_channel: Channel
        self._bulk_expected: Expected
        self._receptions = self._shared.receptions(is_v6=listener.is_v6)
        self._directory: dict[int, Address] | None = None
        self.events: EndpointEvents
        self._links: dict[int, Link] = {}
        self._dirty: list[Link] = []
        self._holding: list[Channel] = []
        self._is_taking = False
        self._channels: dict[int, Channel] = {}

    def connect(self, directory: Mapping[int, Address], events: EndpointEvents) -> None:
        """Learn where the other ranks listen and who wants to hear; must come before the first post."""
        if self._directory is not None:
            raise LocalProtocolError(f"rank {self.rank} is connected already")
        self._directory, self.events = dict(directory), events
        if not self.is_closed:
            self._transport.listen(self, self._fd)

    def post(self, peer: int, tag: int, size: int) -> None:
        """Queue a transfer of `size` bytes to rank `peer`; dropped once closed or failed.

        Raises:
            LocalProtocolError: `peer` is not in the directory.
        """
        if self.is_closed:
            return
        link = self._links.get(peer) or self._make_link(peer)
        if link.is_broken:
            return
        if link.post(tag, size, self._holding) and not link.is_dirty:
            link.is_dirty = True
            self._dirty.append(link)

    def flush(self) -> None:
        """End of a batch: hand everything posted to the network.

        While what has come is taken, packets that travel alone wait for the end of that, where nothing larger goes
        before them: more may join them.
        """
        if self._holding and (self._dirty or not self._is_taking):
            self._let_go()
        if not self._dirty:
            return
        dirty, self._dirty = self._dirty, []
        now = time.monotonic_ns()
        for link in dirty:
            link.is_dirty = False
            link.send(now)
        self._transport.watch()

    def _let_go(self) -> None:
        holding, self._holding = self._holding, []
        for channel in holding:
            channel.let_go()
        self._transport.watch()

    @property
    def peers(self) -> int:
        """How many other ranks there are."""
        return len(self._directory) - 1 if self._directory is not None else 0

    @property
    def window_bytes(self) -> int:
        """Payload that a queue pair of this endpoint may have on its way."""
        options = self._transport.options
        asked = options.window_bytes or window_bytes(self.buffer_bytes, peers=self.peers)
        return max(LEAST_WINDOW_PACKETS, asked // options.path_mtu) * options.path_mtu

    @property
    def acknowledged_bytes(self) -> int:
        """Payload that its receivers have, as far as they have said so."""
        return sum(link.acknowledged_bytes for link in self._links.values())

    def counters(self) -> Sequence[FlowCounters]:
        """Queue pair by queue pair, what this endpoint has sent and what has come to it: see `join_ends`."""
        return [row for link in self._links.values() for row in link.counters()]

    def close(self) -> None:
        """Stop at once, dropping what is queued; idempotent."""
        if self.is_closed:
            return
        self.is_closed = True
        for link in self._links.values():
            link.close()
        self._transport.forget(self, self._fd)
        self._socket.close()

    def report_failure(self, peer: int, reason: str) -> None:
        """For the transport: tell the player."""
        if not self.is_closed:
            self.events.failed(peer, reason)

    def fail(self, peer: int, reason: str) -> None:
        """For a link: give up on the peer."""
        self._transport.call_soon(self, peer, reason)

    def _make_link(self, peer: int) -> Link:
        if self._directory is None or peer not in self._directory:
            raise LocalProtocolError(f"rank {self.rank} posted to rank {peer}, which is not in its directory")
        link = self._links[peer] = Link(self, self._transport, peer, self._directory[peer].host)
        return link

    # Receiving.

    def catch_up(self) -> None:
        """See Neighbour. Who is not connected yet leaves what comes in its socket."""
        if self._directory is not None and not self.is_closed:
            self.drain()

    def drain(self) -> None:
        """Take what has come, a bounded number of calls and of packets that travel alone."""
        self._is_taking = True
        left = RECEPTIONS_PER_TURN
        try:
            while self._bulk_calls and left > 0 and not self.is_closed:
                left -= self._take_calls()
            if left > 0 and not self.is_closed:
                self._drain(left)
        finally:
            self._is_taking = False
        if self._holding and not self.is_closed:
            self._let_go()

    def _drain(self, left: int) -> None:
        receive, buffers, anc = self._recvmsg_into, self._buffers, CONTROL_BYTES
        singles = self._transport.singles_per_turn
        while left > 0 and singles > 0:
            if self._bulk_calls:
                left -= self._take_calls()
                if self.is_closed:
                    return
                continue
            left -= 1
            try:
                size, control, _, address = receive(buffers, anc)
            except BlockingIOError:
                return
            except OSError:  # an ICMP error that the kernel passes on: it says nothing that time does not
                continue
            if control == self._plain:
                singles -= 1
                if not self._take_single(size, address):
                    self._take(size, (), address)
            elif size == self._call_bytes and control == self._merged:
                self._take_full(size, address)
            elif control == self._train and self._take_train(size, self._train_stride, address):
                singles -= size // self._train_stride
            else:
                if control != self._merged or not self._take_run(size, address):
                    self._take(size, control, address)
                if size < _DRAIN_BYTES:
                    return
            if self.is_closed:
                return

    def _take_train(self, size: int, stride: int, address: SocketAddress) -> bool:
        """Take merged packets of the kind that travel alone, the last perhaps shorter; False: they are not of the kind.

        Those that something is special about are taken one by one.
        """
        buffer, now, first = self._shared.buffer, time.monotonic_ns(), _QPN.unpack_from(self._shared.buffer, 4)[0]
        channel = self._channels.get(first)  # none has a number with FECN or BECN in it
        if buffer[0] != _WRITE_ONLY_IMM or channel is None or channel.ends.peer_host != address[0]:
            return False
        count, rest = divmod(size, stride)
        is_whole = not rest and buffer[2:4] == _P_KEY and not channel.is_dead
        if is_whole and channel.take_train(stride, count, address[1], now):
            return True
        for place, start in enumerate(range(0, size, stride)):
            length = min(stride, size - start)
            opcode, flags, p_key, number, word, tag, rkey, payload, imm = WRITE.unpack_from(buffer, start)
            is_usual = opcode == _WRITE_ONLY_IMM and p_key == P_KEY and number == first and not channel.is_dead
            if not is_usual or not channel.take_single_write(
                length, address[1], flags, word, tag, rkey, payload, imm, now, start, place
            ):
                buffer[:length] = buffer[start : start + length]  # what stood there has been taken
                self._take(length, (), address)
            if self.is_closed:
                break
        return True

    def _take_full(self, size: int, address: SocketAddress) -> None:
        """Take a full call of merged packets; more of them most probably wait behind it."""
        self._expect_more(address)
        if not self._take_run(size, address):
            self._take(size, self._merged, address)

    def _expect_more(self, address: SocketAddress) -> None:
        """Several calls like the one in the buffer are taken together from now on."""
        channel = self._channels.get(_QPN.unpack_from(self._shared.buffer, 4)[0])
        if channel is None or channel.calls_at_once == 1 or channel.ends.peer_host != address[0]:
            return
        self._bulk_calls, self._bulk_channel, self._bulk_sender = channel.calls_at_once, channel, address
        self._bulk_expected = self._receptions.expected(address, self._merged)

    def _take_calls(self) -> int:
        """Take full calls of merged packets that wait one behind the other, together, and what waits among them.

        Returns:
            How many receptions that were; RECEPTIONS_PER_TURN where the socket is empty.
        """
        receptions, most = self._receptions, self._bulk_calls
        count = receptions.take(self._fd, most)
        if not count:
            return RECEPTIONS_PER_TURN
        size = receptions.all_alike(count, self._bulk_expected)
        if not size:
            self._take_others(receptions, count)
        elif not self._bulk_channel.take_usual(size // self._stride):
            self._take_together(size)
        return count if count == most else RECEPTIONS_PER_TURN

    def _take_together(self, size: int) -> None:
        """Take merged receptions that stand on end, all but the last one full."""
        if not self._take_run(size, self._bulk_sender):
            self._take_each(size, self._call_bytes, self._bulk_sender)

    def _take_others(self, receptions: Receptions, count: int) -> None:
        """Take receptions of any kind; where none is as expected, the next will come alone."""
        if receptions.is_any_beyond(count):
            every = range(count)
            wholes = [(receptions.content(one), receptions.control(one), receptions.sender(one)) for one in every]
            for content, control, sender in wholes:
                self._shared.buffer[: len(content)] = content
                self._take_other(len(content), control, sender)
            self._bulk_calls = 0
            return
        index = expected = 0
        while index < count:
            alike, size = receptions.alike(index, count, self._bulk_expected)
            expected += alike
            if not alike:
                size = receptions.size(index)
                receptions.move(index, size)
                self._take_other(size, receptions.control(index), receptions.sender(index))
                index += 1
            elif not self._bulk_channel.take_usual(size // self._stride, index * self._per_call):
                receptions.move(index, size)
                self._take_together(size)
            index += alike
        if not expected:
            self._bulk_calls = 0

    def _take_each(self, end: int, size: int, address: SocketAddress) -> None:
        """Take merged receptions of `size` bytes, the last one perhaps of fewer, one by one."""
        buffer = self._shared.buffer
        for start in range(0, end, size):
            count = min(size, end - start)
            buffer[:count] = buffer[start : start + count]
            self._take_other(count, self._merged, address)

    def _take_other(self, size: int, control: ControlMessages, address: SocketAddress) -> None:
        if self.is_closed:
            return
        is_taken = False
        if control == self._plain:
            is_taken = self._take_single(size, address)
        elif control == self._merged:
            if self._bulk_calls and size == self._call_bytes:
                self._expect_more(address)
            is_taken = self._take_run(size, address)
        if not is_taken:
            self._take(size, control, address)

    def _take_single(self, size: int, address: SocketAddress) -> bool:
        """Take a packet of the two kinds that are many and travel alone, if nothing is special about it."""
        shared = self._shared
        opcode, flags, p_key, number, word, tag, rkey, length, imm = WRITE.unpack_from(shared.buffer)
        channel = self._channels.get(number)  # none has a number with FECN or BECN in it
        if channel is None or p_key != P_KEY or channel.is_dead or channel.ends.peer_host != address[0]:
            return False
        if size < ACK_BYTES:  # what was read are headers of the packet before
            return False
        if opcode == _WRITE_ONLY_IMM:
            now = time.monotonic_ns()
            return channel.take_single_write(size, address[1], flags, word, tag, rkey, length, imm, now)
        if opcode != _ACK:
            return self._take_edge(channel, size, address[1])
        if size != ACK_BYTES or flags:
            return False
        return channel.take_ack(address[1], wrap(word), tag >> 32, time.monotonic_ns())

    def _take_edge(self, channel: Channel, size: int, port: int) -> bool:
        """Take a FIRST or LAST packet that comes alone, if nothing is special about it."""
        opcode, flags, _, _, word, tag, rkey, length = FIRST.unpack_from(self._shared.buffer)
        now = time.monotonic_ns()
        if opcode == Opcode.RC_WRITE_FIRST:
            return not flags and channel.take_first(size, port, word=word, tag=tag, rkey=rkey, length=length, now=now)
        if opcode == Opcode.RC_WRITE_LAST_IMM:
            return channel.take_last(size, port, flags=flags, word=word, imm=tag >> 32, now=now)
        if opcode == Opcode.RC_WRITE_LAST:
            return channel.take_last(size, port, flags=flags, word=word, imm=None, now=now)
        return False

    def _take_run(self, size: int, address: SocketAddress) -> bool:
        """Take merged packets of full size, if they are the MIDDLE packets that are due."""
        count, rest = divmod(size, self._stride)
        (word,) = _QPN.unpack_from(self._shared.buffer, 4)
        channel = self._channels.get(word)  # none has a number with FECN or BECN in it
        if rest or channel is None or channel.is_dead or channel.ends.peer_host != address[0]:
            return False
        return channel.take_run(self._stride, count, address[1], time.monotonic_ns())

    def _take(self, size: int, control: ControlMessages, address: SocketAddress) -> None:
        """Take what something is special about: a packet, or several of one size, the last perhaps shorter."""
        stride, is_marked = self._read_control(control, size)
        if stride < 16:
            self._shared.drops["length"] += -(-size // stride) if stride else 1
            return
        bth = BTH.unpack_from(self._shared.buffer)
        number = bth[3] & 0xFFFFFF
        channel = self._channels.get(number) or self._meet(number, address[0])
        if channel is not None and (channel.is_dead or channel.ends.peer_host != address[0]):
            channel = None
        if channel is None or bth[1] & 0xF or bth[2] not in P_KEYS:
            if stride < size:  # the others need not be like the first
                self._take_apart(size, stride, address)
            elif channel is None:
                self._shared.drops["stranger"] += 1
            else:
                channel.drop("header")
            return
        now, dropped = time.monotonic_ns(), channel.dropped if is_marked else 0
        if control and not is_marked:
            self._remember(control, size, stride)
        if stride < size:
            self._take_merged(channel, size, stride, address[1], now)
        else:
            channel.closer_look.take_lone(size, address[1], bth, now)
        if is_marked:
            channel.marked(-(-size // stride) - (channel.dropped - dropped), now)

    def _take_apart(self, size: int, stride: int, address: SocketAddress) -> None:
        """Take merged packets one by one."""
        buffer = self._shared.buffer
        for datagram in [bytes(buffer[start : min(start + stride, size)]) for start in range(0, size, stride)]:
            buffer[: len(datagram)] = datagram
            self._take(len(datagram), (), address)

    def _take_merged(self, channel: Channel, size: int, stride: int, port: int, now: int) -> None:
        if self._take_train(size, stride, (channel.ends.peer_host, port)):
            return
        count, rest = divmod(size, stride)
        tail = bytes(self._shared.buffer[count * stride : size]) if rest else b""
        if not channel.take_run(stride, count, port, now):
            for datagram in channel.closer_look.take_many(stride, count, port, now):
                self._shared.buffer[:stride] = datagram
                self._take(stride, (), (channel.ends.peer_host, port))
        if rest:
            self._shared.buffer[:rest] = tail
            self._take(rest, (), (channel.ends.peer_host, port))

    def _read_control(self, control: ControlMessages, size: int) -> tuple[int, bool]:
        """What the kernel says beside the bytes: the size of each datagram in the buffer, whether they are marked."""
        stride, is_marked = size, False
        for level, kind, data in control:
            if level == socket.IPPROTO_UDP and kind == UDP_GRO:
                (stride,) = _INT.unpack(data[:4])
            elif (level == socket.IPPROTO_IP and kind == socket.IP_TOS) or (
                level == socket.IPPROTO_IPV6 and kind == IPV6_TCLASS
            ):
                is_marked = data[0] & 3 == _CE
            elif level == socket.SOL_SOCKET and kind == SO_RXQ_OVFL:
                (self.queue_drops,) = _INT.unpack(data[:4])
        return stride or size, is_marked

    def _remember(self, control: ControlMessages, size: int, stride: int) -> None:
        """Most probably the next ones of the kind come with the same."""
        if stride == size:
            self._plain = control
        elif stride == self._stride:
            if control != self._merged:
                self._bulk_calls = 0  # what is expected of several is not true any more
            self._merged = control
        elif stride >= _LEAST_TRAIN_BYTES:
            self._train, self._train_stride = control, stride

    def _meet(self, number: int, host: str) -> Channel | None:
        """The queue pair of that number, made when its peer is the first to speak."""
        peer, index = divmod(number - FIRST_QPN, self._transport.options.qps + 1)
        if self._directory is None or peer not in self._directory or self._directory[peer].host != host:
            return None
        link = self._links.get(peer) or self._make_link(peer)
        return link.channel(index)

    def attach(self, channel: Channel) -> None:
        """For a link: packets to this queue pair are the channel's."""
        self._channels[channel.ends.own_qpn] = channel
