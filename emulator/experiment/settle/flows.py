"""Flows of a run spec on a topology: who plays each, at which free address, and what its peer must run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from ipaddress import ip_address, ip_network
from typing import Any

import msgspec

from emulator.control.flows import FlowReport, FlowTask
from emulator.control.parameter import Parameter
from emulator.controller.assignment import Assignment, agents_at
from emulator.device.lab.egress import AddressPair, require_egress
from emulator.errors import PlanError
from emulator.experiment.settle.testbed import Testbed
from emulator.experiment.spec.flow_spec import Flow, PerftestFlow
from emulator.flows.perftest_parameters import DEFAULT_PORT, PeerTask
from emulator.planner.network.header_overhead import roce_path_mtu
from emulator.results.run_folder.flow_results import FLOW_RESULTS_SCHEMA
from emulator.results.run_folder.schema import Columns
from emulator.roce.options import RoceOptions
from emulator.topology.model import Host, Peer, Topology
from emulator.topology.network import Interface
from emulator.units import format_size

_LARGEST_PORT = 65_535
_UNKNOWN = dict.fromkeys(FLOW_RESULTS_SCHEMA.names)


def plan_flows(
    flows: Sequence[Flow], topology: Topology, addresses: FreeAddresses, *, mtu: int | None, options: RoceOptions
) -> list[PlannedFlow]:
    """Every flow of a run.

    Args:
        flows: of a run spec.
        topology: with a place for every rank.
        addresses: that are free.
        mtu: smallest MTU of the links, bytes of an IP packet; None: not specified.
        options: of the NICs of flows.

    Raises:
        PlanError: a host or peer is not in the topology, or has no free address or port.
    """
    used_ports: set[tuple[str, int]] = set()
    planned: list[PlannedFlow] = []
    for place, flow in enumerate(flows):
        where = f"flows[{place}]"
        for name in flow.hosts:
            host, interface = find_host(topology, name, where)
            peer = _peer(topology, flow.peer, where)
            server = peer.exchange if flow.role == "client" else host.name
            port = _port(flow, peer, server, used_ports, where)
            address = addresses.take(host, interface, f"{where}: {name}")
            task = _perftest(flow, peer, address, port, mtu=mtu, options=options)
            planned.append(_planned(len(planned), flow, task, host, interface))
    return planned


def assign_flows(
    planned: Sequence[PlannedFlow], assignment: Assignment, topology: Topology
) -> Mapping[str, Sequence[FlowTask]]:
    """Agent → the flows it plays; flows of a host with several agents take them in turn."""
    found: dict[str, list[FlowTask]] = {}
    turns: dict[str, int] = {}
    for flow in planned:
        agents = agents_at(flow.host, assignment, topology)
        turn = turns[flow.host] = turns.get(flow.host, -1) + 1
        found.setdefault(agents[turn % len(agents)], []).append(flow.task)
    return found


def require_flow_egress(planned: Sequence[PlannedFlow], testbed: Testbed, *, remote: Sequence[str]) -> None:
    """Refuse flows that would not leave through the interfaces of the topology; agents elsewhere check that themselves.

    Args:
        planned: all flows.
        testbed: of the run.
        remote: hosts with agents that connect.

    Raises:
        PlanError: there is no route, or it leads elsewhere.
    """
    if not testbed.topology.network.is_drawn:
        return
    lab = testbed.lab
    for flow in planned:
        pair = AddressPair(flow.host, flow.interface, flow.task.host, flow.peer_address)
        if flow.host in remote or pair.is_loopback:
            continue
        if lab is None:
            require_egress([pair], devices={})
        else:
            require_egress([pair], devices=lab.devices, namespace=lab.namespaces[flow.host])


def flow_parameters(planned: Sequence[PlannedFlow]) -> dict[str, Parameter]:
    """Flows as the manifest lists parameters."""
    return {flow.parameter: Parameter(flow.about) for flow in planned if flow.parameter}


def result_rows(planned: Sequence[PlannedFlow], reports: Mapping[int, FlowReport]) -> Columns:
    """Rows of the table of flows; one without a report has none."""
    rows = [
        {
            **_UNKNOWN,
            **flow.row,
            "is_complete": report.is_complete,
            **{name: value for name, value in asdict(figures).items() if name != "gaps"},
        }
        for flow in planned
        if (report := reports.get(flow.task.number)) is not None
        for figures in report.figures
    ]
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}


def gap_rows(planned: Sequence[PlannedFlow], reports: Mapping[int, FlowReport]) -> Columns:
    """Rows of the table of gaps in flows."""
    rows = [
        {"flow": flow.row["flow"], "direction": figures.direction, **asdict(gap)}
        for flow in planned
        if (report := reports.get(flow.task.number)) is not None
        for figures in report.figures
        for gap in figures.gaps
    ]
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}


def _peer(topology: Topology, name: str, where: str) -> Peer:
    peers = {host.name: host.peer for host in topology.hosts if host.peer is not None}
    if name not in peers:
        known = ", ".join(peers) or "none: give a host the key peer"
        raise PlanError(f"{where}: there is no peer {name!r} in {topology.source}; peers: {known}")
    return peers[name]


def _port(flow: Flow, peer: Peer, server: str, used: set[tuple[str, int]], where: str) -> int:
    """The next port at the server that no flow uses: a perftest serves one client."""
    port = flow.port or (peer.port if flow.role == "client" else DEFAULT_PORT)
    while (server, port) in used:
        port += 1
    if port > _LARGEST_PORT:
        raise PlanError(f"{where}: there is no port above {_LARGEST_PORT}: start with a lower one")
    used.add((server, port))
    return port


def _planned(number: int, flow: PerftestFlow, task: PeerTask, host: Host, interface: Interface) -> PlannedFlow:
    test, is_client = task.test, flow.role == "client"
    assert task.address is not None
    assert task.peer_address is not None
    length = "as long as the job"
    if not test.is_open_ended:
        each = " on each queue pair" if test.queue_pairs > 1 else ""
        length = f"{test.iterations:,} messages{each}" if test.iterations else f"{test.duration_s:g} s"
    pairs = f"{test.queue_pairs} queue pair{'s' if test.queue_pairs > 1 else ''}"
    both = ", bidirectional" if test.is_bidirectional else ""
    return PlannedFlow(
        task=FlowTask(
            number=number,
            kind=flow.kind,
            title=f"flow {number} ({flow.kind}, {host.name} {'to' if is_client else 'from'} {flow.peer})",
            host=task.address,
            interface=interface.name,
            document=msgspec.json.encode(task).decode(),
        ),
        host=host.name,
        interface=interface.name,
        peer_address=task.peer_address,
        parameter=f"flow.{number}",
        about=f"{test.verb.tool}, {host.name} is the {flow.role} of {flow.peer}: messages of "
        f"{format_size(test.size_bytes)}, {pairs}, path MTU {test.path_mtu}{both}, {length}",
        instruction=_instruction(flow, task),
        row={
            "flow": number,
            "kind": flow.kind,
            "host": host.name,
            "peer": flow.peer,
            "role": flow.role,
            "verb": test.verb.value,
            "size_bytes": test.size_bytes,
        },
    )


def _instruction(flow: PerftestFlow, task: PeerTask) -> str:
    """What somebody must do at the peer."""
    is_client = flow.role == "client"
    command = task.test.command(None if is_client else task.address, port=task.port, rdma_cm=task.rdma_cm)
    if is_client:
        return f"{flow.peer} must be running: {command} (this end is {task.address})"
    return f"{flow.peer} must run: {command}"


def _perftest(
    flow: PerftestFlow, peer: Peer, address: str, port: int, *, mtu: int | None, options: RoceOptions
) -> PeerTask:
    test, is_client = flow.test, flow.role == "client"
    if flow.path_mtu is None and mtu is not None:
        test = replace(test, path_mtu=min(roce_path_mtu(mtu, ipv6=":" in address), test.path_mtu))
    return PeerTask(
        test=test,
        server=peer.exchange if is_client else None,
        client="" if is_client else peer.exchange,
        port=port,
        address=address,
        peer_address=peer.address,
        options=options,
        exchange_address=address if is_client and peer.exchange == peer.address else None,
        rdma_cm=flow.rdma_cm,
    )


_MORE_ADDRESSES = 1 << 10
_RANK = re.compile(r"rank (\d{1,9})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFlow:
    """A flow that can be played, or one end of it if both are ends of ours.

    Attributes:
        task: for its agent.
        host, interface: of the topology that play it.
        peer_address: the only address that it sends to.
        parameter: its name in the manifest; "": another end has it.
        about: what it is, for people.
        instruction: what somebody must do at the peer; "": nothing.
        row: columns of the table of flows that are known before it is played.
    """

    task: FlowTask
    host: str
    interface: str
    peer_address: str
    parameter: str
    about: str
    instruction: str = ""
    row: Mapping[str, Any]


def find_host(topology: Topology, name: str, where: str) -> tuple[Host, Interface]:
    """The host and interface of `host`, of `host:interface`, or of `rank 3`.

    Raises:
        PlanError: the topology has none of that name.
    """
    if rank := _RANK.fullmatch(name):
        if int(rank[1]) >= topology.ranks:
            raise PlanError(f"{where}: there is no {name}; the last one is rank {topology.ranks - 1}")
        return topology.host_of(int(rank[1])), topology.interface_of(int(rank[1]))
    if topology.source is None:
        raise PlanError(f"{where}: without --topology there are no hosts: give a rank such as 'rank 0', not {name!r}")
    hosts = {host.name: host for host in topology.hosts if host.peer is None}
    host, _, port = (name, "", "") if name in hosts else name.rpartition(":")
    if host not in hosts:
        raise PlanError(f"{where}: there is no host {name!r} in {topology.source}; there are {', '.join(hosts)}")
    interfaces = {interface.name: interface for interface in hosts[host].interfaces}
    if port and port not in interfaces:
        raise PlanError(f"{where}: host {host} has no interface {port!r}; it has {', '.join(interfaces)}")
    return hosts[host], interfaces[port] if port else next(iter(interfaces.values()))


class FreeAddresses:
    """Addresses of interfaces that no rank uses: the last ones of a prefix or list.

    Args:
        topology: with a place for every rank.
        is_rocev2: ranks use UDP port 4791 of their addresses.
    """

    def __init__(self, topology: Topology, *, is_rocev2: bool) -> None:
        self._is_rocev2, self._used = is_rocev2, {*topology.addresses, *topology.alternates}
        self._last = topology.addresses[-1] if topology.source is None else None
        self._pools: dict[tuple[str, str], Iterator[str]] = {}

    def take(self, host: Host, interface: Interface, where: str) -> str:
        """One that nobody uses.

        Raises:
            PlanError: there is none.
        """
        pool = self._pools.setdefault((host.name, interface.name), self._pool(interface))
        address = next(pool, None)
        if address is None:
            what = "its address is that of its ranks" if interface.shared else "its ranks and flows use all addresses"
            raise PlanError(
                f"{where}: {interface.name} has no address left for the flow ({what}): add one in the "
                "topology, or use a larger prefix"
            )
        return address

    def _pool(self, interface: Interface) -> Iterator[str]:
        if interface.shared:
            if not self._is_rocev2 or interface.addresses[0] not in self._used:
                yield interface.addresses[0]
            return
        if interface.prefix is not None:
            network = ip_network(interface.prefix)
            last = int(network.broadcast_address) - (network.version == 4 and network.num_addresses > 2)
            first = int(network.network_address)
            numbers = range(last - first, 0, -1)
            candidates: Iterable[str] = (str(network.network_address + number) for number in numbers)
        elif self._last is not None:  # no file: all ranks are on loopback, and more addresses follow theirs
            last_rank = ip_address(self._last)
            candidates = (str(last_rank + number) for number in range(1, _MORE_ADDRESSES))
        else:
            candidates = reversed(interface.addresses)
        yield from (address for address in candidates if address not in self._used)
