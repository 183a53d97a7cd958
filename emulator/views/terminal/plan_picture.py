"""A network as text with the loads of its links: every switch with the nodes below it, highest level first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from emulator.planner.network.arrays import FloatArray
from emulator.planner.network.load_balance import level_names, levels
from emulator.planner.network.plan import Plan
from emulator.trace.meaning.model import IntArray
from emulator.units import format_size

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
