"""`charkha agent start`: an agent started by hand, on the machine whose NIC carries the traffic."""

from __future__ import annotations

import argparse
import contextlib
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emulator.control.authentication import TOKEN_VARIABLE
from emulator.control.wire.credentials import read_token, require_protection, tls_files
from emulator.errors import InputError
from emulator.topology.safety import SAFE_NETWORKS, parse_networks
from emulator.units import digits, parse_rate
from emulator.visible import visible

if TYPE_CHECKING:
    from agents.reporter import AgentMetrics

_EXAMPLE = """example:
  charkha agent start --controller 192.0.2.1:4790 --interface eth1 --identity server1.pem

Connects to the controller over the management network, plays the ranks of its host at eth1, and
waits for the next run. With CAP_NET_ADMIN it adds the addresses of its ranks for the duration of a
run. docs/physical.md shows every step.
"""


_SECURITY = {
    "--token-file": f"file with the secret or token for the controller (default: {TOKEN_VARIABLE})",
    "--identity": "identity of this agent, from `charkha agent certs issue`",
    "--tls-cert": "own certificate, PEM; encrypts control connections",
    "--tls-key": "key of the certificate, PEM",
    "--tls-ca": "authority of the controller's certificate, PEM",
}


def add_parser(subparsers: Any) -> None:
    """Add `agent start` to the command line."""
    parser = subparsers.add_parser(
        "start",
        help="play ranks on this machine for a controller",
        description="Play the ranks of this machine, run after run, for a controller on another machine.",
        epilog=_EXAMPLE,
    )
    parser.add_argument(
        "--controller", metavar="HOST:PORT", required=True, help="controller to connect to; or unix:PATH"
    )
    parser.add_argument(
        "--interface",
        metavar="NAME",
        action="append",
        default=[],
        help="port under test through which all traffic leaves (repeatable; default: loopback only)",
    )
    parser.add_argument("--name", metavar="N", help="name in the topology's `agents` (default: this machine's name)")
    parser.add_argument("--metrics", metavar="[HOST:]PORT", help="serve Prometheus metrics (default host: 127.0.0.1)")
    parser.add_argument("--until-eof", advanced=True, action="store_true", help="end when stdin is closed")
    limits = parser.add_advanced_group("limits of this machine, independent of the controller")
    limits.add_argument(
        "--only-network",
        metavar="PREFIX",
        action="append",
        default=[],
        help="use and send to addresses in this prefix only (repeatable; default: loopback, 198.18.0.0/15, "
        "documentation and private ranges)",
    )
    limits.add_argument(
        "--route-network",
        metavar="PREFIX",
        action="append",
        default=[],
        help="add routes for a run in this prefix that are wider than /24 or /64 (repeatable; default: none)",
    )
    limits.add_argument(
        "--max-rate",
        metavar="RATE",
        help="send no more than this through an interface, for example 10Gbit; runs that may exceed it are refused",
    )
    security = parser.add_argument_group("security")
    for name, text in _SECURITY.items():
        security.add_argument(name, metavar="FILE", type=Path, help=text)
    security.add_argument(
        "--insecure", action="store_true", help="connect without certificates, on a network that no one else uses"
    )
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Play runs until interrupted.

    Raises:
        EmulatorError: no token, an unusable interface, a controller that refuses the agent, or an interrupt.
    """
    # Imported here because no other command needs an agent's modules.
    from agents.host.limits import Limits
    from agents.host.ports import Ports
    from agents.process import run_staying_agent
    from agents.staying_agent import StayingAgent

    target: str = args.controller
    secret = read_token(args.token_file)
    tls = tls_files(args.tls_cert, args.tls_key, args.tls_ca, args.identity)
    if args.identity is not None:
        from emulator.control.certificates.identity import check_identity
        from emulator.control.certificates.roles import Role

        check_identity(args.identity, Role.AGENT)
    if not target.startswith("unix:"):
        _check_address(target)
        if secret is None and not (tls is not None and tls.is_mutual):
            raise InputError(f"give --identity FILE, or a token: --token-file FILE, or {TOKEN_VARIABLE}")
        require_protection(target, tls, insecure=args.insecure, option="--controller")
    name = args.name or socket.gethostname()
    networks = parse_networks(args.only_network, "--only-network") or SAFE_NETWORKS
    limits = Limits(
        networks,
        None if args.max_rate is None else _rate(args.max_rate),
        parse_networks(args.route_network, "--route-network"),
    )

    def report(line: str) -> None:
        print(f"charkha agent {visible(name)}: {visible(line)}", file=sys.stderr, flush=True)

    with contextlib.ExitStack() as stack:
        run_staying_agent(
            StayingAgent(
                target,
                name,
                secret or "",
                ports=Ports(tuple(args.interface)),
                limits=limits,
                tls=tls,
                report=report,
                metrics=_metrics(args.metrics, name, stack),
                until_eof=args.until_eof,
            )
        )
    return 0


def _metrics(address: str | None, name: str, stack: contextlib.ExitStack) -> AgentMetrics | None:
    """Metrics that are served until the stack is closed; None without --metrics."""
    if address is None:
        return None
    from agents.reporter import AgentMetrics
    from emulator.host.metrics_endpoint import MetricsEndpoint, new_registry, parse_address

    registry = new_registry()
    metrics = AgentMetrics(registry, name)
    endpoint = stack.enter_context(MetricsEndpoint(registry, parse_address(address)))
    print(f"charkha agent {visible(name)}: metrics at {endpoint.url}", file=sys.stderr, flush=True)
    return metrics


def _rate(text: str) -> int:
    try:
        return parse_rate(text)
    except ValueError as error:
        raise InputError(f"--max-rate: {error}") from error


def _check_address(target: str) -> None:
    host, colon, port = target.rpartition(":")
    if not colon or not host or not 0 < (digits(port) or 0) <= 65535:
        raise InputError(f"--controller {target}: give HOST:PORT, for example 192.0.2.1:4790 or [2001:db8::1]:4790")
