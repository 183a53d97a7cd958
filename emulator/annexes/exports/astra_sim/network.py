"""The simulated network: its dimensions, and the file that describes them to ASTRA-sim.

Source: astra-network-analytical: GB/s of 2^30 B/s; a message through a Switch takes two hops, so twice the latency.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import yaml

from emulator.annexes.exports.astra_sim.fit import Fit
from emulator.annexes.exports.astra_sim.observe import LinkClass

GB = 1 << 30
_SWITCH_HOPS = 2
_ACROSS = (LinkClass.BETWEEN_HOSTS, LinkClass.MIXED, LinkClass.WITHIN_HOST)
"""Whose fit a network of one dimension between several hosts gets: the first that has one."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """A dimension of the simulated network, the innermost first; `fit` is None if nothing gave a fit for it."""

    ranks: int
    link: LinkClass
    fit: Fit | None


def dimensions(ranks: int, host_index: Sequence[int], fits: Mapping[LinkClass, Fit | None]) -> list[Dimension]:
    """The simulated network: one switch, or a switch in each host and one between if all hosts have equal blocks.

    Args:
        ranks: of the trace.
        host_index: host per rank; empty: all on one host.
        fits: by link class.
    """
    hosts = len(set(host_index))
    within, between = fits.get(LinkClass.WITHIN_HOST), fits.get(LinkClass.BETWEEN_HOSTS)
    if hosts < 2:
        return [Dimension(ranks, LinkClass.WITHIN_HOST, within)]
    per_host = ranks // hosts
    is_block = list(host_index) == [rank // per_host for rank in range(ranks)] if per_host else False
    if per_host > 1 and is_block and within and between:
        return [
            Dimension(per_host, LinkClass.WITHIN_HOST, within),
            Dimension(hosts, LinkClass.BETWEEN_HOSTS, between),
        ]
    link = next((one for one in _ACROSS if fits.get(one)), LinkClass.BETWEEN_HOSTS)
    return [Dimension(ranks, link, fits.get(link))]


def to_yaml(network: Sequence[Dimension]) -> str:
    """network.yml; without a fit it has placeholders, which a replay reads and does not use."""
    known = [one.fit for one in network]
    lines = {
        "topology": ["Switch"] * len(network),
        "npus_count": [one.ranks for one in network],
        "bandwidth": [round(one.bandwidth_bytes_per_s / GB, 6) if one else 1.0 for one in known],
        "latency": [round(one.latency_ns / _SWITCH_HOPS, 3) if one else 0.0 for one in known],
    }
    text = "# bandwidth in GB/s of 2^30 B/s, latency in ns per hop (two hops through a switch); see fit.json\n"
    if None in known:
        text += "# PLACEHOLDERS: nothing was measured that gives a fit; for replaying only\n"
    return text + yaml.safe_dump(lines, default_flow_style=None, sort_keys=False)
