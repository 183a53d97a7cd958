"""Background traffic of a run spec on a topology: both ends of every flow, their addresses and schedules."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import replace
from ipaddress import ip_address

import msgspec

from emulator.control.flows import FlowTask
from emulator.errors import PlanError
from emulator.experiment.settle.defaults import USUAL_WINDOW_BYTES, slow_window_bytes
from emulator.experiment.settle.flows import FreeAddresses, PlannedFlow, find_host
from emulator.experiment.spec.flow_spec import Background
from emulator.flows.background import TCP_HEADER_BYTES, UDP_HEADER_BYTES, BackgroundTask, Schedule, WireSize
from emulator.planner.network.header_overhead import (
    DEFAULT_MTU,
    roce_packet_bytes,
    roce_path_mtu,
    tcp_overhead,
    udp_overhead,
)
from emulator.roce.constants import IMMDT_BYTES, RETH_BYTES
from emulator.roce.options import RoceOptions
from emulator.topology.model import Host, Topology
from emulator.topology.network import Interface
from emulator.units import format_size
from emulator.views.columns.figures import link_rate_cell

FIRST_PORT = 20_000
"""Of TCP and UDP receivers: below the ports that Linux gives to clients."""


def plan_background(
    background: Sequence[Background],
    topology: Topology,
    addresses: FreeAddresses,
    *,
    first: int,
    mtu: int | None,
    options: RoceOptions,
    seed: int,
) -> Iterator[PlannedFlow]:
    """Both ends of every flow, the sender first.

    Args:
        background: of a run spec.
        topology: with a place for every rank.
        addresses: that are free.
        first: number of the first task.
        mtu: smallest MTU of the links, bytes of an IP packet; None: not specified.
        options: of the software NICs; the DSCP of RoCE data.
        seed: of the run.

    Raises:
        PlanError: a host is not in the topology or has no free address, or traffic would stay on a host.
    """
    flow = 0
    for place, spec in enumerate(background):
        for names in spec.pairs:
            where = f"background[{place}]"
            sender, receiver = (
                _Place(name, *find_host(topology, name, where), addresses, where, spec.transport) for name in names
            )
            if sender.host is receiver.host and not ip_address(sender.address).is_loopback:
                raise PlanError(f"{where}: {names[0]} and {names[1]} are the same host: the traffic would not leave it")
            ends = _Ends(spec, flow, sender, receiver, where, mtu=mtu, options=options, seed=(seed, flow))
            yield from ends.planned(first + 2 * flow)
            flow += 1


class _Place:
    """Where an end of a flow is."""

    def __init__(
        self, name: str, host: Host, interface: Interface, addresses: FreeAddresses, where: str, transport: str
    ) -> None:
        self.name, self.host, self.interface = name, host, interface
        try:
            self.address = addresses.take(host, interface, f"{where}: {name}")
        except PlanError:
            if transport == "roce" or not interface.addresses:  # a NIC has one UDP port
                raise
            self.address = interface.addresses[0]


class _Ends:
    """Both ends of a flow."""

    def __init__(
        self,
        spec: Background,
        flow: int,
        sender: _Place,
        receiver: _Place,
        where: str,
        *,
        mtu: int | None,
        options: RoceOptions,
        seed: tuple[int, ...],
    ) -> None:
        self._spec, self._flow, self._sender, self._receiver = spec, flow, sender, receiver
        is_v6 = ":" in sender.address
        path_mtu = options.path_mtu if mtu is None else roce_path_mtu(mtu, ipv6=is_v6)
        dscp = spec.dscp if spec.dscp is not None else options.dscp if spec.transport == "roce" else 0
        rate_bps = sender.interface.rate_bps
        try:
            self._rate_bps, peak_bps = spec.rates_bps(rate_bps)
        except ValueError as error:
            raise PlanError(f"{where}: {error}") from error
        self._options = replace(
            options,
            path_mtu=path_mtu,
            dscp=dscp,
            congestion="dcqcn" if rate_bps else "none",
            window_bytes=min(USUAL_WINDOW_BYTES, slow_window_bytes(rate_bps)) if rate_bps else 0,
        )
        self._schedule = Schedule(
            pattern=spec.pattern,
            sizes=spec.sizes,
            size_bytes=spec.size_bytes,
            rate_bps=self._rate_bps,
            peak_bps=peak_bps,
            on_ns=spec.on_ns,
            wire=_wire_size(spec.transport, mtu or DEFAULT_MTU, path_mtu, is_v6=is_v6),
            seed=seed,
        )

    def planned(self, number: int) -> Iterator[PlannedFlow]:
        """The sender and the receiver; their tasks have this number and the next."""
        tag = secrets.randbits(32)
        yield self._end(number, tag, self._sender, self._receiver, is_sender=True)
        yield self._end(number + 1, tag, self._receiver, self._sender, is_sender=False)

    def _end(self, number: int, tag: int, here: _Place, there: _Place, *, is_sender: bool) -> PlannedFlow:
        spec, sender, receiver = self._spec, self._sender.name, self._receiver.name
        task = BackgroundTask(
            is_sender=is_sender,
            transport=spec.transport,
            address=here.address,
            peer_address=there.address,
            port=FIRST_PORT + self._flow,
            tag=tag,
            schedule=self._schedule,
            options=self._options,
            port_rate_bps=self._sender.interface.rate_bps,
        )
        mean_bytes = round(self._schedule.distribution.mean_bytes)
        return PlannedFlow(
            task=FlowTask(
                number=number,
                kind="background",
                title=f"background {self._flow} ({sender} to {receiver}, {'sender' if is_sender else 'receiver'})",
                host=here.address,
                interface=here.interface.name,
                document=msgspec.json.encode(task).decode(),
            ),
            host=here.host.name,
            interface=here.interface.name,
            peer_address=there.address,
            parameter=f"background.{self._flow}" if is_sender else "",
            about=f"{sender} to {receiver} over {spec.transport}, {link_rate_cell(self._rate_bps)} on the wire, "
            f"{spec.pattern}, {spec.sizes} sizes of {format_size(mean_bytes)} in the mean, DSCP {self._options.dscp}",
            row={
                "flow": self._flow,
                "kind": "background",
                "host": sender,
                "peer": receiver,
                "role": "sender",
                "verb": spec.transport,
                "size_bytes": mean_bytes,
                "name": spec.name or None,
                "pattern": spec.pattern,
                "sizes": spec.sizes,
                "rate_bps": self._rate_bps,
                "dscp": self._options.dscp,
                "interval_ns": self._schedule.interval_ns,
            },
        )


def _wire_size(transport: str, mtu: int, path_mtu: int, *, is_v6: bool) -> WireSize:
    if transport == "roce":
        return WireSize(path_mtu, roce_packet_bytes(0, ipv6=is_v6), RETH_BYTES + IMMDT_BYTES)
    if transport == "tcp":
        segment = tcp_overhead(mtu, ipv6=is_v6)
        return WireSize(segment.payload_bytes, segment.wire_bytes - segment.payload_bytes, TCP_HEADER_BYTES)
    datagram = udp_overhead(mtu, header_bytes=UDP_HEADER_BYTES, ipv6=is_v6)
    return WireSize(datagram.payload_bytes, datagram.wire_bytes - datagram.payload_bytes)
