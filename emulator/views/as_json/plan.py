"""A plan as a JSON document: bytes, ns and bit/s; null for an unknown value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from emulator.planner.network.flow_loads import FlowLoad, LinkLoad
from emulator.planner.network.load_balance import (
    equal_cost,
    observed_difference,
    oversubscription,
    tiers,
)
from emulator.planner.network.plan import Plan
from emulator.topology.paths import Paths
from emulator.views.columns.columns import row_to_json
from emulator.views.columns.plan_columns import CHOICE_COLUMNS, OPERATION_COLUMNS, TIER_COLUMNS

LISTED_LINKS = 4096
"""Links in the document; if there are more, the most loaded ones."""


def plan_to_json(plan: Plan, *, jct_ns: int | None, jct_note: str) -> dict[str, Any]:
    """A plan with all its operations, links and flows.

    Args:
        jct_ns: lower bound of an iteration; None if unknown.
        jct_note: what the bound is made of.
    """
    return {
        "topology": {"name": plan.topology.name, "source": plan.topology.source, "hosts": len(plan.topology.hosts)},
        "ranks": plan.topology.ranks,
        "storage_endpoints": plan.topology.storage_endpoints,
        "overhead": {
            "payload_bytes": plan.overhead.payload_bytes,
            "wire_bytes": plan.overhead.wire_bytes,
            "factor": float(plan.overhead.factor),
        },
        "seed": plan.seed,
        "hash": plan.hash_name,
        "entropy_values": plan.entropy_values,
        "observed_difference": observed_difference(plan),
        "network_bytes": plan.network_bytes,
        "local_bytes": plan.local_bytes,
        "domain_bytes": plan.domain_bytes,
        "jct_ns": jct_ns,
        "jct": jct_note,
        "operations": [row_to_json(OPERATION_COLUMNS, operation) for operation in plan.operations],
        "tiers": [asdict(tier) | row_to_json(TIER_COLUMNS, tier) for tier in tiers(plan)],
        "equal_cost": [asdict(choice) | row_to_json(CHOICE_COLUMNS, choice) for choice in equal_cost(plan)],
        "oversubscription": [asdict(one) | {"ratio": one.ratio} for one in oversubscription(plan.paths)],
        **_links_json(plan),
        "flows": None if plan.flows is None else [flow._asdict() for flow in plan.flows],
    }


def _links_json(plan: Plan) -> dict[str, Any]:
    """Loads by directed link; the ports of hosts are the links from and to hosts."""
    loads = plan.loads
    order = np.argsort(-np.maximum(loads.even, loads.hashed), kind="stable")[:LISTED_LINKS]
    chosen = np.sort(order).tolist()
    links = [
        {
            "link": plan.paths.link_name(link),
            "rate_bps": None if np.isnan(loads.rate_bps[link]) else int(loads.rate_bps[link]),
            "even_bytes": float(loads.even[link]),
            "hashed_bytes": float(loads.hashed[link]),
            "flows": int(loads.flows[link]),
        }
        for link in chosen
    ]
    return {"links": links, "links_left_out": len(loads.even) - len(links)}


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
