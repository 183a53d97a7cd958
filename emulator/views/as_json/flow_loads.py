"""Flows beside a job as JSON, before they are played; null for what depends on the time there is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from emulator.planner.network.flow_loads import FlowLoad, LinkLoad
from emulator.topology.paths import Paths


def flows_to_json(loads: Sequence[FlowLoad]) -> list[dict[str, Any]]:
    """A document for each direction of each flow."""
    return [
        {
            "flow": load.number,
            "kind": load.kind,
            "from": str(load.sender),
            "to": str(load.receiver),
            "payload_bytes": load.payload_bytes,
            "about": load.about,
        }
        for load in loads
    ]


def flow_links_to_json(links: Sequence[LinkLoad], paths: Paths) -> list[dict[str, Any]]:
    """A document for each directed link that they cross."""
    return [
        {
            "link": paths.link_name(one.link),
            "rate_bps": paths.network.links[one.link >> 1].rate_bps,
            "payload_bytes": one.payload_bytes,
            "unlimited_flows": one.unlimited,
        }
        for one in links
    ]
