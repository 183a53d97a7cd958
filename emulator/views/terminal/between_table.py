"""A lab between two real ports for a terminal: what passed its ports, and what its rules did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.text import Text

from emulator.device.counters.counters import DROPS, DUPLICATES
from emulator.device.lab.state import LabState
from emulator.device.profile.standing import Passed
from emulator.views.columns.columns import Column, explain, paragraphs
from emulator.views.columns.figures import count_cell, link_rate_cell, size_cell
from emulator.views.terminal.table import FittedTable


class _PortRow(NamedTuple):
    name: str
    counters: Mapping[str, int]

    def frames(self, counter: str) -> str:
        return count_cell(self.counters.get(counter))

    def size(self, counter: str) -> str:
        return size_cell(self.counters.get(counter))


class _RuleRow(NamedTuple):
    name: str
    action: str
    frames: int | None


_PORTS: tuple[Column[_PortRow], ...] = (
    Column("port", "interface", key="name", is_number=False),
    Column("frames in", "frames that arrived at the port", cell=lambda row: row.frames("rx_packets")),
    Column("bytes in", "without preamble, gap and frame check sequence", cell=lambda row: row.size("rx_bytes")),
    Column("frames out", "frames that left through the port", cell=lambda row: row.frames("tx_packets")),
    Column("bytes out", "without preamble, gap and frame check sequence", cell=lambda row: row.size("tx_bytes")),
)
_RULES: tuple[Column[_RuleRow], ...] = (
    Column("rule", "of the profile", key="name", is_number=False),
    Column("action", "what the rule does", key="action", is_number=False),
    Column(
        "frames",
        "frames dropped, marked or duplicated since it was applied; shapers and delays have no counter",
        key="frames",
        show=count_cell,
    ),
)
EXPLAIN = paragraphs(
    explain(_PORTS, title="Ports, since the lab came up:"),
    explain(_RULES, title="Rules:"),
    (
        "The last line, since the lab came up: frames in = frames out + dropped - duplicated + not\n"
        "accounted for. While traffic flows, frames inside the lab are among those not accounted for."
    ),
)


def render(state: LabState, passed: Passed, *, kind: str = "lab") -> RenderableType:
    """The lab for a console; `kind` is what the headline calls it."""
    return Group(*_parts(state, passed, kind))


def _parts(state: LabState, passed: Passed, kind: str) -> Iterator[RenderableType]:
    pair = passed.pair
    profile = "without a profile" if pair.profile is None else f"with profile {pair.profile}"
    rate = "" if pair.rate_bps is None else f", ports limited to {link_rate_cell(pair.rate_bps)}"
    namespace = state.design.nodes[0].namespace
    yield Text.assemble((f"{kind} {state.lab_id}", "bold"), f", {profile}{rate}, in namespace {namespace}")
    yield FittedTable(_PORTS, [_PortRow(name, counters) for name, counters in passed.ports.items()])
    if pair.rules:
        yield ""
        yield FittedTable(_RULES, [_RuleRow(name, action, passed.rules.get(name)) for name, action in pair.rules])
    parts = [
        f"frames in {passed.sum_of('rx_packets'):,}, out {passed.sum_of('tx_packets'):,}",
        f"dropped by rules {passed.totals.get(DROPS, 0):,}",
        f"by full queues {passed.queue_drops:,}",
        f"duplicated {passed.totals.get(DUPLICATES, 0):,}",
        f"not accounted for {passed.unaccounted:,}",
    ]
    yield Text(" · ".join(parts))
