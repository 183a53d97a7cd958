"""Columns of the tables of a plan: operations, links by tier, and equal-cost paths."""

from __future__ import annotations

from emulator.planner.network.load_balance import EqualCost, Tier
from emulator.planner.network.plan import OperationPlan
from emulator.results.statistics.method.nccl_conventions import nccl_size
from emulator.units import format_size
from emulator.views.columns.columns import Column, unshown
from emulator.views.columns.figures import NONE, count_cell, duration_cell, link_rate_cell

_IDEAL = {
    "domains": "domain_ns",
    "ports": "port_ns",
    "links": "ideal_ns",
    "hashed": "hashed_ns",
    "fair_steps": "fair_ns",
    "together": "together_ns",
    "together_hashed": "together_hashed_ns",
}
"""Key in JSON -> attribute."""


def _ratio(value: float | None) -> str:
    return NONE if value is None else f"{value:.3f}"


OPERATION_COLUMNS: tuple[Column[OperationPlan], ...] = (
    Column(
        "operation",
        "kind of communication and collective algorithm; before a colon, its role in the training iteration",
        key="operation",
        value=lambda one: one.operation.kind.label,
        cell=lambda one: _operation_name(one),
        is_number=False,
        folds=16,
    ),
    unshown("role", lambda one: one.operation.role),
    unshown("algorithm", lambda one: one.operation.algorithm),
    Column(
        "size",
        "array size, counted as in nccl-tests",
        key="size_bytes",
        value=lambda one: one.operation.size_bytes,
        cell=lambda one: format_size(
            nccl_size(one.operation.kind, size_bytes=one.operation.size_bytes, members=one.operation.members)
        ),
    ),
    Column(
        "groups",
        "number of process groups x ranks in each",
        key="groups",
        value=lambda one: one.operation.groups,
        cell=lambda one: f"{one.operation.groups:,} x {one.operation.members:,}",
    ),
    unshown("group_size", lambda one: one.operation.members),
    Column(
        "count",
        "times it is played in an iteration, over all groups",
        key="count",
        value=lambda one: int(one.operation.counts.sum()),
        show=count_cell,
    ),
    unshown("network_bytes"),
    unshown("local_bytes"),
    unshown("domain_bytes"),
    Column(
        "flow",
        "most bytes from one rank to another in one operation",
        key="flows",
        value=lambda one: one.flows._asdict(),
        cell=lambda one: format_size(one.flows.most) if one.flows.flows else NONE,
        sacrifice=3,
    ),
    Column(
        "incast\nrank",
        "most senders to one rank in a step of the algorithm",
        key="incast",
        value=lambda one: one.incast._asdict(),
        cell=lambda one: f"{one.incast.rank:,}",
        sacrifice=2,
    ),
    Column(
        "\nport",
        "most senders on other hosts to one host port in a step",
        cell=lambda one: f"{one.incast.port:,}",
        title="incast port",
        sacrifice=1,
    ),
    Column(
        "ideal\nports",
        "lower bound of the time, from the rates of the hosts' ports and of domains",
        cell=lambda one: duration_cell(one.port_ns),
    ),
    Column(
        "\ndomain",
        "lower bound of the time, from the rates of scale-up domains only",
        cell=lambda one: duration_cell(one.domain_ns) if one.domain_bytes else NONE,
        title="ideal domain",
        is_optional=True,
    ),
    Column(
        "\nlinks",
        "lower bound from every link on the way, with equal-cost paths loaded evenly",
        cell=lambda one: duration_cell(one.ideal_ns),
        title="ideal links",
    ),
    Column(
        "\nhashed",
        "the same, with every flow on the path its hash selects",
        cell=lambda one: duration_cell(one.hashed_ns),
        title="ideal hashed",
    ),
    Column(
        "fair\nsteps",
        "model: steps wait for their receives, flows share links max-min fairly, on hashed paths",
        cell=lambda one: duration_cell(one.fair_ns),
        sacrifice=5,
    ),
    Column(
        "all at\nonce",
        "ideal hashed with all groups playing at the same time",
        cell=lambda one: duration_cell(one.together_hashed_ns),
        sacrifice=6,
    ),
    unshown("ideal_ns", lambda one: {name: getattr(one, field) for name, field in _IDEAL.items()}),
)
TIER_COLUMNS: tuple[Column[Tier], ...] = (
    Column(
        "links",
        "directed links from one level of the network to another",
        cell=lambda one: f"{one.source} > {one.target}",
        is_number=False,
    ),
    Column("number", "links of this tier", cell=lambda one: f"{one.even.links:,}"),
    Column("rate", "rate of each link", key="rate_bps", show=link_rate_cell),
    Column(
        "mean\nload",
        "payload per link in an iteration, including idle links",
        cell=lambda one: format_size(round(one.even.mean_bytes)),
    ),
    Column(
        "shared evenly\nmost",
        "load of the most loaded link if equal-cost paths share the load evenly",
        cell=lambda one: format_size(round(one.even.most_bytes)),
    ),
    Column(
        "hashed\nmost",
        "load of the most loaded link with one path per flow",
        cell=lambda one: format_size(round(one.hashed.most_bytes)),
    ),
    Column(
        "\nMMR", "max-to-mean ratio with hashing: 1 = even", cell=lambda one: _ratio(one.hashed.mmr), title="hashed MMR"
    ),
    Column(
        "\nJain",
        "Jain's fairness index with hashing: 1 = even, 1/n = one link carries everything",
        cell=lambda one: _ratio(one.hashed.jain),
        title="hashed Jain",
    ),
)
CHOICE_COLUMNS: tuple[Column[EqualCost], ...] = (
    Column("ECMP at", "switch that chooses among equal-cost links", key="switch", is_number=False),
    Column("links", "links it chooses among", cell=lambda one: f"{len(one.links):,}"),
    Column("flows", "flows over these links", cell=lambda one: f"{sum(one.flows):,}"),
    Column("most on a link", "most flows on one of the links", cell=lambda one: f"{max(one.flows):,}"),
    Column("collisions", "flows above the even share of their link", key="collisions", show=count_cell),
    Column("MMR", "max-to-mean ratio of the loads: 1 = even", cell=lambda one: _ratio(one.hashed.mmr)),
    Column("Jain", "Jain's fairness index of the loads: 1 = even", cell=lambda one: _ratio(one.hashed.jain)),
)


def _operation_name(plan: OperationPlan) -> str:
    operation = plan.operation
    name = f"{operation.kind.label} {operation.algorithm}" if operation.kind.is_collective else operation.kind.label
    return f"{operation.role}: {name}" if operation.role else name
