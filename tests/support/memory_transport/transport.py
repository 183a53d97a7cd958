"""A network in memory, on a virtual clock, with faults: what players are tested on.

Messages may be lost, doubled and overtaken, as a seeded generator decides; a small reliable layer (memory_flows)
restores what every transport promises.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random

from agents.transports.base import EndpointEvents, Transport
from emulator.control.conversation import Address
from emulator.control.observations import FlowCounters
from emulator.errors import LocalProtocolError
from emulator.roce.connection.messages import FirstSent
from emulator.transports.registry import ZMQ
from emulator.units import NS_PER_S
from tests.support.memory_transport.flows import Message, Receiver, Sender
from tests.support.virtual_clock import VirtualClock

REORDERING_LATENCIES = 4
"""A message that is overtaken comes later by up to so many latencies."""


class MemoryNetwork(Transport):
    """Connects endpoints that live on one virtual clock.

    Args:
        clock: runs the network; events come while it runs.
        seed: of the generator that decides which messages suffer.
        latency_ns: from the end of sending to arrival.
        read_delay_ns: from a time stamp of the kernel to the report; 0: there are no time stamps.
        bytes_per_s: rate at which each endpoint sends; None for no limit.
        loss, duplication, reordering: probability of each, per message (acknowledgements are messages too).
        message_bytes: payload per message, at most.
        window_messages: unacknowledged messages per flow, at most.
        retry_limit: retransmissions in a row without an answer after which the peer has failed.
    """

    name = "memory"

    def __init__(
        self,
        clock: VirtualClock,
        *,
        seed: int = 0,
        latency_ns: int = 1_000,
        read_delay_ns: int = 0,
        bytes_per_s: int | None = None,
        loss: float = 0.0,
        duplication: float = 0.0,
        reordering: float = 0.0,
        message_bytes: int = ZMQ.message_bytes,
        window_messages: int = 8,
        retry_limit: int = 64,
    ) -> None:
        self.clock, self.message_bytes = clock, message_bytes
        self.window_messages, self.retry_limit = window_messages, retry_limit
        self._random = Random(seed)
        self._latency_ns, self._bytes_per_s = latency_ns, bytes_per_s
        self.read_delay_ns = read_delay_ns
        self._loss, self._duplication, self._reordering = loss, duplication, reordering
        self._endpoints: dict[Address, MemoryEndpoint] = {}
        self._idle_at: dict[Address, int] = {}

    async def __aenter__(self) -> MemoryNetwork:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        for endpoint in self._endpoints.values():
            endpoint.close()

    async def open(self, rank: int, host: str) -> MemoryEndpoint:
        """Make the endpoint of `rank`; any host will do."""
        return self.attach(rank, host)

    def attach(self, rank: int, host: str = "memory") -> MemoryEndpoint:
        """Make the endpoint of `rank`, for those who are not in a coroutine."""
        endpoint = MemoryEndpoint(self, rank, Address(host, 1 + len(self._endpoints)))
        self._endpoints[endpoint.address] = endpoint
        return endpoint

    @property
    def timeout_ns(self) -> int:
        """Longest time from the end of sending to the acknowledgement of a message that nothing happened to."""
        slowest = self._latency_ns * (1 + REORDERING_LATENCIES)
        return 2 * slowest + 1

    def transmit(self, source: Address, target: Address, message: Message) -> int:
        """Carry a message, or lose it; returns when its last byte has left, in ns."""
        left_at = self._occupy(source, message.size)
        for _ in range(self._copies()):
            self.clock.call_at(left_at + self._delay(), self._delivery(source, target, message))
        return left_at

    def _occupy(self, source: Address, size: int) -> int:
        now = self.clock.now()
        if not size:
            return now  # control does not queue behind payload
        duration = size * NS_PER_S // self._bytes_per_s if self._bytes_per_s else 0
        self._idle_at[source] = max(now, self._idle_at.get(source, 0)) + duration
        return self._idle_at[source]

    def _copies(self) -> int:
        if self._random.random() < self._loss:
            return 0
        return 2 if self._random.random() < self._duplication else 1

    def _delay(self) -> int:
        if self._random.random() >= self._reordering:
            return self._latency_ns
        return self._latency_ns + self._random.randint(1, REORDERING_LATENCIES * self._latency_ns)

    def _delivery(self, source: Address, target: Address, message: Message) -> Callable[[], None]:
        def deliver() -> None:
            endpoint = self._endpoints.get(target)
            if endpoint is not None:
                endpoint.receive(source, message)

        return deliver


class MemoryEndpoint:
    """One rank's place on a MemoryNetwork; made by `MemoryNetwork.open`."""

    def __init__(self, network: MemoryNetwork, rank: int, address: Address) -> None:
        self.rank, self.address = rank, address
        self.network = network
        self.strangers = 0
        self._directory: Mapping[int, Address] | None = None
        self._events: EndpointEvents | None = None
        self._held: list[tuple[int, int, int]] = []  # arrived before the directory: peer, tag, size
        self._counters: dict[int, FlowCounters] = {}
        self._senders: dict[tuple[int, bool], Sender] = {}
        self._receivers: dict[tuple[int, bool], Receiver] = {}
        self._failed: set[int] = set()
        self._is_closed = False

    def connect(self, directory: Mapping[int, Address], events: EndpointEvents) -> None:
        """Learn where the other ranks listen and who wants to hear; must come before the first post."""
        if self._directory is not None:
            raise LocalProtocolError(f"rank {self.rank} is connected already")
        self._directory = dict(directory)
        self.network.clock.call_at(self.network.clock.now(), lambda: self._enter(events))

    def post(self, peer: int, tag: int, size: int, sent: FirstSent | None = None) -> None:
        """Queue a transfer of `size` bytes to rank `peer`; dropped once closed.

        Raises:
            LocalProtocolError: `peer` is not in the directory.
        """
        if not (self._is_closed or peer in self._failed):
            self._sender(peer, is_control=size == 0).post(tag, size)

    def flush(self) -> None:
        """End of a batch: hand everything posted to the network."""
        for sender in self._senders.values():
            sender.send_ready()

    @property
    def stamp_ns(self) -> int:
        """See Endpoint."""
        network = self.network
        return network.clock.now() - network.read_delay_ns if network.read_delay_ns else 0

    received_ns = stalled_ns = lead_bytes = clock_steps = 0

    def usual_ns(self, since_ns: int, until_ns: int) -> int:
        """See Endpoint."""
        return 0

    def collect(self) -> None:
        """See Endpoint."""

    @property
    def acknowledged_bytes(self) -> int:
        """Payload that its receivers have, as far as they have said so."""
        sent = sum(flow.bytes for flow in self._counters.values())
        return sent - sum(sender.unacknowledged_bytes for sender in self._senders.values())

    def counters(self) -> Sequence[FlowCounters]:
        """A snapshot for every peer this endpoint has sent to."""
        return [replace(counters) for counters in self._counters.values()]

    def eventful(self) -> Sequence[FlowCounters]:
        """None: nothing goes wrong here that is counted."""
        return []

    def close(self) -> None:
        """Stop at once, dropping what is queued; idempotent."""
        self._is_closed = True
        for sender in self._senders.values():
            sender.drop()

    def _enter(self, events: EndpointEvents) -> None:
        if self._is_closed:
            return
        self._events = events
        held, self._held = self._held, []
        for peer, tag, size in held:
            self.arrived(peer, tag, size)

    def _sender(self, peer: int, *, is_control: bool) -> Sender:
        if self._directory is None or peer not in self._directory:
            raise LocalProtocolError(f"rank {self.rank} posted to rank {peer}, which is not in its directory")
        sender = self._senders.get((peer, is_control))
        if sender is None:
            counters = self._counters.setdefault(peer, FlowCounters(src=self.rank, dst=peer, retransmits=0))
            sender = Sender(self, peer, self._directory[peer], is_control=is_control, counters=counters)
            self._senders[peer, is_control] = sender
        return sender

    # For the network and the flows.

    def receive(self, source: Address, message: Message) -> None:
        """Take a message off the wire."""
        if self._is_closed or message.src in self._failed:
            return
        if self._directory is not None and message.src not in self._directory:
            self.strangers += 1
        elif message.is_acknowledgement:
            self._senders[message.src, message.is_control].acknowledge(message.sequence)
        else:
            self._receiver(message.src, source, is_control=message.is_control).receive(message)

    def _receiver(self, peer: int, source: Address, *, is_control: bool) -> Receiver:
        key = (peer, is_control)
        if key not in self._receivers:
            self._receivers[key] = Receiver(self, peer, source, is_control=is_control)
        return self._receivers[key]

    def arrived(self, peer: int, tag: int, size: int) -> None:
        """Report a transfer that is complete, or keep the report until somebody listens."""
        if self._events is None:
            self._held.append((peer, tag, size))
        elif self._directory is not None and peer in self._directory:
            self._events.arrived(peer, tag, size, self.network.clock.now())

    def acknowledged(self, peer: int, tag: int) -> None:
        """Report a transfer that the peer has."""
        if self._events is not None:
            self._events.acknowledged(peer, tag, self.network.clock.now())

    def fail(self, peer: int, reason: str) -> None:
        """Give up on `peer`."""
        self._failed.add(peer)
        for (other, _), sender in self._senders.items():
            if other == peer:
                sender.drop()
        if self._events is not None:
            self._events.failed(peer, reason)
