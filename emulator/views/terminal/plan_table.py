"""A plan for a terminal: a line per operation, the balance of the links, and a picture of the network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from emulator.planner.network.arrays import FloatArray
from emulator.planner.network.link_loads import FlowLoad, LinkLoad
from emulator.planner.network.load_balance import (
    equal_cost,
    level_names,
    levels,
    observed_difference,
    oversubscription,
    tiers,
)
from emulator.planner.network.plan import Plan
from emulator.trace.meaning.model import IntArray
from emulator.units import format_size
from emulator.views.columns.columns import explain, paragraphs
from emulator.views.columns.figures import count_of, duration_cell
from emulator.views.columns.plan_columns import CHOICE_COLUMNS, OPERATION_COLUMNS, TIER_COLUMNS
from emulator.views.terminal.flow_load_table import flow_table, link_table
from emulator.views.terminal.table import FittedTable
from emulator.visible import visible

SHOWN_OPERATIONS = 24
SHOWN_CHOICES = 8
SHOWN_FLOWS = 6
_HASHES = {
    "linux": "that of Linux over addresses and ports: flows take the same paths as in a lab",
    "own": "a model: a real switch has different collisions, but about as many",
}
EXPLAIN = paragraphs(
    explain(OPERATION_COLUMNS, title="Operations; a time is that of the slowest group:"),
    explain(TIER_COLUMNS, title="Links by tier; loads are payload of one iteration:"),
    explain(CHOICE_COLUMNS, title="Equal-cost paths:"),
)


def render(
    plan: Plan,
    *,
    jct_ns: int | None,
    jct_note: str,
    width: int,
    flows: Sequence[FlowLoad] = (),
    flow_links: Sequence[LinkLoad] = (),
    changes: Sequence[str] = (),
) -> RenderableType:
    """The report of `charkha plan`.

    Args:
        jct_ns: lower bound of an iteration; None if unknown.
        jct_note: what the bound is made of.
        width: columns of the terminal, for the picture.
        flow_links: what those load.
        changes: of the device during the run, a line each.
    """
    hidden = len(plan.operations) - SHOWN_OPERATIONS
    operations = FittedTable(
        OPERATION_COLUMNS, plan.operations[:SHOWN_OPERATIONS], more=f"… {hidden} more in --json" if hidden > 0 else ""
    )
    parts: list[RenderableType] = [Text(_headline(plan)), "", operations]
    if plan.network_bytes:
        parts += ["", FittedTable(TIER_COLUMNS, tiers(plan)), *_choices(plan), "", picture(plan, width=width)]
    parts += [*flow_table(flows), *link_table(flow_links, plan)]
    parts += [Text(line) for line in _facts(plan, jct_ns, jct_note)]
    parts += [Text(f"{' ' * 16 if at else 'Events          '} {one}") for at, one in enumerate(changes)]
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


def _choices(plan: Plan) -> Iterator[RenderableType]:
    found = equal_cost(plan)
    if found:
        hidden = len(found) - SHOWN_CHOICES
        more = f"… {hidden:,} more switches, less uneven" if hidden > 0 else ""
        yield ""
        yield FittedTable(CHOICE_COLUMNS, found[:SHOWN_CHOICES], more=more)


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


WHOLE_LEVEL, WHOLE_SWITCH = 8, 16
"""Most switches of a level and links of a switch that are all shown; if there are more, only some are."""
SOME_SWITCHES, SOME_LINKS = 2, 4
_BAR = 12
_FULL, _EMPTY = "█", "░"


def picture(plan: Plan, *, width: int) -> RenderableType:
    """Loads with hashing; a bar is relative to the busiest link. ↑ is towards the switch, ↓ away from it.

    Args:
        width: columns of the terminal; longer lines are cut.
    """
    return Group(*(Text(line[:width], no_wrap=True) for line in _lines(plan)))


def _lines(plan: Plan) -> Iterator[str]:
    paths = plan.paths
    names, level = level_names(paths), levels(paths)
    busy = plan.loads.hashed / np.where(np.isnan(plan.loads.rate_bps), 1, plan.loads.rate_bps)
    for number in sorted(set(level.tolist()), reverse=True):
        switches = np.flatnonzero(level == number).tolist()
        shown = switches if len(switches) <= WHOLE_LEVEL else switches[:SOME_SWITCHES]
        for switch in shown:
            yield from _switch(plan, switch, busy, level)
        if len(switches) > len(shown):
            yield f"… {len(switches) - len(shown):,} more of {names[number]}"
    if not paths.switches:
        yield from _rows(plan, np.arange(0, len(paths.source), 2).tolist(), busy)


def _switch(plan: Plan, switch: int, busy: FloatArray, level: IntArray) -> Iterator[str]:
    """A switch and its links to lower levels; the busiest if not all are shown."""
    paths = plan.paths
    node = paths.hosts + switch
    below = [
        link
        for link in np.flatnonzero(paths.target == node).tolist()
        if paths.source[link] < paths.hosts or level[int(paths.source[link]) - paths.hosts] < level[switch]
    ]
    yield paths.node_name(node)
    shown = below
    if len(below) > WHOLE_SWITCH:
        shown = sorted(sorted(below, key=lambda link: -max(busy[link], busy[link ^ 1]))[:SOME_LINKS])
    yield from _rows(plan, shown, busy, left_out=len(below) - len(shown))


def _rows(plan: Plan, links: Sequence[int], busy: FloatArray, *, left_out: int = 0) -> Iterator[str]:
    names = [plan.paths.link_name(link).split(" > ") for link in links]
    ports = [here.rpartition(":")[2] for _, here in names]
    wide, deep = max((len(one) for one, _ in names), default=0), max(map(len, ports), default=0)
    for number, (link, port) in enumerate(zip(links, ports, strict=True)):
        corner = "└" if number == len(links) - 1 and not left_out else "├"
        loads = (f"{sign} {_bar(busy, at)} {_size(plan, at)}" for sign, at in (("↑", link), ("↓", link ^ 1)))
        yield f"  {corner}─ {port:<{deep}} ─ {names[number][0]:<{wide}}  {'  '.join(loads)}"
    if left_out:
        yield f"  └─ … {left_out:,} more with less load"


def _bar(busy: FloatArray, link: int) -> str:
    most = float(busy.max())
    filled = round(_BAR * float(busy[link]) / most) if most else 0
    return _FULL * filled + _EMPTY * (_BAR - filled)


def _size(plan: Plan, link: int) -> str:
    return f"{format_size(round(float(plan.loads.hashed[link]))):>10}"
