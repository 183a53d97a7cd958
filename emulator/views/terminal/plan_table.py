"""A plan for a terminal: a line per operation, the balance of the links, and a picture of the network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from emulator.planner.network.flow_loads import FlowLoad, LinkLoad
from emulator.planner.network.load_balance import (
    EqualCost,
    Tier,
    equal_cost,
    observed_difference,
    oversubscription,
    tiers,
)
from emulator.planner.network.plan import OperationPlan, Plan
from emulator.results.statistics.method.nccl_conventions import nccl_size
from emulator.units import format_size
from emulator.views.columns.columns import Column, explain, paragraphs
from emulator.views.columns.figures import NONE, count_cell, count_of, duration_cell, link_rate_cell
from emulator.views.terminal.flow_load_table import flow_table, link_table
from emulator.views.terminal.plan_picture import picture
from emulator.views.terminal.table import FittedTable
from emulator.visible import visible

SHOWN_OPERATIONS = 24
SHOWN_CHOICES = 8
SHOWN_FLOWS = 6
_HASHES = {
    "linux": "that of Linux over addresses and ports: flows take the same paths as in a lab",
    "own": "a model: a real switch has different collisions, but about as many",
}


def _ratio(value: float | None) -> str:
    return NONE if value is None else f"{value:.3f}"


_OPERATIONS: tuple[Column[OperationPlan], ...] = (
    Column(
        "operation",
        "kind of communication and collective algorithm; before a colon, its role in the training iteration",
        cell=lambda one: _operation_name(one),
        is_number=False,
        folds=16,
    ),
    Column(
        "size",
        "array size, counted as in nccl-tests",
        cell=lambda one: format_size(
            nccl_size(one.operation.kind, size_bytes=one.operation.size_bytes, members=one.operation.members)
        ),
    ),
    Column(
        "groups",
        "number of process groups x ranks in each",
        cell=lambda one: f"{one.operation.groups:,} x {one.operation.members:,}",
    ),
    Column(
        "count",
        "times it is played in an iteration, over all groups",
        cell=lambda one: f"{int(one.operation.counts.sum()):,}",
    ),
    Column(
        "flow",
        "most bytes from one rank to another in one operation",
        cell=lambda one: format_size(one.flows.most) if one.flows.flows else NONE,
        sacrifice=3,
    ),
    Column(
        "incast\nrank",
        "most senders to one rank in a step of the algorithm",
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
        key="port_ns",
        show=duration_cell,
    ),
    Column(
        "\ndomain",
        "lower bound of the time, from the rates of scale-up domains only",
        key="domain_ns",
        cell=lambda one: duration_cell(one.domain_ns) if one.domain_bytes else NONE,
        title="ideal domain",
        is_optional=True,
    ),
    Column(
        "\nlinks",
        "lower bound from every link on the way, with equal-cost paths loaded evenly",
        key="ideal_ns",
        show=duration_cell,
        title="ideal links",
    ),
    Column(
        "\nhashed",
        "the same, with every flow on the path its hash selects",
        key="hashed_ns",
        show=duration_cell,
        title="ideal hashed",
    ),
    Column(
        "fair\nsteps",
        "model: steps wait for their receives, flows share links max-min fairly, on hashed paths",
        key="fair_ns",
        show=duration_cell,
        sacrifice=5,
    ),
    Column(
        "all at\nonce",
        "ideal hashed with all groups playing at the same time",
        key="together_hashed_ns",
        show=duration_cell,
        sacrifice=6,
    ),
)
_TIERS: tuple[Column[Tier], ...] = (
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
_CHOICES: tuple[Column[EqualCost], ...] = (
    Column("ECMP at", "switch that chooses among equal-cost links", key="switch", is_number=False),
    Column("links", "links it chooses among", cell=lambda one: f"{len(one.links):,}"),
    Column("flows", "flows over these links", cell=lambda one: f"{sum(one.flows):,}"),
    Column("most on a link", "most flows on one of the links", cell=lambda one: f"{max(one.flows):,}"),
    Column("collisions", "flows above the even share of their link", key="collisions", show=count_cell),
    Column("MMR", "max-to-mean ratio of the loads: 1 = even", cell=lambda one: _ratio(one.hashed.mmr)),
    Column("Jain", "Jain's fairness index of the loads: 1 = even", cell=lambda one: _ratio(one.hashed.jain)),
)
EXPLAIN = paragraphs(
    explain(_OPERATIONS, title="Operations; a time is that of the slowest group:"),
    explain(_TIERS, title="Links by tier; loads are payload of one iteration:"),
    explain(_CHOICES, title="Equal-cost paths:"),
)


def render(
    plan: Plan,
    *,
    jct_ns: int | None,
    jct_note: str,
    width: int,
    flows: Sequence[FlowLoad] = (),
    flow_links: Sequence[LinkLoad] = (),
) -> RenderableType:
    """The report of `charkha plan`.

    Args:
        jct_ns: lower bound of an iteration; None if unknown.
        jct_note: what the bound is made of.
        width: columns of the terminal, for the picture.
        flow_links: what those load.
    """
    hidden = len(plan.operations) - SHOWN_OPERATIONS
    operations = FittedTable(
        _OPERATIONS, plan.operations[:SHOWN_OPERATIONS], more=f"… {hidden} more in --json" if hidden > 0 else ""
    )
    parts: list[RenderableType] = [Text(_headline(plan)), "", operations]
    if plan.network_bytes:
        parts += ["", FittedTable(_TIERS, tiers(plan)), *_choices(plan), "", picture(plan, width=width)]
    parts += [*flow_table(flows), *link_table(flow_links, plan)]
    parts += [Text(line) for line in _facts(plan, jct_ns, jct_note)]
    return Group(*parts)


def _headline(plan: Plan) -> str:
    topology = plan.topology
    name, used = visible(topology.name), len(set(topology.host_index[: topology.ranks]))
    storage = f", {count_of(topology.storage_endpoints, 'storage endpoint')}" if topology.storage_endpoints else ""
    factor = float(plan.overhead.factor)
    return (
        f"{name}: {topology.ranks:,} ranks on {used:,} of {len(topology.hosts):,} hosts{storage}, "
        f"{factor:.4f} bytes on the wire per byte of payload"
    )


def _operation_name(plan: OperationPlan) -> str:
    operation = plan.operation
    name = f"{operation.kind.label} {operation.algorithm}" if operation.kind.is_collective else operation.kind.label
    return f"{operation.role}: {name}" if operation.role else name


def _choices(plan: Plan) -> Iterator[RenderableType]:
    found = equal_cost(plan)
    if found:
        hidden = len(found) - SHOWN_CHOICES
        more = f"… {hidden:,} more switches, less uneven" if hidden > 0 else ""
        yield ""
        yield FittedTable(_CHOICES, found[:SHOWN_CHOICES], more=more)


def _facts(plan: Plan, jct_ns: int | None, jct_note: str) -> Iterator[str]:
    yield ""
    local = f"{format_size(plan.local_bytes)} within"
    if plan.domain_bytes:
        local += f", {format_size(plan.domain_bytes)} of it through scale-up domains"
    yield f"Payload          {format_size(plan.network_bytes)} between hosts, {local}"
    ratios = sorted({round(switch.ratio, 3) for switch in oversubscription(plan.paths)})
    if ratios:
        shown = f"{ratios[0]:g}:1" if len(ratios) == 1 else f"{ratios[0]:g}:1 to {ratios[-1]:g}:1"
        yield f"Oversubscription {shown}, rates of host ports to rates of uplinks, per switch"
    if plan.loads.is_choice.any():
        yield f"Hash             {_HASHES[plan.hash_name]}, seed {plan.seed}"
    if plan.entropy_values:
        yield f"Multipath        flows are sprayed over {plan.entropy_values} entropy values, each hashed separately"
    difference = observed_difference(plan)
    if difference is not None:
        yield f"Link loads       given and hashed shares of equal-cost links differ by up to {difference:.1%}"
    for number, flow in enumerate((plan.flows or ())[:SHOWN_FLOWS]):
        title = "Largest flows   " if not number else " " * 16
        sender, receiver = plan.topology.label_of(flow.sender), plan.topology.label_of(flow.receiver)
        yield f"{title} {sender} > {receiver}: {format_size(flow.bytes)}"
    if jct_note:
        yield f"Ideal JCT        {duration_cell(jct_ns)}: {jct_note}"
