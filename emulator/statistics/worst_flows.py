"""The flows of a run with the most trouble: which ranks, queue pair and ports, and what the device dropped there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from emulator.run_folder.manifest import Manifest
from emulator.statistics.dut_counters import DROPS, counter_series, device_nodes
from emulator.statistics.retransmissions import lost_packets
from emulator.statistics.table_columns import to_ints

EVENTS = ("retransmits", "timeouts", "naks", "rnr_naks", "out_of_order", "ecn_marks")
_LOSS_COLUMNS = ("retransmits", "duplicates", "out_of_order")
FOCUS = 0.8
"""Share of all lost packets from which on a port is named."""
INTEGRITY = ("dropped_header", "dropped_icrc", "dropped_payload")


@dataclass(frozen=True, slots=True)
class WorstFlow:
    """A flow with events, over the whole run.

    Attributes:
        src, dst: ranks.
        qpn: number of the receiving queue pair; None if the transport has none.
        source_port: UDP source port, which selects the path; None: several.
        source, destination: ports, `h0:eth0`; "" if the topology does not name them.
        packets: sent, repeated ones included.
        retransmissions: packets sent again.
        lost: packets that no receiver reported, see retransmissions.py; None if the transport does not count them.
        spurious: of the retransmissions, packets that had arrived (duplicates at the receiver).
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


def loss_focus(flows: pa.Table, counters: pa.Table, manifest: Manifest) -> LossFocus | None:
    """The port, or the pair of ports, with most of the lost packets; None if there is none, or nothing was lost.

    A pair is named if it has FOCUS of all losses; else the port of a device that has that much of all frames that
    devices dropped, or of those dropped in one way; else a port that has it in one direction.

    Args:
        flows, counters: tables of the run.
        manifest: of the run.
    """
    of_flows = _focus_of_flows(flows, manifest)
    is_pair = of_flows is not None and bool(of_flows.source and of_flows.destination)
    return of_flows if is_pair else _focus_of_devices(counters, manifest) or of_flows


def _focus_of_devices(counters: pa.Table, manifest: Manifest) -> LossFocus | None:
    """Of all dropped frames; else of those dropped in one way, while others were dropped everywhere."""
    by_kind: dict[str, Counter[tuple[str, str]]] = {kind: Counter() for kind in DROPS}
    devices = device_nodes(manifest)
    for name, readings in counter_series(counters).items():
        if name.counter in DROPS and name.device in devices:
            by_kind[name.counter][name.device, name.interface] += readings.increase
    for kind, dropped in {"": sum(by_kind.values(), Counter[tuple[str, str]]()), **by_kind}.items():
        (device, interface), lost = next(iter(dropped.most_common(1)), (("", ""), 0))
        if interface and lost >= max(1, FOCUS * dropped.total()):
            port = f"{device}:{interface}"
            is_host = port in ports_of_ranks(manifest).values()
            there = port if is_host else _link_ends(manifest).get(port, port)
            return LossFocus("", there, lost, dropped.total(), port, DROPS.get(kind, ""))
    return None


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
    """The flows with the most retransmissions, then timeouts, then other events; those without events are left out.

    Args:
        flows, counters: tables of the run.
        manifest: of the run.
        most: how many at most.
        flow_events: another table of the run.
    """
    names = (*EVENTS, *INTEGRITY)
    columns = {name: to_ints(flows[name], null=0) for name in ("src", "dst", "packets", "duplicates", *names)}
    events = np.sum([columns[name] for name in names], axis=0)
    order = np.lexsort((-events, -columns["timeouts"], -columns["retransmits"]))
    chosen = [int(row) for row in order if events[row]][:most]
    if not chosen:
        return ()
    is_complete = not any(flows[name].null_count for name in _LOSS_COLUMNS)
    counted = {row: {name: int(column[row]) for name, column in columns.items()} for row in chosen}
    ports, drops = ports_of_ranks(manifest), drops_next_to(counters, manifest)
    ids = {name: flows[name].to_pylist() for name in ("qpn", "source_port")}
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
                damaged=sum(value[name] for name in INTEGRITY),
                device_drops=None if drops is None else sum(drops.get(port, 0) for port in near),
                iterations=when.get((value["src"], value["dst"], ids["qpn"][row]), ()),
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
        counters: table of the run.
        manifest: of the run.
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
