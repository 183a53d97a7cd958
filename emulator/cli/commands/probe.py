"""`charkha probe`: crafted frames into a device under test, and what comes out of it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from emulator.cli.options.arguments import argument
from emulator.errors import HostError, InputError, PlanError
from emulator.lab.model import Node
from emulator.lab.playing import LabPlace, find_place
from emulator.planner.network.overhead import DEFAULT_MTU
from emulator.topology.load import load_topology
from emulator.topology.model import Topology
from emulator.topology.network import Interface
from emulator.views.terminal.console import console

if TYPE_CHECKING:
    from emulator.cli.options.arguments import Subparsers
    from emulator.probe.ports import ProbePort
    from emulator.probe.verdict import Verdict

_EXAMPLE = """example:
  charkha lab up topologies/two-hosts-switch.yaml
  charkha probe --topology topologies/two-hosts-switch.yaml --from h0 --to h1

Both hosts are in a lab on this machine, or both interfaces are this machine's own. docs/probe.md says what is sent.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `probe` to the command line."""
    parser = subparsers.add_parser(
        "probe",
        help="crafted frames into a device: what passes, what is altered, what is dropped",
        description="Send crafted frames from one interface of a topology towards another, one after the other, and "
        "compare what comes out.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--topology", metavar="FILE", type=Path, required=True, help="whose interfaces are used")
    parser.add_argument("--from", dest="source", metavar="HOST[:PORT]", required=True, help="where frames go in")
    parser.add_argument("--to", dest="destination", metavar="HOST[:PORT]", required=True, help="where they come out")
    parser.add_argument("--allow-network", metavar="PREFIX", action="append", default=[], help="as for run")
    parser.add_argument("--lab", metavar="ID", help="the lab, where several are of this topology")
    parser.add_argument("--next-mac", metavar="MAC", help="of the first hop (default: the lab's, or of --to)")
    parser.add_argument(
        "--rate", metavar="N", type=argument(_rate), default=50.0, help="most frames a second (default: 50)"
    )
    parser.add_argument(
        "--raise-mtu", action="store_true", help="raise the sender's MTU by 1 while the frame over the MTU is sent"
    )
    parser.add_argument("--all", action="store_true", help="list frames that pass, too")
    parser.add_argument("--json", action="store_true", help="every verdict as JSON on stdout")
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Probe, and print the matrix.

    Raises:
        EmulatorError: an interface that the topology does not have or that cannot be used.
    """
    topology = load_topology(args.topology, ranks=0, allow_networks=args.allow_network)
    place = find_place(topology, args.lab)
    near, far = (_Side(topology, place, text) for text in (args.source, args.destination))
    if (near.host, near.interface.name) == (far.host, far.interface.name):
        raise PlanError(f"--from and --to are both {near.host}:{near.interface.name}")
    verdicts = _probe(args, near, far)
    _show(args, verdicts)
    return 0


class _Side:
    """One of the two interfaces.

    Raises:
        InputError: the topology does not have it.
    """

    def __init__(self, topology: Topology, place: LabPlace | None, text: str) -> None:
        self.host, _, port = text.partition(":")
        interfaces = topology.network.interfaces.get(self.host)
        if interfaces is None:
            raise InputError(f"there is no host {self.host!r}; hosts: {', '.join(topology.network.interfaces)}")
        self.interface = _interface(self.host, interfaces, port)
        self.device, self.namespace = self.interface.name, None
        self.node: Node | None = None
        if place is not None:
            self.device = place.devices[self.host, self.interface.name]
            self.namespace = place.namespaces[self.host]
            self.node = next(node for node in place.state.design.nodes if node.name == self.host)

    @property
    def address(self) -> str:
        """One that ranks play at there."""
        if self.interface.prefix is not None:
            return str(next(iter(ip_network(self.interface.prefix).hosts())))
        return self.interface.addresses[0]

    def next_mac(self, address: str) -> str | None:
        """Of the first hop to an address, as the lab has it written down."""
        if self.node is None:
            return None
        hops = [address] + [
            hop.address
            for route in self.node.routes
            if ip_address(address) in ip_network(route.prefix)
            for hop in route.hops
        ]
        known = {one.address: one.mac for one in self.node.neighbours if one.device == self.device}
        return next((known[hop] for hop in hops if hop in known), None)


def _interface(host: str, interfaces: Sequence[Interface], port: str) -> Interface:
    if not port:
        return interfaces[0]
    for one in interfaces:
        if one.name == port:
            return one
    raise InputError(f"host {host} has no interface {port!r}; it has {', '.join(one.name for one in interfaces)}")


def _probe(args: argparse.Namespace, near: _Side, far: _Side) -> list[Verdict]:
    try:
        from emulator.probe.frames import Wire, probes
        from emulator.probe.ports import ProbePort
        from emulator.probe.probing import probe_all
    except ImportError as error:
        raise HostError("probes need scapy: pip install 'charkha[audit]'") from error
    with ProbePort(near.device, near.namespace) as sender, ProbePort(far.device, far.namespace) as receiver:
        wire = Wire(
            source_mac=sender.mac,
            next_mac=args.next_mac or near.next_mac(far.address) or receiver.mac,
            source=near.address,
            destination=far.address,
            mtu=_mtu(near, sender),
        )
        return probe_all(sender, receiver, probes(wire), interval_s=1 / args.rate, raises_mtu=args.raise_mtu)


def _mtu(near: _Side, sender: ProbePort) -> int:
    """The link's, as the topology has it, else the interface's."""
    return min(near.interface.mtu or sender.mtu or DEFAULT_MTU, sender.mtu)


def _show(args: argparse.Namespace, verdicts: list[Verdict]) -> None:
    from emulator.views.terminal.probe_table import render, to_json

    if args.json:
        print(json.dumps({"from": args.source, "to": args.destination} | to_json(verdicts), indent=2))
        return
    out = console()
    out.print(Text(f"{len(verdicts)} frames from {args.source} to {args.destination}", style="bold"))
    out.print(Text())
    out.print(render(verdicts, every=args.all))


def _rate(text: str) -> float:
    try:
        value = float(text)
    except ValueError as error:
        raise ValueError(f"{text!r}: frames a second are needed") from error
    if not 0 < value <= 1000:
        raise ValueError(f"{text!r}: probes are sent at up to 1000 frames a second")
    return value
