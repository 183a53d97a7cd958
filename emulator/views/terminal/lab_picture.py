"""A lab as text: every host and switch with its ports, where they lead, their rates and what passed."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from emulator.lab.model import Node, Port
from emulator.lab.status import QUEUE_BACKLOG, QUEUE_DROPS, LabStatus
from emulator.units import format_size
from emulator.views.terminal.plan_table import format_rate
from emulator.views.terminal.summary_table import NONE


def draw(status: LabStatus) -> RenderableType:
    """The picture of a lab: switches first, since that is where the cables meet."""
    state = status.state
    nodes = sorted(state.design.nodes, key=lambda node: node.is_host)
    parts: list[RenderableType] = [Text(_headline(status), style="bold")]
    if state.limited:
        parts.append(Text(f"tester-limited: {state.limited}"))
    for node in nodes:
        if not node.is_host:
            parts += [Text(""), _switch(status, node)]
    parts += [Text(""), _hosts(status), Text("")]
    return Group(*parts)


def _headline(status: LabStatus) -> str:
    state = status.state
    running = f", {status.processes} processes inside" if status.processes else ""
    return f"lab {state.lab_id}: {state.phase}, {state.name} ({state.topology}), since {state.created}{running}"


def _switch(status: LabStatus, node: Node) -> RenderableType:
    table = Table(title=f"{node.name} ({node.kind})", title_justify="left", title_style="", min_width=60)
    for name in ("port", "", "leads to", "rate", "MTU", "queue"):
        table.add_column(name)
    for name in ("sent", "received", "queued now", "drops"):
        table.add_column(name, justify="right")
    for port in node.ports:
        table.add_row(port.name, "<──>", str(port.peer), *_limits(port), *_passed(status, node, port))
    return table


def _hosts(status: LabStatus) -> RenderableType:
    table = Table(title="hosts", title_justify="left", title_style="", min_width=60)
    for name in ("port", "", "leads to", "rate", "MTU", "addresses"):
        table.add_column(name)
    for name in ("sent", "received", "drops"):
        table.add_column(name, justify="right")
    for node in status.state.design.nodes:
        for port in node.ports if node.is_host else ():
            sent, received, _, drops = _passed(status, node, port)
            addresses = ", ".join(port.local or [one.partition("/")[0] for one in port.addresses])
            rate, mtu, _ = _limits(port)
            end = f"{node.name}:{port.name}"
            table.add_row(end, "<──>", str(port.peer), rate, mtu, addresses, sent, received, drops)
    return table


def _limits(port: Port) -> tuple[str, str, str]:
    if port.shaping is None:
        return NONE, str(port.mtu), NONE
    return format_rate(port.shaping.rate_bps), str(port.mtu), format_size(port.shaping.limit_bytes)


def _passed(status: LabStatus, node: Node, port: Port) -> tuple[str, str, str, str]:
    """Sent, received, queued now, drops; dashes where they cannot be read."""
    counters = status.counters.get((node.name, port.name), {})
    if not counters:
        return NONE, NONE, NONE, NONE
    drops = sum(counters.get(name, 0) for name in (QUEUE_DROPS, "rx_dropped", "tx_dropped"))
    sizes = (counters.get(name) for name in ("tx_bytes", "rx_bytes", QUEUE_BACKLOG))
    sent, received, queued = (NONE if size is None else format_size(size) for size in sizes)
    return sent, received, queued, str(drops)
