"""The flows of a run with the most trouble: which ranks, queue pair and ports, and what the device dropped there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from emulator.results.run_folder.manifest import Manifest
from emulator.results.statistics.samples.measured_rows import to_ints
from emulator.results.statistics.traffic.dut_counters import DROPS, counter_series, device_nodes
from emulator.results.statistics.traffic.flow_counters import REFUSED, lost_packets

EVENTS = ("retransmits", "timeouts", "naks", "rnr_naks", "out_of_order", "ecn_marks", "copies")
_LOSS_COLUMNS = ("retransmits", "duplicates", "out_of_order")
FOCUS = 0.8
"""Share of all lost packets from which on a port is named."""


@dataclass(frozen=True, slots=True)
class WorstFlow:
    """A flow with events, over the whole run.

    Attributes:
        qpn: number of the receiving queue pair; None if the transport has none.
        source_port: UDP source port, which selects the path; None: several.
        source, destination: ports, `h0:eth0`; "" if the topology does not name them.
        packets: sent, repeated ones included.
        retransmissions: packets sent again.
        lost: packets that no receiver reported, see `lost_packets`; None if the transport does not count them.
        spurious: of the retransmissions, packets that had arrived.
        copies: packets that came twice although they were sent once: the network made the second one; None if the
            receiver cannot tell.
        timeouts, naks, out_of_order, ecn_marks: events.
        damaged: packets refused because of a wrong header, ICRC or payload.
        device_drops: frames that the device dropped at the two ports next to the flow's, whoever sent them; None if the
            device was not monitored, or dropped frames that it does not attribute to a port.
        iterations: those with events, ascending; warm-up is negative. Empty in runs that did not record them.
    """

    src: int
    dst: int
    qpn: int | None
    source_port: int | None
    source: str
    destination: str
    packets: int
    retransmissions: int
    lost: int | None
    spurious: int
    timeouts: int
    naks: int
    out_of_order: int
    ecn_marks: int
    damaged: int
    device_drops: int | None
    iterations: tuple[int, ...] = ()
    copies: int | None = None


@dataclass(frozen=True, slots=True)
class LossFocus:
    """Where most packets of a run were lost.

    Attributes:
        source, destination: ports; "": several.
        lost: packets lost between them.
        total: packets lost in all flows.
        port: of the device, which counted the frames that it dropped there, ACKs included; `destination` is then the
            other end of its link. "": the senders and receivers of the flows counted.
        where: how the device dropped them, as `in queues`, if it dropped others elsewhere; "": in any way.
    """

    source: str
    destination: str
    lost: int
    total: int
    port: str = ""
    where: str = ""


def loss_foci(flows: pa.Table, counters: pa.Table, manifest: Manifest) -> tuple[LossFocus, ...]:
    """Where packets of a run were lost: the main place, then those of other ways of dropping; empty if there is none.

    The main place is the pair of ports with FOCUS of all losses; else the port of a device with that much of all frames
    that devices dropped; else a port with it in one direction. A way of dropping with FOCUS of its frames at one other
    port is a cause of its own, however small beside the rest: one frame dropped by a rule, thirty in a full queue.
    """
    of_flows = _focus_of_flows(flows, manifest)
    of_devices = _foci_of_devices(counters, manifest)
    if of_flows and (not of_devices or (of_flows.source and of_flows.destination)):
        ways = tuple(one for one in of_devices if one.where)
        is_one_way = len(of_devices) == 2 and len({one.total for one in of_devices}) == len(ways) == 1
        is_said = is_one_way and ways[0].destination in (of_flows.source, of_flows.destination)
        return of_flows, *(() if is_said else ways)
    if of_devices and not of_devices[0].where:
        return of_devices[0], *(one for one in of_devices[1:] if one.port != of_devices[0].port)
    return of_devices


def _foci_of_devices(counters: pa.Table, manifest: Manifest) -> tuple[LossFocus, ...]:
    """Of all dropped frames, if they have one, and of those dropped in each way."""
    by_kind: dict[str, Counter[tuple[str, str]]] = {kind: Counter() for kind in DROPS}
    devices = device_nodes(manifest)
    for name, readings in counter_series(counters).items():
        if name.counter in DROPS and name.device in devices:
            by_kind[name.counter][name.device, name.interface] += readings.increase
    found = []
    for kind, dropped in {"": sum(by_kind.values(), Counter[tuple[str, str]]()), **by_kind}.items():
        (device, interface), lost = next(iter(dropped.most_common(1)), (("", ""), 0))
        if interface and lost >= max(1, FOCUS * dropped.total()):
            port = f"{device}:{interface}"
            is_host = port in ports_of_ranks(manifest).values()
            there = port if is_host else _link_ends(manifest).get(port, port)
            found.append(LossFocus("", there, lost, dropped.total(), port, DROPS.get(kind, "")))
    return tuple(found)


def _focus_of_flows(flows: pa.Table, manifest: Manifest) -> LossFocus | None:
    if any(flows[name].null_count for name in _LOSS_COLUMNS):
        return None
    ports, columns = ports_of_ranks(manifest), {name: to_ints(flows[name]) for name in ("src", "dst", *_LOSS_COLUMNS)}
    losses: Counter[tuple[str, str]] = Counter()
    for row in range(flows.num_rows):
        value = {name: int(column[row]) for name, column in columns.items()}
        losses[ports.get(value["src"], ""), ports.get(value["dst"], "")] += lost_packets(value, manifest) or 0
    total = losses.total()
    if not total or ("", "") in losses:
        return None
    sources: Counter[tuple[str, str]] = Counter()
    destinations: Counter[tuple[str, str]] = Counter()
    for (source, destination), lost in losses.items():
        sources[source, ""] += lost
        destinations["", destination] += lost
    for found in (losses, sources + destinations):
        (source, destination), lost = found.most_common(1)[0]
        if lost >= FOCUS * total:
            return LossFocus(source, destination, lost, total)
    return None


def worst_flows(
    flows: pa.Table, counters: pa.Table, manifest: Manifest, *, most: int, flow_events: pa.Table | None = None
) -> tuple[WorstFlow, ...]:
    """The flows with the most retransmissions, then timeouts, then other events; those without events are left out."""
    names = (*EVENTS, *REFUSED)
    columns = {name: to_ints(flows[name], null=0) for name in ("src", "dst", "packets", "duplicates", *names)}
    events = np.sum([columns[name] for name in names], axis=0)
    order = np.lexsort((-events, -columns["timeouts"], -columns["retransmits"]))
    chosen = [int(row) for row in order if events[row]][:most]
    if not chosen:
        return ()
    is_complete = not any(flows[name].null_count for name in _LOSS_COLUMNS)
    counted = {row: {name: int(column[row]) for name, column in columns.items()} for row in chosen}
    ports, drops = ports_of_ranks(manifest), drops_next_to(counters, manifest)
    ids = {name: flows[name].to_pylist() for name in ("qpn", "source_port", "copies")}
    when = iterations_of_flows(flow_events) if flow_events is not None else {}
    found = []
    for row in chosen:
        value = counted[row]
        source, destination = ports.get(value["src"], ""), ports.get(value["dst"], "")
        near = {port for port in (source, destination) if port}
        found.append(
            WorstFlow(
                value["src"],
                value["dst"],
                ids["qpn"][row],
                ids["source_port"][row],
                source,
                destination,
                packets=value["packets"],
                retransmissions=value["retransmits"],
                lost=lost_packets(counted[row], manifest) if is_complete else None,
                spurious=value["duplicates"],
                timeouts=value["timeouts"],
                naks=value["naks"] + value["rnr_naks"],
                out_of_order=value["out_of_order"],
                ecn_marks=value["ecn_marks"],
                damaged=sum(value[name] for name in REFUSED),
                device_drops=None if drops is None else sum(drops.get(port, 0) for port in near),
                iterations=when.get((value["src"], value["dst"], ids["qpn"][row]), ()),
                copies=ids["copies"][row],
            )
        )
    return tuple(found)


def iterations_of_flows(flow_events: pa.Table) -> Mapping[tuple[int, int, int | None], tuple[int, ...]]:
    """(source, destination, queue pair) -> iterations with events, ascending."""
    found: dict[tuple[int, int, int | None], list[int]] = {}
    columns = (flow_events[name].to_pylist() for name in ("src", "dst", "qpn", "iteration"))
    for src, dst, qpn, iteration in zip(*columns, strict=True):
        found.setdefault((src, dst, qpn), []).append(iteration)
    return {flow: tuple(sorted(iterations)) for flow, iterations in found.items()}


def ports_of_ranks(manifest: Manifest) -> Mapping[int, str]:
    """Rank -> `host:interface`; empty for runs that do not name them."""
    hosts: Sequence[Mapping[str, object]] = manifest.topology.get("hosts") or ()
    of_ranks: Sequence[int] = manifest.topology.get("host_index") or ()
    numbers: Sequence[int] = manifest.topology.get("interface_index") or [0] * len(of_ranks)
    found = {}
    for rank, (host, number) in enumerate(zip(of_ranks, numbers, strict=True)):
        interfaces = hosts[host].get("interfaces") if host < len(hosts) else None
        if isinstance(interfaces, Sequence) and number < len(interfaces) and "name" in interfaces[number]:
            found[rank] = f"{hosts[host]['name']}:{interfaces[number]['name']}"
    return found


def endpoint_names(manifest: Manifest) -> list[str]:
    """Ends of flows by number: a rank is its number, an endpoint of a storage host is `host:interface`."""
    ranks = manifest.trace.ranks
    ports, endpoints = ports_of_ranks(manifest), len(manifest.topology.get("host_index") or ())
    storage = [ports.get(endpoint, f"storage {endpoint - ranks}") for endpoint in range(ranks, endpoints)]
    return [*map(str, range(ranks)), *storage]


def _link_ends(manifest: Manifest) -> Mapping[str, str]:
    """Either end of a link -> the other, as `device:port`."""
    network = manifest.topology.get("network") or {}
    peers = dict(tuple(link["ends"]) for link in network.get("links", ()))
    return peers | {there: here for here, there in peers.items()}


def drops_next_to(
    counters: pa.Table, manifest: Manifest, *, between_ns: tuple[int, int] | None = None
) -> Mapping[str, int] | None:
    """Port of a host -> frames dropped at the port of the device that it is connected to; None if that is not known.

    Args:
        between_ns: from the last reading before to the first one after; None: in the whole run.
    """
    if not counters.num_rows:
        return None
    peers = _link_ends(manifest)
    dropped: dict[str, int] = {}
    for name, readings in counter_series(counters).items():
        increase = readings.increase if between_ns is None else readings.increase_around(*between_ns)
        if name.counter in DROPS and increase:
            if not name.interface:
                return None
            port = peers.get(f"{name.device}:{name.interface}")
            if port is not None:
                dropped[port] = dropped.get(port, 0) + increase
    return dropped
