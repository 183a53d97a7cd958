"""A software NIC: the listening socket of an address, and the queue pairs behind it.

Every reception passes `_receive`: to the queue pair that its first packet names, or to the counter of strangers. Queue
pairs are given their facts; a NIC knows nothing of ranks.

A NIC on its own, without a transport, is for peers whose queue pairs are agreed in another way.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Protocol, TypeAlias

from agents.nic.channel import Channel, LocalPeer, PacketReceiver, QueuePairOwner
from agents.nic.context import Context, make_context
from agents.nic.passes import Passes
from agents.nic.port import LEAST_NOTED_BYTES, PortPacer
from agents.nic.reader import SocketReader
from agents.nic.sockets import Listener, Senders
from agents.nic.stamps import HeldFrames, Stamps, stamp_ns
from agents.nic.system_calls import SocketAddress
from agents.nic.transmitter import Transmitter
from agents.nic.trimmed import TrimmedFrames
from emulator.host.clock import TimerfdClock
from emulator.roce.connection.foreign_receiver import ForeignReceiver, Sink
from emulator.roce.connection.qp_facts import QpFacts, packed
from emulator.roce.connection.queue_pair import QueuePair
from emulator.roce.connection.receiver import SHORTEST_PACKET_BYTES
from emulator.roce.options import RoceOptions
from emulator.roce.tuning import DRAIN_BYTES, RECEPTIONS_PER_TURN

ChannelMaker: TypeAlias = Callable[[int, str], bool]
"""Creates the queue pair with a number for the first packet from an address; False: a stranger."""


class DatagramReceiver(Protocol):
    """Takes unreliable datagrams."""

    def receive(self, packet: memoryview, sender: SocketAddress) -> bool:
        """Take a packet; False if it is not for it."""
        ...


_unpack_qpn: Final = struct.Struct(">I").unpack_from


class SoftwareNic:
    """The NIC of one address.

    Args:
        listener: its socket.
        context, passes: of the process.
        make: called for numbers that no queue pair has yet.
        port: paces what it sends; None: no pacing.

    Attributes:
        ready: queue pairs with single packets that leave at the end of the batch.
        is_draining: whether receptions are being handled.
        gsi: takes packets that no queue pair takes, if they are management datagrams.
        stamp: when the kernel received what is being handled, see `stamps`; empty: not known.
    """

    def __init__(
        self,
        listener: Listener,
        context: Context,
        passes: Passes,
        *,
        make: ChannelMaker = lambda number, host: False,
        port: PortPacer | None = None,
    ) -> None:
        self.host, self.port = listener.host, port
        self.buffer_bytes, self.is_merging = listener.buffer_bytes, listener.is_merging
        self.context, self.passes, self._make = context, passes, make
        self._socket = listener.socket
        self._reader = SocketReader(
            listener.socket,
            context.buffer,
            context.receive_batch(is_v6=listener.is_v6, has_stamps=listener.has_stamps),
        )
        self.stamp, self._stamps = b"", Stamps()
        self._latest, self._earlier = b"", b""  # stamps of what came last, and of what came before it on the same flow
        self._sender: SocketAddress | None = None
        self._is_held, self._held = False, HeldFrames(listener.hold_ns)
        payload = context.payload
        self._packet_bytes, self._call_bytes = payload.packet_bytes, payload.per_call * payload.packet_bytes
        self._channels: dict[int, Channel] = {}
        self.gsi: DatagramReceiver | None = None
        self._trimmed: TrimmedFrames | None = None
        self.ready: list[Channel] = []
        self.is_draining = self.is_closed = self._is_started = False

    def start(self) -> None:
        """Begin to receive; until then, packets stay in the socket."""
        if not self.is_closed:
            self._is_started = True
            self.passes.listen(self, self._socket.fileno())

    def watch_trimmed(self) -> bool:
        """Also receive frames that a switch has cut short without saying so; False: the process may not."""
        try:
            self._trimmed = TrimmedFrames(self.host, lambda packet, sender: self._receive(packet, len(packet), sender))
        except PermissionError:
            return False
        self.passes.listen(self._trimmed, self._trimmed.fileno())
        return True

    def create(
        self,
        facts: QpFacts,
        pair: QueuePair,
        owner: QueuePairOwner,
        *,
        index: int = 0,
        is_control: bool = False,
        local_peer: LocalPeer | None = None,
        receiver: PacketReceiver | None = None,
        transmitter: Transmitter | None = None,
        context: Context | None = None,
        kind: type[Channel] = Channel,
    ) -> Channel:
        """Create a queue pair.

        Args:
            facts, pair, owner, index, is_control, receiver, transmitter: see Channel.
            local_peer: the peer's NIC, if it is in this process: traffic to a NIC at the same port does not cross it.
            context: for another path MTU than that of the NIC; None: its own.
            kind: Channel, or one with two paths.
        """
        channel = self._channels[facts.qpn] = kind(
            context or self.context,
            self.passes.agenda,
            owner,
            facts,
            pair,
            index=index,
            is_control=is_control,
            port=self.port if self.crosses(local_peer) else None,
            local_peer=local_peer,
            receiver=receiver,
            transmitter=transmitter,
        )
        return channel

    def create_foreign(
        self,
        facts: QpFacts,
        pair: QueuePair,
        owner: QueuePairOwner,
        *,
        index: int = 0,
        sink: Sink | None = None,
        refused: Sink | None = None,
        context: Context | None = None,
    ) -> Channel:
        """Create a queue pair to a peer whose payload is not known; arguments as for `create` and ForeignReceiver."""
        receiver = ForeignReceiver(
            pair,
            source=packed(facts.peer_host),
            destination=packed(facts.host),
            qpn=facts.qpn,
            sink=sink,
            refused=refused,
        )
        return self.create(facts, pair, owner, index=index, receiver=receiver, context=context)

    def crosses(self, local_peer: LocalPeer | None) -> bool:
        """Whether traffic to a peer crosses the port; what the user or the machine's owner asked for is for all."""
        is_for_all = self.context.options.rate_cap_bps > 0 or (self.port is not None and self.port.limit is not None)
        return is_for_all or local_peer is None or local_peer.port is not self.port

    @property
    def queue_drops(self) -> int:
        """Receptions that the kernel dropped before the socket."""
        return self._reader.queue_drops

    @property
    def stamp_ns(self) -> int:
        """When the kernel received what is being handled, on CLOCK_MONOTONIC; 0: not known."""
        return self._stamps.monotonic(stamp_ns(self.stamp)) if self.stamp else 0

    @property
    def received_ns(self) -> int:
        """When the last frame of what is being handled came, whenever the kernel passed it on; 0: not known."""
        if not self.stamp:
            return 0
        at_ns = self._stamps.monotonic(stamp_ns(self.stamp))
        if not self._is_held or not self._held.hold_ns:
            return at_ns
        return self._held.came(at_ns, self._stamps.monotonic(stamp_ns(self._earlier)) if self._earlier else 0)

    @property
    def clock_steps(self) -> int:
        """How often CLOCK_REALTIME was set, see Stamps."""
        return self._stamps.steps

    def send_ready(self) -> None:
        """Send the single packets that are ready."""
        ready, self.ready = self.ready, []
        for channel in ready:
            channel.send_ready()
        self.passes.watch()

    def close(self) -> None:
        """Stop at once; idempotent."""
        if self.is_closed:
            return
        self.is_closed = True
        for channel in self._channels.values():
            channel.close()
        self.passes.forget(self._socket.fileno())
        if self._trimmed is not None:
            self.passes.forget(self._trimmed.fileno())
            self._trimmed.close()
        self.context.senders.close(self.host)
        self._socket.close()

    # Receiving.

    def catch_up(self) -> None:
        """See LocalPeer."""
        if self._is_started and not self.is_closed:
            self.drain()

    def drain(self) -> None:
        """Receive what waits in the socket, up to a bound on receptions and on small packets."""
        reader, left, singles = self._reader, RECEPTIONS_PER_TURN, self.passes.singles_per_turn
        may_hold = self._held.hold_ns > 0
        self.is_draining = True
        try:
            while left > 0 and singles > 0 and not self.is_closed:
                receptions = reader.read()
                if receptions is None:
                    break
                left = 0 if reader.is_drained else left - (len(receptions) or 1)
                for packets, stride, sender, is_marked, self.stamp in receptions:
                    size = len(packets)
                    if may_hold:
                        self._earlier = self._latest if sender == self._sender else b""
                        self._latest, self._sender, self._is_held = self.stamp, sender, stride > 0 and not size % stride
                    if size == stride:
                        singles -= 1
                    elif stride != self._packet_bytes or size < DRAIN_BYTES:
                        singles -= -(-size // stride)
                    self._receive(packets, stride, sender, is_marked)
        finally:
            self.is_draining, self.stamp = False, b""
        if self.ready and not self.is_closed:
            self.send_ready()

    def _receive(self, packets: memoryview, stride: int, sender: SocketAddress, is_marked: bool = False) -> None:
        """Hand a reception to the queue pair that its first packet names; arguments as for Reception."""
        if self.is_closed:
            return
        if stride < SHORTEST_PACKET_BYTES:
            self.context.drops["length"] += -(-len(packets) // stride) if stride else 1
            return
        (number,) = _unpack_qpn(packets, 4)
        # With FECN or BECN set, this word holds more than the number: the second look-up masks it.
        channel = self._channels.get(number) or self._channel(number & 0xFFFFFF, sender[0])
        if channel is None or channel.is_dead or channel.facts.peer_host != sender[0]:
            if stride < len(packets):  # the other packets can belong to other queue pairs
                for start in range(0, len(packets), stride):
                    one = packets[start : start + stride]
                    self._receive(one, len(one), sender)
            elif self.gsi is None or not self.gsi.receive(packets, sender):
                self.context.drops["stranger"] += 1
            return
        now = time.monotonic_ns()
        if len(packets) >= LEAST_NOTED_BYTES and self.stamp and channel.port is not None:
            channel.port.arrivals.note(self.stamp_ns, len(packets), now)
        for one in channel.receive(packets, stride, sender[1], now, is_marked):
            self._receive(one, len(one), sender)
        if stride == self._packet_bytes and stride < len(packets) == self._call_bytes and not is_marked:
            self._reader.expect(channel.calls_at_once)

    def _channel(self, number: int, host: str) -> Channel | None:
        return self._channels.get(number) or (self._channels.get(number) if self._make(number, host) else None)


class StandaloneNic:
    """The NIC of an address of this host, on the running event loop; a context manager that closes it.

    Args:
        host: numeric IP address, port 4791 of which is free.
        options: see RoceOptions.
        device: interface to bind its sockets to; None: any.

    Raises:
        HostError: the address is not on this host or its port is in use, or a limit is reached.
    """

    def __init__(self, host: str, options: RoceOptions, *, device: str | None = None) -> None:
        self._clock = TimerfdClock(asyncio.get_running_loop())
        self._context = make_context(
            options=options,
            clock=self._clock,
            senders=Senders(traffic_class=options.traffic_class, devices=None if device is None else {host: device}),
            payload_seed=None,
        )
        self.passes = Passes(self._clock, timeout_ns=4096 << options.qp_timeout)
        try:
            listener = Listener(host, has_ecn=options.ecn != "off", device=device)
        except BaseException:
            self._close_all()
            raise
        self.nic = SoftwareNic(listener, self._context, self.passes)

    def __enter__(self) -> StandaloneNic:
        self.nic.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop at once."""
        self.nic.close()
        self._close_all()

    def _close_all(self) -> None:
        self.passes.close()
        self._clock.close()
        self._context.senders.close()
