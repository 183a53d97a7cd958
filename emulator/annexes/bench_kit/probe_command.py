"""`charkha lab probe`: crafted frames into a device under test, and what comes out of it."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from emulator.annexes.bench_kit.probing import find_sides, probe_between
from emulator.cli.output import print_json, print_tables
from emulator.cli.parser import Subparsers, argument
from emulator.device.lab.playing import find_place
from emulator.errors import HostError
from emulator.topology.load import load_topology
from emulator.units import parse_number

_EPILOG = """example:
  charkha lab up topologies/two-hosts-switch.yaml
  charkha lab probe --topology topologies/two-hosts-switch.yaml --from h0 --to h1

Both hosts are in a lab on this machine, or both interfaces belong to this machine.
docs/probe.md lists the frames.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `probe` to the command line."""
    parser = subparsers.add_parser(
        "probe",
        description="Send crafted frames from one interface of a topology to another and compare what arrives.",
        epilog=_EPILOG,
    )
    parser.add_argument("--topology", metavar="FILE", type=Path, required=True, help="topology with both interfaces")
    parser.add_argument("--from", dest="source", metavar="HOST[:PORT]", required=True, help="where to send frames")
    parser.add_argument("--to", dest="destination", metavar="HOST[:PORT]", required=True, help="where to receive them")
    parser.add_argument("--all", action="store_true", help="also list frames that pass")
    parser.add_argument("--json", action="store_true", help="print every verdict as JSON")
    path = parser.add_advanced_group("path")
    path.add_argument("--lab", metavar="ID", help="the lab, if the topology has several")
    path.add_argument("--next-mac", metavar="MAC", help="MAC of the first hop (default: from the lab, or of --to)")
    path.add_argument(
        "--allow-network", metavar="PREFIX", action="append", default=[], help="allow addresses of this prefix"
    )
    sending = parser.add_advanced_group("sending")
    sending.add_argument(
        "--rate",
        metavar="N",
        type=argument(partial(parse_number, unit="frames per second", most=1000)),
        default=50.0,
        help="maximum frames per second (default: 50)",
    )
    sending.add_argument(
        "--raise-mtu", action="store_true", help="raise the sender's MTU by 1 to send the frame above the MTU"
    )
    parser.add_explain("emulator.annexes.bench_kit.probe_verdict")
    parser.set_defaults(handler=_run)


def _run(args: argparse.Namespace) -> None:
    topology = load_topology(args.topology, ranks=0, allow_networks=args.allow_network)
    near, far = find_sides(topology, find_place(topology, args.lab), args.source, args.destination)
    try:
        from emulator.annexes.bench_kit.probe_verdict import probe_to_json, render
    except ImportError as error:
        raise HostError("probes need scapy: pip install 'charkha[probe]'") from error
    verdicts = probe_between(near, far, next_mac=args.next_mac, interval_s=1 / args.rate, raises_mtu=args.raise_mtu)
    if args.json:
        print_json({"from": args.source, "to": args.destination} | probe_to_json(verdicts))
    else:
        headline = f"{len(verdicts)} frames from {args.source} to {args.destination}"
        print_tables(headline, "", render(verdicts, every=args.all))
