"""A plan for people and for machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from emulator.planner.network.balance import (
    Balance,
    EqualCost,
    Oversubscription,
    Tier,
    equal_cost,
    observed_difference,
    oversubscription,
    tiers,
)
from emulator.planner.network.plan import OperationPlan, Plan
from emulator.statistics.collectives import nccl_size
from emulator.units import format_duration, format_size
from emulator.views.terminal.plan_picture import picture
from emulator.views.terminal.summary_table import NONE
from emulator.visible import visible

SHOWN_OPERATIONS = 24
SHOWN_CHOICES = 8
SHOWN_FLOWS = 6
_HASHES = {
    "linux": "Linux's, over addresses and ports: the paths that flows take in a lab",
    "own": "one of many: a real switch has other collisions, but as many",
}
LISTED_LINKS = 4096
"""Links in the JSON; of more only the most loaded."""


def render(plan: Plan, *, jct_ns: int | None, jct_note: str, width: int) -> RenderableType:
    """The report of `charkha plan`.

    Args:
        plan: what to show.
        jct_ns: least time of an iteration; None where unknown.
        jct_note: what that time is made of.
        width: columns.
    """
    parts: list[RenderableType] = [Text(_headline(plan)), "", _operations(plan.operations)]
    if plan.network_bytes:
        tables = (_tiers(tiers(plan)), *_choices(equal_cost(plan)))
        parts += [part for table in tables for part in ("", table)] + ["", picture(plan, width=width)]
    parts += [Text(line) for line in _facts(plan, jct_ns, jct_note)]
    return Group(*parts)


def to_json(plan: Plan, *, jct_ns: int | None, jct_note: str) -> dict[str, Any]:
    """The same for machines: bytes, ns and bit/s; null where something is unknown."""
    return {
        "topology": {"name": plan.topology.name, "source": plan.topology.source, "hosts": len(plan.topology.hosts)},
        "ranks": plan.topology.ranks,
        "overhead": {
            "payload_bytes": plan.overhead.payload_bytes,
            "wire_bytes": plan.overhead.wire_bytes,
            "factor": float(plan.overhead.factor),
        },
        "seed": plan.seed,
        "hash": plan.hash_name,
        "observed_difference": observed_difference(plan),
        "network_bytes": plan.network_bytes,
        "local_bytes": plan.local_bytes,
        "jct_ns": jct_ns,
        "jct": jct_note,
        "operations": [_operation_json(operation) for operation in plan.operations],
        "tiers": [_tier_json(tier) for tier in tiers(plan)],
        "equal_cost": [_choice_json(choice) for choice in equal_cost(plan)],
        "oversubscription": [_oversubscription_json(switch) for switch in oversubscription(plan.paths)],
        **_links_json(plan),
        **_flows_json(plan),
    }


def _headline(plan: Plan) -> str:
    name, used = visible(plan.topology.name), len(set(plan.topology.host_index))
    factor = float(plan.overhead.factor)
    return (
        f"{name}: {plan.topology.ranks:,} ranks on {used:,} of {len(plan.topology.hosts):,} hosts, "
        f"{factor:.4f} bytes on the wire per byte of payload"
    )


def _table() -> Table:
    return Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)


def _operations(operations: Sequence[OperationPlan]) -> Table:
    table = _table()
    table.add_column("operation", overflow="fold")
    titles = ("size", "groups", "count", "flow", "incast\nrank", "\nport", "ideal\nports", "\nlinks", "\nhashed")
    for title in (*titles, "fair\nsteps", "queued\nsteps", "all at\nonce"):
        table.add_column(title, justify="right", no_wrap=True)
    for plan in operations[:SHOWN_OPERATIONS]:
        table.add_row(*_operation_cells(plan))
    if len(operations) > SHOWN_OPERATIONS:
        table.add_row(f"… {len(operations) - SHOWN_OPERATIONS} more in --json")
    return table


def _operation_cells(plan: OperationPlan) -> Iterator[str]:
    operation = plan.operation
    name = f"{operation.kind.label} {operation.algorithm}" if operation.kind.is_collective else operation.kind.label
    yield f"{operation.role}: {name}" if operation.role else name
    yield format_size(nccl_size(operation.kind, size_bytes=operation.size_bytes, members=operation.members))
    yield f"{operation.groups:,} x {operation.members:,}"
    yield f"{int(operation.counts.sum()):,}"
    yield format_size(plan.flows.most) if plan.flows.flows else NONE
    yield f"{plan.incast.rank:,}"
    yield f"{plan.incast.port:,}"
    yield from map(_time, (plan.port_ns, plan.ideal_ns, plan.hashed_ns, plan.fair_ns, plan.queued_ns))
    yield _time(plan.together_hashed_ns)


def _tiers(found: Sequence[Tier]) -> Table:
    table = _table()
    table.add_column("links", no_wrap=True)
    titles = ("number", "rate", "mean\nload", "shared evenly\nmost", "hashed\nmost", "\nMMR", "\nJain")
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True)
    for tier in found:
        table.add_row(
            f"{tier.source} > {tier.target}",
            f"{tier.even.links:,}",
            format_rate(tier.rate_bps),
            format_size(round(tier.even.mean)),
            format_size(round(tier.even.most)),
            format_size(round(tier.hashed.most)),
            _ratio(tier.hashed.mmr),
            _ratio(tier.hashed.jain),
        )
    return table


def _choices(found: Sequence[EqualCost]) -> Iterator[Table]:
    if not found:
        return
    table = _table()
    table.add_column("ECMP at", no_wrap=True)
    for title in ("links", "flows", "most on a link", "collisions", "MMR", "Jain"):
        table.add_column(title, justify="right", no_wrap=True)
    for choice in found[:SHOWN_CHOICES]:
        flows = (f"{value:,}" for value in (sum(choice.flows), max(choice.flows), choice.collisions))
        table.add_row(
            choice.switch, f"{len(choice.links):,}", *flows, _ratio(choice.hashed.mmr), _ratio(choice.hashed.jain)
        )
    if len(found) > SHOWN_CHOICES:
        table.add_row(f"… {len(found) - SHOWN_CHOICES:,} switches more, less uneven")
    yield table


def _facts(plan: Plan, jct_ns: int | None, jct_note: str) -> Iterator[str]:
    yield ""
    yield f"Payload          {format_size(plan.network_bytes)} between hosts, {format_size(plan.local_bytes)} within"
    ratios = sorted({round(switch.ratio, 3) for switch in oversubscription(plan.paths)})
    if ratios:
        shown = f"{ratios[0]:g}:1" if len(ratios) == 1 else f"{ratios[0]:g}:1 to {ratios[-1]:g}:1"
        yield f"Oversubscription {shown}, hosts' ports to uplinks of their switch"
    if plan.loads.is_choice.any():
        yield f"Hash             {_HASHES[plan.hash_name]}, seed {plan.seed}"
    difference = observed_difference(plan)
    if difference is not None:
        yield f"Link loads       shares of equal-cost links as given and as hashed differ by up to {difference:.1%}"
    for number, flow in enumerate((plan.flows or ())[:SHOWN_FLOWS]):
        title = "Largest flows   " if not number else " " * 16
        yield f"{title} rank {flow.sender} > rank {flow.receiver}: {format_size(flow.bytes)}"
    if jct_note:
        yield f"Ideal JCT        {_time(jct_ns)}: {jct_note}"


def _operation_json(plan: OperationPlan) -> dict[str, Any]:
    operation = plan.operation
    return {
        "operation": operation.kind.label,
        "role": operation.role,
        "algorithm": operation.algorithm,
        "size_bytes": operation.size_bytes,
        "groups": operation.groups,
        "group_size": operation.members,
        "count": int(operation.counts.sum()),
        "network_bytes": plan.network_bytes_total,
        "local_bytes": plan.local_bytes_total,
        "flows": plan.flows._asdict(),
        "incast": plan.incast._asdict(),
        "ideal_ns": {
            "ports": plan.port_ns,
            "links": plan.ideal_ns,
            "hashed": plan.hashed_ns,
            "fair_steps": plan.fair_ns,
            "queued_steps": plan.queued_ns,
            "together": plan.together_ns,
            "together_hashed": plan.together_hashed_ns,
        },
    }


def _tier_json(tier: Tier) -> dict[str, Any]:
    return {
        "source": tier.source,
        "target": tier.target,
        "rate_bps": tier.rate_bps,
        "even": _balance_json(tier.even),
        "hashed": _balance_json(tier.hashed),
    }


def _balance_json(balance: Balance) -> dict[str, Any]:
    return {
        "links": balance.links,
        "mean_bytes": balance.mean,
        "most_bytes": balance.most,
        "mmr": balance.mmr,
        "jain": balance.jain,
    }


def _choice_json(choice: EqualCost) -> dict[str, Any]:
    return {
        "switch": choice.switch,
        "links": list(choice.links),
        "flows": list(choice.flows),
        "collisions": choice.collisions,
        "hashed": _balance_json(choice.hashed),
    }


def _oversubscription_json(switch: Oversubscription) -> dict[str, Any]:
    return {"switch": switch.switch, "down_bps": switch.down_bps, "up_bps": switch.up_bps, "ratio": switch.ratio}


def _links_json(plan: Plan) -> dict[str, Any]:
    """Loads by link; hosts' ports are the links from and to hosts."""
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


def _flows_json(plan: Plan) -> dict[str, Any]:
    return {"flows": None if plan.flows is None else [flow._asdict() for flow in plan.flows]}


def format_rate(rate_bps: float | None) -> str:
    """A rate for people: `100 Gbit/s`."""
    if rate_bps is None:
        return NONE
    for unit, factor in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if rate_bps >= factor:
            return f"{rate_bps / factor:.4g} {unit}bit/s"
    return f"{rate_bps:.0f} bit/s"


def _time(value: int | None) -> str:
    return NONE if value is None else format_duration(value)


def _ratio(value: float | None) -> str:
    return NONE if value is None else f"{value:.3f}"
