"""What a run sees and does to the device under test beside sending traffic through it: `--profile`, counters."""

from __future__ import annotations

import argparse

from emulator.dut.gnmi import GnmiCounters
from emulator.dut.host_interfaces import HostInterfaceCounters, interfaces_here
from emulator.dut.load import find_profile, load_profile
from emulator.dut.watch import DutWatch
from emulator.errors import PlanError
from emulator.lab.playing import LabPlace
from emulator.planner.network.overhead import DEFAULT_MTU, ETHERNET_BYTES, roce_packet_bytes
from emulator.topology.model import Topology


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
        return roce_packet_bytes(int(args.roce_path_mtu), ipv6=topology.is_ipv6)
    return (topology.link_mtu or DEFAULT_MTU) + ETHERNET_BYTES
