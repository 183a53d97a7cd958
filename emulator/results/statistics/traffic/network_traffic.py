"""Which traffic of a run crossed the network, and how busy that made the ports.

Traffic between ranks of one host never leaves it: it says nothing about the device under test.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address

import numpy as np
import pyarrow as pa

from emulator.results.run_folder.manifest import Manifest
from emulator.results.statistics.samples.measured_rows import to_ints
from emulator.trace.meaning.model import BoolArray, IntArray
from emulator.units import BITS_PER_BYTE, NS_PER_S


@dataclass(frozen=True, slots=True)
class PortLoad:
    """Payload that one port sent or received per iteration, over the median JCT.

    Attributes:
        port: `h0:eth0`.
        direction: `sent` or `received`.
        bits_per_s: payload, bit/s. Headers and repeated packets come on top.
        rate_bps: line rate; None if the topology does not name it.
    """

    port: str
    direction: str
    bits_per_s: float
    rate_bps: int | None

    @property
    def percent(self) -> float | None:
        """Payload / line rate in percent; None without a line rate."""
        return None if self.rate_bps is None else 100 * self.bits_per_s / self.rate_bps


@dataclass(frozen=True, slots=True)
class NetworkTraffic:
    """What crossed the network.

    Attributes:
        share: of all payload, the part between hosts.
        payload_bytes: of an iteration, between hosts, each byte once.
        bytes_per_s: that over the median JCT; None without a complete iteration.
        busiest: the port with the highest share of its line rate, or with the most payload if rates are unknown.
    """

    share: float
    payload_bytes: int
    bytes_per_s: float | None
    busiest: PortLoad | None


def hosts_of_ranks(manifest: Manifest) -> Sequence[int]:
    """Rank -> host; empty if the run stayed on one host or on loopback addresses."""
    hosts: Sequence[int] = manifest.topology.get("host_index") or ()
    addresses = manifest.topology.get("addresses") or ()
    if len(set(hosts)) < 2 or any(ip_address(one).is_loopback for one in addresses):
        return ()
    return hosts


def crosses_ports(manifest: Manifest) -> bool:
    """Whether some rank is on another host than another; so they are where the run does not say where they were."""
    return bool(hosts_of_ranks(manifest)) or not manifest.topology.get("host_index")


def crosses_network(src: IntArray, dst: IntArray, manifest: Manifest) -> BoolArray | None:
    """Whether flows left their host; None if the run does not say where its ranks were.

    Args:
        src, dst: ranks and storage endpoints, shape (flows,).
    """
    places = len(manifest.topology.get("host_index") or ())
    if max(src.max(initial=-1), dst.max(initial=-1)) >= places:
        return None
    hosts = np.asarray(hosts_of_ranks(manifest) or [0] * places, np.int64)
    crosses: BoolArray = hosts[src] != hosts[dst]
    return crosses


def network_traffic(
    flows: pa.Table, manifest: Manifest, *, payload_bytes: int, jct_ns: float | None
) -> NetworkTraffic | None:
    """What crossed the network; None if nothing could, or no flow was counted.

    Args:
        flows: of the whole run. Every iteration moves the same payload, so shares are those of an iteration.
        payload_bytes: of an iteration, each byte once.
    """
    src, dst, sizes = to_ints(flows["src"]), to_ints(flows["dst"]), to_ints(flows["bytes"], null=0)
    between = crosses_network(src, dst, manifest)
    if between is None or not hosts_of_ranks(manifest) or not sizes.sum():
        return None
    share = float(sizes[between].sum() / sizes.sum())
    crossing = round(share * payload_bytes)
    seconds = jct_ns / NS_PER_S if jct_ns else None
    if seconds is None or not crossing:
        return NetworkTraffic(share, crossing, None, None)
    per_second = payload_bytes / float(sizes.sum()) / seconds
    loads = _loads(src[between], dst[between], sizes[between], manifest, per_second)
    busiest = max(loads, key=lambda one: (one.percent or 0.0, one.bits_per_s), default=None)
    return NetworkTraffic(share, crossing, crossing / seconds, busiest)


def _loads(src: IntArray, dst: IntArray, sizes: IntArray, manifest: Manifest, per_second: float) -> list[PortLoad]:
    """The load of every port in either direction; `per_second`: iterations a second / iterations in `sizes`."""
    hosts, of_ranks = manifest.topology.get("hosts") or (), manifest.topology["host_index"]
    ports = [host.get("interfaces") or [{}] for host in hosts]
    if not ports or not all("name" in one for of_host in ports for one in of_host):  # of an earlier version
        return []
    places = list(zip(of_ranks, manifest.topology.get("interface_index") or [0] * len(of_ranks), strict=True))
    loads = []
    for direction, ranks in (("sent", src), ("received", dst)):
        total: dict[tuple[int, int], int] = {}
        for rank, size in zip(ranks.tolist(), sizes.tolist(), strict=True):
            total[places[rank]] = total.get(places[rank], 0) + size
        for (host, number), size in total.items():
            interface = hosts[host]["interfaces"][number]
            name = f"{hosts[host]['name']}:{interface['name']}"
            loads.append(PortLoad(name, direction, BITS_PER_BYTE * size * per_second, interface.get("rate_bps")))
    return loads


_PREFIX = "multipath.path"


@dataclass(frozen=True, slots=True)
class PathCounts:
    """One entropy value, over all flows of a run, warm-up included.

    Attributes:
        path: number of the entropy value, from 0.
        packets, retransmits: sent, and those of them that had been sent before.
        lost, trimmed, marked: packets, as senders have learned.
        retirements: how often a sender stopped using it.
    """

    path: int
    packets: int
    retransmits: int
    lost: int
    trimmed: int
    marked: int
    retirements: int


def path_counts(manifest: Manifest) -> tuple[PathCounts, ...]:
    """By path; empty if no flow was sprayed, or the run did not complete."""
    found: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for host in manifest.hosts:
        for name, fact in host.transport.items():
            if name.startswith(_PREFIX) and isinstance(fact.value, int):
                path, _, counter = name.removeprefix(_PREFIX).partition(".")
                found[int(path)][counter] += fact.value
    return tuple(PathCounts(path, **found[path]) for path in sorted(found))
