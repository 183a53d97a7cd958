"""What a run sees and does to the device under test beside sending traffic through it: `--profile`, counters."""

from __future__ import annotations

import argparse

from emulator.cli.arguments import argument
from emulator.dut.counters import PERIOD_S
from emulator.dut.gnmi import GnmiCounters
from emulator.dut.host_interfaces import HostInterfaceCounters, interfaces_here
from emulator.dut.load import find_profile, load_profile
from emulator.dut.watch import DutWatch
from emulator.errors import PlanError
from emulator.lab.playing import LabPlace
from emulator.planner.overhead import DEFAULT_MTU, ETHERNET_BYTES, roce_packet_bytes
from emulator.topology.model import Topology

SHORTEST_PERIOD_S, LONGEST_PERIOD_S = 0.02, 3600.0


def add_profile_option(parser: argparse.ArgumentParser) -> None:
    """What the device under test does to frames beside forwarding them."""
    group = parser.add_argument_group("device under test")
    group.add_argument(
        "--profile",
        metavar="NAME|FILE",
        help="firmware profile of the lab's switches for the length of the run, as fw-b (default: a clean device)",
    )
    group.add_argument(
        "--counters-every",
        metavar="S",
        type=argument(_period),
        default=PERIOD_S,
        help="read the counters of the device under test so often (default: 1)",
    )


def _period(text: str) -> float:
    try:
        value = float(text)
    except ValueError as error:
        raise ValueError(f"{text!r}: seconds are needed") from error
    if not SHORTEST_PERIOD_S <= value <= LONGEST_PERIOD_S:
        raise ValueError(f"{text!r}: from {SHORTEST_PERIOD_S:g} to {LONGEST_PERIOD_S:g} seconds")
    return value


def watch(args: argparse.Namespace, topology: Topology, place: LabPlace | None) -> DutWatch:
    """Who goes along with a run.

    Args:
        args: of the command line.
        topology: of the run.
        place: the lab it is played in; None: none.

    Raises:
        InputError: there is no such profile, or it is wrong, or does not fit the lab.
        PlanError: a profile without a lab.
    """
    profile = load_profile(find_profile(args.profile)) if args.profile is not None else None
    if profile is not None and place is None:
        source = topology.source or "TOPOLOGY"
        problem = "a profile is put into force in a lab, and this run is in none"
        raise PlanError(f"{problem}: `charkha lab up {source}`, then run with --topology {source}")
    own = interfaces_here(topology) if place is None else []
    return DutWatch(
        [
            *(GnmiCounters(target) for target in (topology.dut.gnmi if topology.dut else ())),
            *([HostInterfaceCounters(own)] if own else []),
        ],
        topology=topology,
        lab=place.state if place else None,
        profile=profile,
        frame_bytes=_full_frame_bytes(args, topology),
        period_s=args.counters_every,
    )


def _full_frame_bytes(args: argparse.Namespace, topology: Topology) -> int:
    """Of the wire, that a full frame of the run's transport takes."""
    if args.transport == "roce" and args.roce_path_mtu is not None:
        return roce_packet_bytes(args.roce_path_mtu, ipv6=topology.is_ipv6)
    return (topology.link_mtu or DEFAULT_MTU) + ETHERNET_BYTES
