"""The results of a test with a peer for a terminal: what this end sent and received, beside what the peer reports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.text import Text

from emulator.flows.perftest.echo import EchoResult, Exchange
from emulator.flows.perftest.results import PeerResult
from emulator.units import format_size
from emulator.views.columns.columns import Column, explain
from emulator.views.columns.figures import NONE, count_of, duration_cell, number_cell
from emulator.views.terminal.table import FittedTable


class _PeerRow(NamedTuple):
    what: str
    messages: int
    bytes: int
    bytes_per_s: float | None
    duration_ns: int | None = None


def _gbps(row: _PeerRow) -> str:
    return number_cell(row.bytes_per_s * 8 / 1e9) if row.bytes_per_s else NONE


_COLUMNS: tuple[Column[_PeerRow], ...] = (
    Column("direction", "what was counted, and where", cell=lambda row: row.what, is_number=False),
    Column("messages", "complete messages; for READ, requests", cell=lambda row: f"{row.messages:,}"),
    Column("bytes", "payload, each byte once", cell=lambda row: f"{row.bytes:,}"),
    Column(
        "time",
        "from the first post to the last completion; received: from the first to the last arrival",
        cell=lambda row: duration_cell(row.duration_ns or None),
    ),
    Column("Gbit/s", "payload / time; received: without the bytes of the first arrival", cell=_gbps),
)
EXPLAIN = explain(_COLUMNS, title="Results of a test with a peer:")


def render(result: PeerResult) -> RenderableType:
    """The results for a console."""
    return Group(*_parts(result))


def _parts(result: PeerResult) -> Iterator[RenderableType]:
    test = result.test
    yield Text.assemble(
        (f"{test.verb.tool} with {result.peer_host}", "bold"),
        f" (perftest {result.peer_version}): this end, {result.host}, is the {result.role}; messages of "
        f"{format_size(test.size_bytes)}, {count_of(test.queue_pairs, 'queue pair')}, path MTU {test.path_mtu}",
    )
    yield Text()
    yield FittedTable(_COLUMNS, list(_rows(result)))
    if (latency := result.latency) is not None:
        yield Text(
            f"latency of {count_of(latency.count, 'sample')} ({'a' if test.verb.operation == 'read' else 'half a'} "
            f"round trip): median {duration_cell(latency.median)}, 99 % {duration_cell(latency.p99)}, "
            f"least {duration_cell(latency.least)}, largest {duration_cell(latency.largest)}"
        )
    sent, received = result.sent, result.received
    yield Text(
        f"packets sent {sent.packets:,}, of these again {sent.retransmits:,} · timeouts {sent.timeouts} · "
        f"NAKs received {sent.naks}, sent {received.naks} · RNR NAKs {sent.rnr_naks} · "
        f"duplicates received {received.duplicates}"
    )
    if received.dropped:
        yield Text("dropped: " + ", ".join(f"{count} {reason}" for reason, count in received.dropped.items()))


def render_echo(result: EchoResult) -> RenderableType:
    """The results of rping or rdma_client for a console."""
    return Group(*_echo_parts(result))


def _echo_parts(result: EchoResult) -> Iterator[RenderableType]:
    test = result.test
    yield Text.assemble(
        (f"{test.exchange.tool(is_client=result.role == 'server')} at {result.peer_host}", "bold"),
        f": this end, {result.host}, is the {result.role}; {format_size(test.size_bytes)} a round, path MTU "
        f"{result.path_mtu}",
    )
    is_checked = test.exchange is Exchange.RPING
    yield Text(f"{count_of(result.rounds, 'round')} complete{', all data right' if is_checked else ''}")
    if (latency := result.latency) is not None:
        yield Text(
            f"round: median {duration_cell(latency.median)}, 99 % {duration_cell(latency.p99)}, "
            f"least {duration_cell(latency.least)}, largest {duration_cell(latency.largest)}"
        )
    yield Text(
        f"packets sent {result.packets:,}, of these again {result.retransmits:,} · timeouts {result.timeouts} · "
        f"NAKs received {result.naks} · RNR NAKs {result.rnr_naks} · duplicates received {result.duplicates}"
    )


def _rows(result: PeerResult) -> Iterator[_PeerRow]:
    sent, received, peer = result.sent, result.received, result.peer
    verb = "read" if result.test.verb.operation == "read" else "sent"
    if sent.messages:
        yield _PeerRow(f"{verb} by this end", sent.messages, sent.bytes, sent.bytes_per_s, sent.duration_ns)
    if received.messages:
        what = "read by the peer" if verb == "read" else "received by this end"
        yield _PeerRow(what, received.messages, received.bytes, received.bytes_per_s, received.duration_ns)
    if peer is not None and peer.iterations:
        yield _PeerRow(
            f"{verb} by the peer, it says", peer.iterations, peer.iterations * peer.size_bytes, peer.bytes_per_s
        )
