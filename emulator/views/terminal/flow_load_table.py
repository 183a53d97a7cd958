"""Flows beside a job for a terminal, before they are played: what they send, and over which links."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.console import RenderableType

from emulator.planner.network.link_loads import FlowLoad, LinkLoad
from emulator.planner.network.plan import Plan
from emulator.units import format_size
from emulator.views.columns.columns import Column, explain, paragraphs
from emulator.views.columns.figures import link_rate_cell, size_cell
from emulator.views.terminal.table import FittedTable

SHOWN_LINKS = 12


class _LinkRow(NamedTuple):
    load: LinkLoad
    plan: Plan

    @property
    def job_bytes(self) -> float:
        return float(self.plan.loads.even[self.load.link])


_FLOWS: tuple[Column[FlowLoad], ...] = (
    Column("flow", "number of the flow; both directions have the same", key="number"),
    Column("from", "port that sends payload", key="sender", is_number=False),
    Column("to", "port that receives it", key="receiver", is_number=False),
    Column("payload", "of the whole run; a dash: as much as time allows", key="payload_bytes", show=size_cell),
    Column("alongside the job", "what is played", key="about", is_number=False, folds=30),
)
_LINKS: tuple[Column[_LinkRow], ...] = (
    Column(
        "links of flows",
        "directed link that flows cross",
        cell=lambda one: one.plan.paths.link_name(one.load.link),
        is_number=False,
    ),
    Column(
        "rate",
        "of the link",
        cell=lambda one: link_rate_cell(one.plan.paths.network.links[one.load.link >> 1].rate_bps),
    ),
    Column("flows\npayload", "of flows, in the whole run", cell=lambda one: format_size(round(one.load.payload_bytes))),
    Column(
        "\nunlimited",
        "flows that send as much as time allows",
        cell=lambda one: f"{one.load.unlimited:,}",
        title="unlimited flows",
    ),
    Column(
        "job an\niteration", "payload of the job, in an iteration", cell=lambda one: format_size(round(one.job_bytes))
    ),
)
EXPLAIN = paragraphs(
    explain(_FLOWS, title="Flows alongside the job:"),
    explain(_LINKS, title="Their links, with equal-cost paths loaded evenly:"),
)


def flow_table(loads: Sequence[FlowLoad]) -> Iterator[RenderableType]:
    """What the flows send; nothing without flows."""
    if loads:
        yield ""
        yield FittedTable(_FLOWS, loads)


def link_table(links: Sequence[LinkLoad], plan: Plan) -> Iterator[RenderableType]:
    """The links that they load; nothing without flows."""
    if links:
        hidden = len(links) - SHOWN_LINKS
        more = f"… {hidden:,} more in --json" if hidden > 0 else ""
        yield ""
        yield FittedTable(_LINKS, [_LinkRow(one, plan) for one in links[:SHOWN_LINKS]], more=more)
