"""From a topology to where its agents run: inside a lab that is up, or on this host as it is."""

from __future__ import annotations

import argparse
import sys

from emulator.errors import InputError
from emulator.lab.egress import require_egress, ways
from emulator.lab.playing import LabPlace, find_place, require_addresses
from emulator.topology.model import Topology
from emulator.visible import visible


def enter_lab(args: argparse.Namespace, topology: Topology) -> LabPlace | None:
    """The lab that a run is played in; None where it is played on this host as it is.

    Traffic goes where the topology says, or nowhere: what would leave through another interface is refused. Agents that
    dial in look to that themselves.

    Raises:
        InputError: no such lab.
        PlanError: the lab is of another topology, several are of this one, or traffic would leave elsewhere.
        HostError: the topology needs a lab and none is up, or the user is not root.
    """
    if args.topology is None:
        if args.lab is not None:
            raise InputError("--lab is for --topology: a lab is raised from a topology file")
        return None
    ranks = _local_ranks(args, topology)
    place = find_place(topology, args.lab) if ranks or args.lab is not None else None
    if place is None:
        require_addresses(topology, ranks)
        _require_egress_here(topology, ranks)
        return None
    for host, namespace in place.namespaces.items():
        own = [rank for rank in ranks if topology.host_of(rank).name == host]
        require_egress(list(ways(topology, own)), devices=place.devices, namespace=namespace)
    if place.state.limited:
        print(f"charkha: tester-limited: {visible(place.state.limited)}", file=sys.stderr)
    return place


def _local_ranks(args: argparse.Namespace, topology: Topology) -> list[int]:
    """Ranks whose agents are started by this command."""
    if args.is_by_hand:
        return []
    return [rank for rank in range(topology.ranks) if topology.host_of(rank).name not in topology.agents]


def _require_egress_here(topology: Topology, ranks: list[int]) -> None:
    if topology.network.is_drawn:
        real = [way for way in ways(topology, ranks) if not way.is_loopback]
        require_egress(real, devices={})
