"""`charkha agent peer`: test an RDMA NIC whose host runs stock perftest, and show both ends' results side by side."""

from __future__ import annotations

import argparse
import ipaddress
from collections.abc import Iterator
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.text import Text

from emulator import exit_codes
from emulator.cli.output import notify, print_json, print_tables
from emulator.cli.parser import Parser, Subparsers, argument, at_least
from emulator.errors import InputError
from emulator.flows.perftest_echo import EchoResult, EchoTask, Exchange, make_echo
from emulator.flows.perftest_parameters import DEFAULT_PORT, MOST_QUEUE_PAIRS, PeerTask, TestVerb, make_test
from emulator.flows.perftest_results import PeerResult
from emulator.plugins import PluginKind, load
from emulator.roce.constants import PATH_MTUS
from emulator.roce.options import RoceOptions
from emulator.units import format_size, parse_size
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


_CONNECT = """example, while `ib_write_bw` waits on 192.0.2.7:
  charkha agent peer connect 192.0.2.7 --verb write --size 64K --iters 1000
"""
_SERVE = """example; then run `ib_write_bw 192.0.2.1` on 192.0.2.7:
  charkha agent peer serve --from 192.0.2.7 --verb write
"""
_MORE = """
Give both ends the same test; --exchange rping plays rping instead of perftest. This end is a
software NIC on UDP port 4791. docs/peer.md has both roles and what this tests in a NIC.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `peer` to the command line."""
    parser = subparsers.add_parser(
        "peer",
        description="Exchange RDMA traffic with a host that runs stock perftest (ib_write_bw …), rping or rdma_client.",
        epilog=_CONNECT + _MORE,
    )
    roles = parser.add_subparsers(title="roles", metavar="connect|serve", required=True)
    connect = roles.add_parser(
        "connect",
        help="connect to a server",
        description="Connect to a server of perftest, rping or rdma_client, and show the results.",
        epilog=_CONNECT + _MORE,
    )
    connect.add_argument("server", metavar="HOST", help="where the peer waits")
    serve = roles.add_parser(
        "serve",
        help="wait for a client",
        description="Wait for a client of perftest, rping or rdma_client, run one test, and show the results.",
        epilog=_SERVE + _MORE,
    )
    serve.add_argument("--from", dest="client", metavar="HOST", required=True, help="the only host that may connect")
    for role in (connect, serve):
        _add_options(role)


def _add_options(parser: Parser) -> None:
    parser.add_argument("--verb", choices=[verb.value for verb in TestVerb], help="default: write")
    parser.add_argument(
        "--size",
        metavar="SIZE",
        type=argument(parse_size),
        help="message size (default: 64K; latency: 2 bytes; rping: 64)",
    )
    parser.add_argument(
        "--iters", metavar="N", type=at_least(1), help="messages per queue pair, or rounds (default: the tool's)"
    )
    parser.add_argument("--duration", metavar="S", type=float, help="run for S seconds instead")
    parser.add_argument("--qps", metavar="N", type=at_least(1, most=MOST_QUEUE_PAIRS), help="queue pairs (default: 1)")
    parser.add_argument(
        "--path-mtu",
        metavar="N",
        type=int,
        choices=PATH_MTUS,
        help="bytes; the smaller value of both ends applies",
    )
    parser.add_argument("--bidirectional", action="store_true", help="both ends send at once")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.add_explain("emulator.annexes.bench_kit.peer", advanced=True)
    addresses = parser.add_advanced_group("addresses")
    addresses.add_argument(
        "--exchange",
        choices=["perftest", *Exchange],
        default="perftest",
        help="the tool at the peer (default: perftest); the others connect with rdma_cm",
    )
    addresses.add_argument("--rdma-cm", action="store_true", help="connect queue pairs with rdma_cm (-R at the peer)")
    addresses.add_argument(
        "--port",
        metavar="N",
        type=at_least(1, most=65_535),
        help=f"port of the TCP exchange or of rdma_cm (default: that of the tool; perftest: {DEFAULT_PORT})",
    )
    addresses.add_argument(
        "--address",
        metavar="IP",
        type=argument(_ip),
        help="RDMA address of this host (default: that of the TCP connection)",
    )
    addresses.add_argument(
        "--peer-address",
        metavar="IP",
        type=argument(_ip),
        help="RDMA address of the peer (default: that of the TCP connection)",
    )
    parser.set_defaults(handler=_run)


def _ip(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise ValueError(f"{text!r}: give an IPv4 or IPv6 address") from None


def _run(args: argparse.Namespace) -> int:
    task = _perftest(args) if args.exchange == "perftest" else _echo(args, Exchange(args.exchange))
    _announce(task)
    result: PeerResult | EchoResult = load(PluginKind.HOOKS, "play_with_peer")(task)
    if args.json:
        print_json(result.to_json())
    else:
        print_tables(render_echo(result) if isinstance(result, EchoResult) else render(result))
    return exit_codes.DONE


def _perftest(args: argparse.Namespace) -> PeerTask:
    test = make_test(
        TestVerb(args.verb or "write"),
        size_bytes=args.size,
        iterations=args.iters,
        duration_s=args.duration,
        queue_pairs=args.qps or 1,
        path_mtu=args.path_mtu or 4096,
        is_bidirectional=args.bidirectional,
    )
    return PeerTask(
        test=test,
        server=getattr(args, "server", None),
        client=getattr(args, "client", ""),
        port=args.port or DEFAULT_PORT,
        address=args.address,
        peer_address=args.peer_address,
        options=RoceOptions(),
        rdma_cm=args.rdma_cm,
    )


def _echo(args: argparse.Namespace, exchange: Exchange) -> EchoTask:
    for name in ("verb", "duration", "qps", "bidirectional", "peer_address"):
        if getattr(args, name):
            raise InputError(f"--{name.replace('_', '-')}: only perftest has it; omit it with --exchange {exchange}")
    server = getattr(args, "server", None)
    test = make_echo(
        exchange, size_bytes=args.size, rounds=args.iters, path_mtu=args.path_mtu, is_client=server is not None
    )
    return EchoTask(
        test=test,
        server=server,
        client=getattr(args, "client", ""),
        port=args.port or exchange.default_port,
        address=args.address,
        options=RoceOptions(),
    )


def _announce(task: PeerTask | EchoTask) -> None:
    """Say what the other end must run."""
    command = task.peer_command
    if task.server is not None:
        notify(f"{task.server} must be running: {command}")
    else:
        notify(f"waiting for {task.client} to run: {command}")
