"""A lab for a terminal: every switch and host with its ports, peers, rates and counters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.text import Text

from emulator.device.lab.links import PortLink
from emulator.device.lab.model import LabPort, Node
from emulator.device.lab.status import QUEUE_BACKLOG, QUEUE_DROPS, SOCKET_DROPS, LabStatus
from emulator.units import format_size
from emulator.views.columns.columns import Column, explain, paragraphs
from emulator.views.columns.figures import NONE, count_of, link_rate_cell, size_cell
from emulator.views.terminal import between_table
from emulator.views.terminal.table import FittedTable

_DROPS = (QUEUE_DROPS, SOCKET_DROPS, "rx_dropped", "tx_dropped")


class _PicturePort(NamedTuple):
    """A port with its link and counters; no link and no counters if they cannot be read."""

    node: Node
    port: LabPort
    link: PortLink | None
    counters: Mapping[str, int]

    def size(self, counter: str) -> str:
        return size_cell(self.counters.get(counter))

    @property
    def drops(self) -> str:
        return str(sum(self.counters.get(name, 0) for name in _DROPS)) if self.counters else NONE

    @property
    def rate(self) -> str:
        return NONE if self.port.shaping is None else link_rate_cell(self.port.shaping.rate_bps)

    @property
    def queue(self) -> str:
        return NONE if self.port.shaping is None else format_size(self.port.shaping.limit_bytes)

    @property
    def addresses(self) -> str:
        return ", ".join(self.port.local or [one.partition("/")[0] for one in self.port.addresses])


_PEER: tuple[Column[_PicturePort], ...] = (
    Column("", cell=lambda _: "<──>", is_number=False, sacrifice=9),
    Column("peer", "port at the other end of the cable", cell=lambda row: str(row.port.peer), is_number=False),
    Column(
        "link",
        "up; down if the port was taken down; no carrier if the other end of its cable was",
        key="link",
        is_number=False,
    ),
    Column("rate", "rate that the port is shaped to", key="rate", is_number=False),
    Column("MTU", "maximum transmission unit", unit="bytes", cell=lambda row: str(row.port.mtu)),
)
_PASSED: tuple[Column[_PicturePort], ...] = (
    Column("sent", "bytes frames that left through the port", cell=lambda row: row.size("tx_bytes"), sacrifice=3),
    Column("received", "bytes that entered through the port", cell=lambda row: row.size("rx_bytes"), sacrifice=4),
    Column("drops", "frames dropped by the queue or the interface", key="drops"),
)
_SWITCH: tuple[Column[_PicturePort], ...] = (
    Column("port", "port of the switch", cell=lambda row: row.port.name, is_number=False),
    *_PEER,
    Column("queue", "length of the egress queue", key="queue", sacrifice=2),
    *_PASSED[:2],
    Column("queued now", "bytes in the egress queue", cell=lambda row: row.size(QUEUE_BACKLOG), sacrifice=1),
    _PASSED[2],
)
_HOSTS: tuple[Column[_PicturePort], ...] = (
    Column("port", "host and port", cell=lambda row: f"{row.node.name}:{row.port.name}", is_number=False),
    *_PEER,
    Column("addresses", "IP addresses", key="addresses", is_number=False, folds=16),
    *_PASSED,
)
EXPLAIN = paragraphs(
    *(
        explain(filter(lambda one: one.header, columns), title=title)
        for columns, title in ((_SWITCH, "Switches:"), (_HOSTS, "Hosts:"))
    ),
    f"Between two real ports. {between_table.EXPLAIN}",
)


def draw(status: LabStatus) -> RenderableType:
    """The picture of a lab: switches first, then all hosts in one table."""
    state = status.state
    parts: list[RenderableType] = [Text(_headline(status), style="bold")]
    if state.limited:
        parts.append(Text(f"tester-limited: {state.limited}"))
    for node in state.design.nodes:
        if not node.is_host:
            parts += [Text(""), Text(f"{node.name} ({node.kind})"), FittedTable(_SWITCH, list(_rows(status, node)))]
    hosts = [row for node in state.design.nodes if node.is_host for row in _rows(status, node)]
    parts += [Text(""), Text("hosts"), FittedTable(_HOSTS, hosts)] if hosts else []
    parts.append(Text(""))
    return Group(*parts)


def _headline(status: LabStatus) -> str:
    state = status.state
    running = f", {count_of(status.processes, 'process', 'processes')} inside" if status.processes else ""
    source = f"{state.name} ({state.topology})" if state.between is None else " and ".join(state.between.names)
    what = f"lab {state.lab_id} of {state.belongs_to}: {state.phase}, {source}"
    return f"{what}, since {state.created}{running}"


def _rows(status: LabStatus, node: Node) -> Iterator[_PicturePort]:
    for port in node.ports:
        end = (node.name, port.name)
        yield _PicturePort(node, port, status.links.get(end), status.counters.get(end, {}))
