"""Transfers over RDMA devices through libibverbs, and over the software NIC where a host has none.

Both ends of a rank pair agree over TCP on a queue pair; then payload crosses as RDMA WRITEs with immediate data.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from hashlib import blake2b

from agents.transports.base import RankPort, Silence, Transport
from agents.transports.verbs.endpoint import VerbsEndpoint
from agents.transports.verbs.nic import Nic, ReceiveRing
from agents.transports.verbs.software import SoftwareRdmaNic
from agents.transports.verbs.sysfs import Gid, find_gid
from emulator.control.parameter import Parameter
from emulator.errors import HostError, LocalProtocolError
from emulator.host.rdma import has_devices
from emulator.roce.options import RoceOptions
from emulator.transports.registry import VERBS
from emulator.transports.verbs_options import VerbsOptions

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

    def use_ports(self, ports: Mapping[int, RankPort]) -> None:
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
            from agents.transports.verbs.rdma import RdmaNic

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
    *, message_bytes: int, run: str, seed: int, options: Mapping[str, str], devices: Mapping[str, str]
) -> VerbsTransport:
    """See `agents.transports.catalogue.make_transport`."""
    return VerbsTransport(message_bytes=message_bytes, options=VerbsOptions.parse(options), run=run)
