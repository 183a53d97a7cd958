"""Transfers over RoCEv2: reliable connections on unprivileged UDP sockets, what a NIC would do done in batches.

One epoll descriptor stands for the sockets of all ranks of an agent. A pass takes what is there, and acknowledges
when nothing more is: so a busy agent answers many packets at once, and an idle one at once.
"""

from __future__ import annotations

import asyncio
import select
import time
from collections import Counter
from collections.abc import Collection, Mapping
from hashlib import blake2b

from agents.transports.base import Port, Silence, Transport
from agents.transports.roce.channel import Agenda
from agents.transports.roce.context import make_context
from agents.transports.roce.endpoint import RoceEndpoint
from agents.transports.roce.port import PortPacer
from agents.transports.roce.sockets import Listener, Senders
from emulator.control.parameter import Parameter
from emulator.errors import LocalProtocolError
from emulator.host.timer import TimerfdClock
from emulator.roce.constants import DEFAULT_MESSAGE_BYTES
from emulator.roce.options import RoceOptions
from emulator.roce.tuning import (
    LONGEST_DOUBT_NS,
    LONGEST_NS_UNACKNOWLEDGED,
    LONGEST_SUSPICION_NS,
    MOST_SINGLES,
    NOTABLE_LATENESS_NS,
    PORT_LEAD_NS,
    RECEIVE_BUFFER_BYTES,
    ROUNDS_PER_PASS,
    SEND_BUFFER_BYTES,
    SINGLES_SHARE,
    SWEEP_NS,
    TURNS_AT_ONCE,
    TURNS_PER_ROUND,
)


class RoceTransport(Transport):
    """Endpoints for the ranks of one agent, on the running event loop (asyncio's own or uvloop).

    Args:
        message_bytes: payload per message, at most.
        options: see RoceOptions.
        seed: of everything random; all agents of a run have the same.
        run: agents of one run pass the same text: keys and first sequence numbers depend on it.
        devices: address → the interface that its sockets are bound to; others may use any.
    """

    name = "roce"

    def __init__(
        self,
        *,
        message_bytes: int = DEFAULT_MESSAGE_BYTES,
        options: RoceOptions | None = None,
        seed: int = 0,
        run: str = "",
        devices: Mapping[str, str] | None = None,
    ) -> None:
        self.options = options = options or RoceOptions()
        self.message_bytes = message_bytes
        self._devices = devices or {}
        self._ports: dict[int, Port] = {}
        self._pacers: dict[int, PortPacer] = {}
        self.is_closed = False
        self._loop = asyncio.get_running_loop()
        self._clock = TimerfdClock(self._loop)
        digest = int.from_bytes(blake2b(f"{run}/{seed}".encode(), digest_size=8).digest())
        self.agenda = Agenda()
        self.context = make_context(
            options=options,
            clock=self._clock,
            senders=Senders(traffic_class=options.traffic_class, devices=devices),
            seed=digest,
            rkey=digest & 0xFFFFFFFF,
            payload_seed=seed if options.payload == "random" else None,
        )
        self._endpoints: dict[int, RoceEndpoint] = {}
        self.singles_per_turn = 1
        """Packets that travel alone and are taken from a socket before another's turn."""
        self._by_fd: dict[int, RoceEndpoint] = {}
        self._epoll = select.epoll()
        self._has_sweep = self._is_scheduled = False
        self._sweep_due_ns = 0
        self._suspected_ns = 0  # when somebody first wondered what is overdue; 0: nobody has
        self._longest_unacknowledged_ns = min(LONGEST_NS_UNACKNOWLEDGED, 4096 << options.qp_timeout >> 3)
        self._sweep_ns = min(max(4096 << options.qp_timeout >> 2, SWEEP_NS[0]), SWEEP_NS[1])
        self._loop.add_reader(self._epoll.fileno(), self._pass)

    async def __aenter__(self) -> RoceTransport:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def drops(self) -> Counter[str]:
        """Packets received and not wanted, by reason; "queue": receptions of one packet or, merged, up to 64, that the
        kernel lost before a receiving socket.
        """
        drops = sum((endpoint.drops for endpoint in self._endpoints.values()), Counter(self.context.drops))
        drops["queue"] += sum(endpoint.queue_drops for endpoint in self._endpoints.values())
        drops["send"] += self.context.senders.drops
        return +drops

    def use_ports(self, ports: Mapping[int, Port]) -> None:
        """Pace together the ranks that share a port with a cap; line rates are where DCQCN starts."""
        self._ports = dict(ports)

    def facts(self) -> Mapping[str, Parameter]:
        """Buffers that were granted, the smallest window, offloads, how much was verified, drops by reason."""
        granted = [endpoint.buffer_bytes for endpoint in self._endpoints.values()]
        is_merging = all(endpoint.is_merging for endpoint in self._endpoints.values())
        checked = 1.0 if self.options.payload == "random" else 1 / self.options.verify_every
        return {
            "receive_buffer_asked": Parameter(RECEIVE_BUFFER_BYTES, "bytes"),
            "receive_buffer_granted": Parameter(min(granted, default=RECEIVE_BUFFER_BYTES), "bytes"),
            "send_buffer_asked": Parameter(SEND_BUFFER_BYTES, "bytes"),
            "send_buffer_granted": Parameter(self.context.senders.least_buffer_bytes, "bytes"),
            "window": Parameter(min((end.window_bytes for end in self._endpoints.values()), default=0), "bytes"),
            "sending": Parameter("UDP_SEGMENT" if self.context.is_cutting else "single datagrams"),
            "receiving": Parameter("UDP_GRO" if is_merging else "single datagrams"),
            "verified_share": Parameter(checked, "of merged receptions"),
            **{
                f"dropped.{reason}": Parameter(count, "receptions" if reason == "queue" else "packets")
                for reason, count in self.drops.items()
            },
        }

    def silence(self) -> Silence | None:
        """See Transport."""
        found = (
            Silence(channel.connection.rank, channel.connection.peer, channel.pair.requester.silent_since_ns)
            for channel in self.agenda.active
            if channel.pair.requester.in_flight
        )
        return min(found, key=lambda silence: silence.since_ns, default=None)

    async def open(self, rank: int, host: str) -> RoceEndpoint:
        """Bind an endpoint at numeric IP address `host`, which no other rank of the host may have; port 4791.

        Raises:
            HostError: the address is not on this host or in use, or a limit is reached.
            LocalProtocolError: the rank has one already.
        """
        if rank in self._endpoints:
            raise LocalProtocolError(f"rank {rank} has an endpoint already")
        listener = Listener(host, has_ecn=self.options.ecn != "off", device=self._devices.get(host))
        place = self._ports.get(rank, Port())
        endpoint = self._endpoints[rank] = RoceEndpoint(
            self, rank, listener, line_rate_bps=place.line_rate_bps, port=self._pacer_of(place, is_v6=listener.is_v6)
        )
        self.singles_per_turn = max(1, min(MOST_SINGLES, len(self._endpoints) // SINGLES_SHARE))
        return endpoint

    def _pacer_of(self, port: Port, *, is_v6: bool) -> PortPacer | None:
        if not port.cap_bps:
            return None
        if port.number not in self._pacers:
            self._pacers[port.number] = PortPacer(
                self._clock,
                rate_bps=port.cap_bps,
                path_mtu=self.options.path_mtu,
                is_v6=is_v6,
                lead_ns=PORT_LEAD_NS if port.cap_bps == port.line_rate_bps else 0,
            )
        return self._pacers[port.number]

    def close(self) -> None:
        """Stop at once, dropping what is queued; idempotent."""
        if self.is_closed:
            return
        self.is_closed = True
        for endpoint in self._endpoints.values():
            endpoint.close()
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()
        self._clock.close()
        self.context.senders.close()

    # For endpoints.

    def listen(self, endpoint: RoceEndpoint, fd: int) -> None:
        """Receive what comes to the endpoint, from the next pass on."""
        self._by_fd[fd] = endpoint
        self._epoll.register(fd, select.EPOLLIN)

    def forget(self, endpoint: RoceEndpoint, fd: int) -> None:
        """Receive nothing more for the endpoint."""
        if self._by_fd.pop(fd, None) is not None:
            self._epoll.unregister(fd)
        self.context.senders.close(endpoint.address.host)

    def local_peer(self, rank: int) -> RoceEndpoint | None:
        """See Passes."""
        return self._endpoints.get(rank)

    def watch(self) -> None:
        """Something is on its way: look for answers that are overdue."""
        if self.agenda.unfinished:
            self._pass_again()
        if not self._has_sweep and self.agenda.active:
            self._has_sweep = True
            self._sweep_due_ns = time.monotonic_ns() + self._sweep_ns
            self._clock.call_at(self._sweep_due_ns, self._sweep)

    def call_soon(self, endpoint: RoceEndpoint, peer: int, reason: str) -> None:
        """Report a failure from the loop."""
        self._loop.call_soon(endpoint.report_failure, peer, reason)

    # Passes.

    def _pass(self) -> None:
        for _ in range(ROUNDS_PER_PASS):
            if self.is_closed:
                return
            ready = self._epoll.poll(0, 256)
            if not ready and not self.agenda.unfinished:
                self.agenda.reply()
                self._time_out()
                break
            for fd, _ in ready:
                endpoint = self._by_fd.get(fd)
                if endpoint is not None:
                    endpoint.drain()
            self._go_on()
        else:
            now = time.monotonic_ns()
            owing = self.agenda.owing
            if owing and now - owing[0].owed_since > self._longest_unacknowledged_ns:
                self.agenda.reply()
            if self._suspected_ns and now - self._suspected_ns > LONGEST_SUSPICION_NS:
                self._time_out(unread=[fd for fd, _ in self._epoll.poll(0, len(self._by_fd) or 1)])
            self._pass_again()
        self.watch()

    def _go_on(self) -> None:
        """Let ranks of this process go on sending to each other, a little each: what is received while it is still in
        the core's cache costs half."""
        unfinished = self.agenda.unfinished
        if not unfinished:
            return
        turns = max(1, min(TURNS_AT_ONCE, TURNS_PER_ROUND // len(unfinished)))
        for _ in range(len(unfinished)):
            channel = unfinished.popleft()
            channel.send_more(time.monotonic_ns(), turns)
            if channel.local_peer is not None:
                channel.local_peer.catch_up()

    def _pass_again(self) -> None:
        # The last round may have taken all there was: then nothing else would bring the idle moment about.
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._scheduled_pass)

    def _scheduled_pass(self) -> None:
        self._is_scheduled = False
        self._pass()

    def _sweep(self) -> None:
        """Time out what is overdue: at the next idle moment, when it is sure that no answer waits in a socket."""
        self._has_sweep = False
        self._suspected_ns = now = time.monotonic_ns()
        late_ns = now - self._sweep_due_ns
        if late_ns > NOTABLE_LATENESS_NS:  # the host is busy: whoever ought to answer may have been held up as well
            for channel in self.agenda.active:
                channel.pair.requester.defer_timeout(late_ns, now)
        if not self.is_closed:
            self._pass()

    def _time_out(self, unread: Collection[int] = ()) -> None:
        """Time out what is overdue, but for what may be answered already, in sockets that hold something unread."""
        if not self._suspected_ns:
            return
        self._suspected_ns = 0
        now = time.monotonic_ns()
        doubtful = {self._by_fd[fd].rank for fd in unread if fd in self._by_fd}
        for channel in list(self.agenda.active):
            requester = channel.pair.requester
            if requester.is_idle or channel.is_dead:
                self.agenda.active.discard(channel)
            elif requester.deadline_ns <= now and (
                channel.connection.rank not in doubtful or now - requester.deadline_ns > LONGEST_DOUBT_NS
            ):
                channel.handle_timer(now)
