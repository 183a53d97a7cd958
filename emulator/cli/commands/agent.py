"""`charkha agent`: what runs next to a NIC, started by hand."""

from __future__ import annotations

import argparse
import contextlib
import socket
import sys
from typing import TYPE_CHECKING

from emulator.cli.options.arguments import add_secret_options
from emulator.cli.options.dialling import TOKEN_VARIABLE, tls_files, token
from emulator.errors import InputError
from emulator.visible import visible

if TYPE_CHECKING:
    from emulator.cli.options.arguments import Subparsers
    from emulator.telemetry.metrics import AgentMetrics

_EXAMPLE = """example:
  charkha agent --controller 192.0.2.1:4790 --interface eth1 --name server1 --token-file token

Dials the controller over the management network, plays the ranks of its host at eth1, and waits for the next run. With
CAP_NET_ADMIN it adds the ranks' addresses for the time of a run. docs/physical.md walks through it.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `agent` to the command line."""
    parser = subparsers.add_parser(
        "agent",
        help="play ranks on this machine for a controller",
        description="Play the ranks of this machine, one run after another, for a controller that runs elsewhere.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--controller", metavar="HOST:PORT", required=True, help="what to dial; or unix:PATH")
    parser.add_argument(
        "--interface",
        metavar="NAME",
        action="append",
        default=[],
        help="port under test, which all traffic goes through (repeatable; without it: loopback only)",
    )
    parser.add_argument("--name", metavar="N", help="as the topology's `agents` has it (default: this machine's name)")
    parser.add_argument("--metrics", metavar="[HOST:]PORT", help="serve Prometheus metrics (default host: 127.0.0.1)")
    add_secret_options(parser.add_argument_group("security"))
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Play runs until interrupted.

    Raises:
        EmulatorError: no token, an interface that cannot be used, a controller that refuses the agent; interrupted.
    """
    # No other command needs what an agent is made of.
    from agents.host.ports import Ports
    from agents.process import run_staying_agent
    from agents.service import StayingAgent

    target: str = args.controller
    secret = token(args)
    if not target.startswith("unix:"):
        _check(target)
        if secret is None:
            raise InputError(f"a token is needed: --token-file FILE, or {TOKEN_VARIABLE}")
    name = args.name or socket.gethostname()

    def tell(line: str) -> None:
        print(f"charkha agent {visible(name)}: {visible(line)}", file=sys.stderr, flush=True)

    with contextlib.ExitStack() as stack:
        run_staying_agent(
            StayingAgent(
                target,
                name,
                secret or "",
                ports=Ports(tuple(args.interface)),
                tls=tls_files(args),
                told=tell,
                metrics=_metrics(args.metrics, name, stack),
            )
        )
    return 0


def _metrics(address: str | None, name: str, stack: contextlib.ExitStack) -> AgentMetrics | None:
    """Metrics that are served until the stack is left; None where nobody asked for them."""
    if address is None:
        return None
    from emulator.telemetry.metrics import AgentMetrics, MetricsEndpoint, new_registry, parse_address

    registry = new_registry()
    metrics = AgentMetrics(registry, name)
    endpoint = stack.enter_context(MetricsEndpoint(registry, parse_address(address)))
    print(f"charkha agent {visible(name)}: metrics at {endpoint.url}", file=sys.stderr, flush=True)
    return metrics


def _check(target: str) -> None:
    host, colon, port = target.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) <= 65535:
        raise InputError(f"--controller {target}: write HOST:PORT, as 192.0.2.1:4790 or [2001:db8::1]:4790")
