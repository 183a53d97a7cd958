"""A sweep over pairs for a terminal: what is slow, then every port, then every pair where they are few."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from statistics import median
from typing import NamedTuple

from rich.console import RenderableType
from rich.text import Text

from emulator.results.statistics.pair_sweep import SLOW_BELOW, Direction, PairTable, SlowPair, SlowPort
from emulator.units import format_size
from emulator.views.columns.columns import Column, explain, paragraphs
from emulator.views.columns.figures import NONE, count_of, gbps_cell, link_rate_cell
from emulator.views.terminal.table import FittedTable

MOST_IN_MATRIX = 8
"""Ports of a matrix that fits a terminal."""
_DOES = {Direction.SEND: "sends", Direction.RECEIVE: "receives"}


class _PairPortRow(NamedTuple):
    """A port: medians over its pairs, and its slowest pair as a sender."""

    port: str
    sends: float | None
    receives: float | None
    slowest: str
    slowest_rate: float | None


class _SourceRow(NamedTuple):
    source: str
    rates: Sequence[float | None]


_PORTS: tuple[Column[_PairPortRow], ...] = (
    Column("port", "of a host; `rank N` if the topology has none", key="port", is_number=False),
    Column("sends\nGbit/s", "median over the ports it sent to", key="sends", show=gbps_cell),
    Column("receives\nGbit/s", "median over the ports that sent to it", key="receives", show=gbps_cell),
    Column("slowest to", "the port it sent to most slowly", key="slowest", is_number=False),
    Column("slowest\nGbit/s", "payload bandwidth to that port", key="slowest_rate", show=gbps_cell),
)
EXPLAIN = paragraphs(
    explain(_PORTS, title="Ports; bandwidth = size / time from the post of the send to the last byte's arrival:"),
    (
        f"Slow is below {100 * SLOW_BELOW:.0f} % of the median of the others, even at its best and without\n"
        "the time in which its agents waited for a core:\n"
        "a port, if most of its pairs are slow in one direction, else a pair.\n"
        f"Up to {MOST_IN_MATRIX} ports, a second table has every pair: from the row, to the column."
    ),
)


def render_pairs(table: PairTable) -> Iterator[RenderableType]:
    """Lines and tables, to be printed one below the other."""
    if not table.bits_per_s:
        yield "Nothing was measured between hosts"
        return
    lines = [Text(_port_text(port), style="bold") for port in table.slow.ports]
    lines += [Text(_pair_text(pair), style="bold") for pair in table.slow.pairs]
    if table.is_one_host:
        lines = [Text("All ranks are on one host: these are bandwidths of the tester, not of a network")]
    yield Text("\n").join(lines or [Text(f"No port and no pair is below {100 * SLOW_BELOW:.0f} % of the others")])
    yield Text(
        f"{count_of(len(table.bits_per_s), 'pair')} of {count_of(len(table.ports), 'port')}, "
        f"{count_of(table.transfers, 'transfer')} of {format_size(table.size_bytes)}; payload, median of each pair"
    )
    yield FittedTable(_PORTS, list(_rows(table)))
    if len(table.ports) <= MOST_IN_MATRIX:
        yield _matrix(table)


def _port_text(port: SlowPort) -> str:
    usual = f"the others {link_rate_cell(port.others_bits_per_s)}"
    return f"Slow: {port.port} {_DOES[port.direction]} {link_rate_cell(port.bits_per_s)}, {usual}"


def _pair_text(pair: SlowPair) -> str:
    usual = f"other pairs {link_rate_cell(pair.others_bits_per_s)}"
    return f"Slow: {pair.source} to {pair.destination} {link_rate_cell(pair.bits_per_s)}, {usual}"


def _rows(table: PairTable) -> Iterator[_PairPortRow]:
    for port in table.ports:
        sends = {there: rate for (here, there), rate in table.bits_per_s.items() if here == port}
        receives = [rate for (_, there), rate in table.bits_per_s.items() if there == port]
        slowest = min(sends, key=lambda there: sends[there], default=None)
        yield _PairPortRow(
            port,
            median(sends.values()) if sends else None,
            median(receives) if receives else None,
            slowest or NONE,
            None if slowest is None else sends[slowest],
        )


def _rate_to(at: int, row: _SourceRow) -> str:
    return gbps_cell(row.rates[at])


def _matrix(table: PairTable) -> FittedTable[_SourceRow]:
    columns: list[Column[_SourceRow]] = [
        Column("from, to\nGbit/s", key="source", is_number=False),
        *(Column(port, cell=partial(_rate_to, at)) for at, port in enumerate(table.ports)),
    ]
    return FittedTable(
        columns, [_SourceRow(one, [table.bits_per_s.get((one, other)) for other in table.ports]) for one in table.ports]
    )
