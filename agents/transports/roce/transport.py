"""Transfers over RoCEv2: reliable connections on unprivileged UDP sockets, with batches in place of NIC hardware."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import blake2b

from agents.nic.context import make_context
from agents.nic.passes import Passes
from agents.nic.port import PortPacer
from agents.nic.sockets import Listener, Sender, Senders
from agents.nic.stamps import SendLog, StampedSender
from agents.transports.base import RankPort, Silence, Transport
from agents.transports.roce.endpoint import RoceEndpoint
from agents.transports.roce.multipath import path_facts
from emulator.control.observations import Migration, Timeline
from emulator.control.parameter import Parameter
from emulator.errors import HostError, LocalProtocolError
from emulator.host.clock import TimerfdClock
from emulator.host.core_wait import CoreWait
from emulator.roce.constants import RETH_BYTES
from emulator.roce.options import RoceOptions
from emulator.roce.tuning import (
    MOST_SINGLES,
    PORT_LEAD_NS,
    RECEIVE_BUFFER_BYTES,
    SEND_BUFFER_BYTES,
    SINGLES_SHARE,
)
from emulator.transports.registry import ROCE


class RoceTransport(Transport):
    """Endpoints for the ranks of one agent, on the running event loop (asyncio's own or uvloop).

    Args:
        message_bytes: maximum payload per message.
        options: see RoceOptions.
        seed: random seed, the same for all agents of a run.
        run: run id, the same for all agents of a run; keys and first PSNs depend on it.
        devices: address → interface to bind its sockets to; other addresses may use any interface.
    """

    name = "roce"

    def __init__(
        self,
        *,
        message_bytes: int = ROCE.message_bytes,
        options: RoceOptions | None = None,
        seed: int = 0,
        run: str = "",
        devices: Mapping[str, str] | None = None,
    ) -> None:
        self.options = options = options or RoceOptions()
        self.message_bytes = message_bytes
        self._devices = devices or {}
        self._ports: dict[int, RankPort] = {}
        self._alternates: Mapping[int, str] = {}
        self._pacers: dict[RankPort, PortPacer] = {}
        self._core_wait: CoreWait | None = None
        self._clock = TimerfdClock(asyncio.get_running_loop())
        digest = int.from_bytes(blake2b(f"{run}/{seed}".encode(), digest_size=8).digest())
        self._seed, self._rkey = digest, digest & 0xFFFFFFFF
        self._log = SendLog() if options.splits or options.time_stamps == "kernel" else None
        self.context = make_context(
            options=options,
            clock=self._clock,
            senders=Senders(
                traffic_class=options.traffic_class,
                devices=devices,
                make=Sender if self._log is None else partial(StampedSender, log=self._log),
            ),
            payload_seed=seed if options.payload == "random" else None,
        )
        self._endpoints: dict[int, RoceEndpoint] = {}
        self.passes = Passes(self._clock, timeout_ns=4096 << options.qp_timeout)

    async def __aenter__(self) -> RoceTransport:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def drops(self) -> Counter[str]:
        """Dropped packets by reason.

        "queue" counts receptions that the kernel dropped before a receiving socket: one packet, or up to 64 merged.
        """
        drops = sum((endpoint.drops for endpoint in self._endpoints.values()), Counter(self.context.drops))
        nics = (nic for endpoint in self._endpoints.values() for nic in (endpoint.nic, endpoint.alternate))
        drops["queue"] += sum(nic.queue_drops for nic in nics if nic is not None)
        drops["send"] += self.context.senders.drops
        return +drops

    def use_ports(self, ports: Mapping[int, RankPort], core_wait: CoreWait | None = None) -> None:
        """Pace the ranks at each port with a cap together; DCQCN starts at the line rate."""
        self._ports, self._core_wait = dict(ports), core_wait

    def use_alternates(self, alternates: Mapping[int, str]) -> None:
        """See Transport."""
        self._alternates = dict(alternates)

    def migrations(self) -> Sequence[Migration]:
        """See Transport."""
        found = (one for endpoint in self._endpoints.values() for one in endpoint.migrations())
        return sorted(found, key=lambda one: one.at_ns)

    def facts(self) -> Mapping[str, Parameter]:
        """Granted buffers, the smallest window, offloads, the verified share, and drops by reason."""
        granted = [endpoint.nic.buffer_bytes for endpoint in self._endpoints.values()]
        is_merging = all(endpoint.nic.is_merging for endpoint in self._endpoints.values())
        checked = 1.0 if self.options.payload == "random" else 1 / self.options.verify_every
        return {
            "receive_buffer_asked": Parameter(RECEIVE_BUFFER_BYTES, "bytes"),
            "receive_buffer_granted": Parameter(min(granted, default=RECEIVE_BUFFER_BYTES), "bytes"),
            "send_buffer_asked": Parameter(SEND_BUFFER_BYTES, "bytes"),
            "send_buffer_granted": Parameter(self.context.senders.least_buffer_bytes, "bytes"),
            "sending_sockets": Parameter(self.context.senders.opened, "sockets"),
            "ports_shared": Parameter(self.context.senders.shared, "source ports"),
            "window": Parameter(min((end.window_bytes for end in self._endpoints.values()), default=0), "bytes"),
            "sending": Parameter("UDP_SEGMENT" if self.context.is_cutting else "single datagrams"),
            "receiving": Parameter("UDP_GRO" if is_merging else "single datagrams"),
            "verified_share": Parameter(checked, "of merged receptions"),
            **({} if self._log is None else self._log.facts()),
            **self._multipath_facts(),
            **{
                f"dropped.{reason}": Parameter(count, "receptions" if reason == "queue" else "packets")
                for reason, count in self.drops.items()
            },
        }

    def _multipath_facts(self) -> Mapping[str, Parameter]:
        ends = list(self._endpoints.values())
        return path_facts([end.channels for end in ends], are_seen=all(end.sees_trimmed for end in ends))

    def tidy(self) -> None:
        """See Transport."""
        if self.context.timeline is not None:
            self.context.timeline.tidy()

    def timeline(self) -> Timeline | None:
        """See Transport."""
        return None if self.context.timeline is None else self.context.timeline.report()

    def silence(self) -> Silence | None:
        """See Transport."""
        found = (silence for endpoint in self._endpoints.values() for silence in endpoint.silences())
        return min(found, key=lambda silence: silence.since_ns, default=None)

    async def open(self, rank: int, host: str) -> RoceEndpoint:
        """Bind an endpoint at port 4791 of numeric IP address `host`, which no other rank may use.

        Raises:
            HostError: the address is not on this host or in use, or a limit is reached, or flow labels are to be the
                entropy of IPv4.
            LocalProtocolError: the rank already has an endpoint.
        """
        if rank in self._endpoints:
            raise LocalProtocolError(f"rank {rank} has an endpoint already")
        if self.options.multipath and self.options.entropy_field == "flow-label" and ":" not in host:
            raise HostError(f"--entropy-field flow-label: {host} is IPv4, which has none: use --entropy-field port")
        listener = self._listen(host)
        alternate = self._alternates.get(rank)
        try:
            second = None if alternate is None else self._listen(alternate)
        except BaseException:
            listener.socket.close()
            raise
        place = self._ports.get(rank, RankPort())
        endpoint = self._endpoints[rank] = RoceEndpoint(
            rank,
            listener,
            self.context,
            self.passes,
            local=self._endpoints,
            message_bytes=self.message_bytes,
            seed=self._seed,
            rkey=self._rkey,
            line_rate_bps=place.line_rate_bps,
            port=self._pacer_of(place, is_v6=listener.is_v6),
            log=self._log,
            alternate=second,
        )
        self.passes.singles_per_turn = max(1, min(MOST_SINGLES, len(self._endpoints) // SINGLES_SHARE))
        return endpoint

    def _listen(self, host: str) -> Listener:
        listener = Listener(
            host,
            has_ecn=self.options.ecn != "off",
            device=self._devices.get(host),
            has_stamps=self._log is not None,
        )
        self.context.senders.add_host(host)
        return listener

    def _pacer_of(self, port: RankPort, *, is_v6: bool) -> PortPacer | None:
        rate_bps = port.cap_bps or (port.limit.rate_bps if port.limit is not None else 0)
        if not rate_bps:
            return None
        if port not in self._pacers:
            self._pacers[port] = PortPacer(
                self._clock,
                rate_bps=rate_bps,
                path_mtu=self.options.path_mtu,
                is_v6=is_v6,
                lead_ns=PORT_LEAD_NS if port.cap_bps == port.line_rate_bps else 0,
                extension_bytes=RETH_BYTES if self.options.multipath else 0,
                limit=port.limit,
                core_wait=self._core_wait,
            )
        return self._pacers[port]

    def close(self) -> None:
        """Stop at once, dropping what is queued; idempotent."""
        if self.passes.is_closed:
            return
        for endpoint in self._endpoints.values():
            endpoint.close()
        self.passes.close()
        self._clock.close()
        self.context.senders.close()


make = RoceTransport
"""See `agents.transports.catalogue.make_transport`."""
