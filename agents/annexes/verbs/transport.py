"""Transfers over RDMA devices through libibverbs, and over the software NIC where a host has none.

Both ends of a rank pair agree over TCP on a queue pair; then payload crosses as RDMA WRITEs with immediate data.

The software NIC speaks to RDMA devices, and to itself.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping, Sequence
from hashlib import blake2b

from agents.annexes.verbs.endpoint import VerbsEndpoint
from agents.annexes.verbs.nic import Gid, Nic, ReceiveRing, VerbsQpRecord, find_gid
from agents.nic.channel import Channel, QueuePairOwner
from agents.nic.nic import StandaloneNic
from agents.transports.base import RankPort, Silence, Transport
from emulator.control.parameter import Parameter
from emulator.errors import HostError, LocalProtocolError
from emulator.host.core_wait import CoreWait
from emulator.host.nic import has_devices
from emulator.roce.connection.memory import Access, Memory, MemoryRegion
from emulator.roce.connection.messages import ConnectionSettings, Message
from emulator.roce.connection.qp_facts import QpFacts
from emulator.roce.connection.queue_pair import QueuePair
from emulator.roce.constants import FIRST_SOURCE_PORT
from emulator.roce.options import RoceOptions
from emulator.roce.wire.psn import Psn
from emulator.transports.registry import VERBS, VerbsOptions

RING_ADDRESS = 0x10000
FIRST_WINDOW_PACKETS = 64
"""What the least capable device known takes without loss; the window grows from there."""
_LEAST_WINDOW_PACKETS = 16


class SoftwareQp:
    """A queue pair of the software NIC."""

    def __init__(
        self, alone: StandaloneNic, host: str, options: RoceOptions, ring: ReceiveRing, owner: QueuePairOwner, qpn: int
    ):
        self._alone, self._host, self._options, self._ring, self._owner = alone, host, options, ring, owner
        self._channel: Channel | None = None
        self.record = VerbsQpRecord(
            qpn=qpn,
            psn=random.getrandbits(24),
            rkey=random.getrandbits(32),
            address=RING_ADDRESS,
            slots=ring.slots,
            slot_bytes=ring.slot_bytes,
            path_mtu=options.path_mtu,
        )

    @property
    def channel(self) -> Channel | None:
        """The queue pair, once it is connected."""
        return self._channel

    def connect(self, peer: VerbsQpRecord, host: str) -> None:
        """See Qp."""
        own = self.record
        window = max(_LEAST_WINDOW_PACKETS, peer.slots * peer.slot_bytes // self._options.path_mtu)
        first = min(FIRST_WINDOW_PACKETS, window)
        settings = ConnectionSettings(
            path_mtu=self._options.path_mtu,
            window_packets=window,
            ack_interval=max(1, first // 2),
            timeout_exponent=self._options.qp_timeout,
            retry_count=self._options.retry_count,
            initial_window_packets=first,
        )
        region = MemoryRegion(rkey=own.rkey, address=own.address, length=self._ring.bytes, access=Access.WRITE)
        facts = QpFacts(
            host=self._host,
            peer_host=host,
            qpn=own.qpn,
            peer_qpn=peer.qpn,
            psn=Psn(own.psn),
            peer_psn=Psn(peer.psn),
            rkey=own.rkey,
            source_ports=(FIRST_SOURCE_PORT | (own.qpn ^ peer.qpn << 7) & 0x3FFF,),
        )
        pair = QueuePair(settings, facts.psn, facts.peer_psn, Memory([region]))
        self._channel = self._alone.nic.create_foreign(facts, pair, self._owner)

    def post(self, messages: Sequence[Message]) -> None:
        """See Qp."""
        channel = self._channel
        if channel is None or channel.is_dead:
            return
        for message in messages:
            channel.post(message)
        channel.send(time.monotonic_ns())
        self._alone.passes.watch()

    def close(self) -> None:
        """See Qp."""
        if self._channel is not None:
            self._channel.close()


class SoftwareRdmaNic:
    """The software NIC of an address.

    Args:
        host: numeric IP address, port 4791 of which is free.
        options: path MTU, timeout and DSCP count.
        ring: what every peer gets.

    Raises:
        HostError: the address is not on this host or its port is in use, or a limit is reached.
    """

    def __init__(self, host: str, options: RoceOptions, ring: ReceiveRing) -> None:
        self._host, self._options, self._ring = host, options, ring
        self._alone = StandaloneNic(host, options)
        self._alone.__enter__()
        self._next_qpn = random.randrange(0x100, 0x800000)
        self._is_closed = False

    def create(self, owner: QueuePairOwner) -> SoftwareQp:
        """See Nic."""
        self._next_qpn += 1
        return SoftwareQp(self._alone, self._host, self._options, self._ring, owner, self._next_qpn)

    def poll(self) -> None:
        """See Nic."""
        self._alone.nic.catch_up()

    def facts(self) -> Mapping[str, Parameter]:
        """See Nic."""
        return {"device": Parameter("software NIC"), "observed": Parameter("receiving process")}

    def close(self) -> None:
        """See Nic."""
        if not self._is_closed:
            self._is_closed = True
            self._alone.__exit__(None, None, None)


GID_S = 1.0
"""The kernel fills GID tables in the background."""


class VerbsTransport(Transport):
    """Endpoints for the ranks of one agent, on the running event loop.

    Args:
        message_bytes: maximum payload per message, and the size of a slot.
        options: see VerbsOptions.
        run: run id, the same for all agents of a run.
    """

    name = VERBS.name

    def __init__(
        self, *, message_bytes: int = VERBS.message_bytes, options: VerbsOptions | None = None, run: str = ""
    ) -> None:
        self.options, self.message_bytes = options or VerbsOptions(), message_bytes
        self._run = blake2b(run.encode(), digest_size=8).hexdigest()
        self._endpoints: dict[int, VerbsEndpoint] = {}

    async def __aenter__(self) -> VerbsTransport:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        for endpoint in self._endpoints.values():
            endpoint.close()
        await asyncio.sleep(0)  # connections close in the next pass of the loop

    def use_ports(self, ports: Mapping[int, RankPort], core_wait: CoreWait | None = None) -> None:
        """See Transport: a device paces itself."""

    def facts(self) -> Mapping[str, Parameter]:
        """Devices, where completions are observed, and what devices counted."""
        found: dict[str, Parameter] = {}
        for rank, endpoint in self._endpoints.items():
            for name, value in endpoint.nic.facts().items():
                found[name if "." in name else f"rank_{rank}.{name}"] = value
        return found

    def silence(self) -> Silence | None:
        """See Transport."""
        found = (silence for endpoint in self._endpoints.values() for silence in endpoint.silences())
        return min(found, key=lambda silence: silence.since_ns, default=None)

    async def open(self, rank: int, host: str) -> VerbsEndpoint:
        """Open the NIC of numeric IP address `host`, and a TCP port chosen by the system.

        Raises:
            HostError: the address is not on this host, or no RDMA device has it, or a limit is reached.
            LocalProtocolError: the rank already has an endpoint.
        """
        if rank in self._endpoints:
            raise LocalProtocolError(f"rank {rank} has an endpoint already")
        nic = await self._make_nic(host)
        endpoint = VerbsEndpoint(rank, host, nic, run=self._run)
        try:
            await endpoint.listen()
        except BaseException:
            nic.close()
            raise
        self._endpoints[rank] = endpoint
        return endpoint

    async def _make_nic(self, host: str) -> Nic:
        options = self.options
        ring = ReceiveRing(options.ring_slots, self.message_bytes)
        if not options.is_software(host):
            from agents.annexes.verbs.rdma import RdmaNic

            return RdmaNic(host, await self._gid(host), options, ring)
        roce = RoceOptions(
            path_mtu=options.path_mtu, qp_timeout=options.qp_timeout, retry_count=options.retry_count, dscp=options.dscp
        )
        return SoftwareRdmaNic(host, roce, ring)

    async def _gid(self, host: str) -> Gid:
        """The GID of an address; one that an agent has just added takes a moment to enter the table."""
        end = time.monotonic() + GID_S
        while True:
            try:
                return find_gid(host, device=self.options.device_name, index=self.options.gid_index_or_none)
            except HostError:
                if not has_devices() or time.monotonic() > end:
                    raise
            await asyncio.sleep(GID_S / 20)


def make(
    *, message_bytes: int, run: str, seed: int, options: VerbsOptions | None, devices: Mapping[str, str]
) -> VerbsTransport:
    """See `agents.transports.catalogue.make_transport`."""
    return VerbsTransport(message_bytes=message_bytes, options=options, run=run)
