"""A run in a lab: which lab it uses, how its agents are started in namespaces, and the facts for the manifest."""

from __future__ import annotations

import dataclasses
import errno
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from emulator.device.lab.commands import require_root
from emulator.device.lab.labs import Labs, require_namespaces
from emulator.device.lab.model import ROUTER, Node
from emulator.device.lab.recipe import HASH_POLICY, exec_prefix
from emulator.device.lab.state import LabState, Party
from emulator.errors import HostError, PlanError
from emulator.topology.model import Topology


@dataclass(frozen=True, slots=True)
class LabPlace:
    """The lab that a run is played in."""

    state: LabState

    @property
    def exec_prefixes(self) -> Mapping[str, Sequence[str]]:
        """Host → exec prefix of its agent: runs the agent in the host's namespace, on one core.

        Frames of a host then cross the lab on that core, in order. On several cores, frames that leave close together
        would overtake each other: the tester itself would reorder them.
        """
        cores = sorted(os.sched_getaffinity(0))
        hosts = [node for node in self.state.design.nodes if node.is_host]
        return {
            node.name: (*exec_prefix(node), "taskset", "-c", str(cores[number % len(cores)]))
            for number, node in enumerate(hosts)
        }

    @property
    def namespaces(self) -> Mapping[str, str]:
        """Host → its namespace."""
        return {node.name: node.namespace for node in self.state.design.nodes if node.is_host}

    @property
    def devices(self) -> Mapping[tuple[str, str], str]:
        """(node, port) → the name of its device."""
        return {(node.name, port.name): port.device for node in self.state.design.nodes for port in node.ports}

    def facts(self) -> Mapping[str, Any]:
        """Facts for the manifest: what implements the topology, with parameters; rates in bit/s, sizes in bytes."""
        state = self.state
        return {
            "id": state.lab_id,
            "created": state.created,
            "versions": dict(state.versions),
            "tester_limited": state.limited,
            "nodes": [_node_facts(node) for node in state.design.nodes],
            "ports": [
                {"port": f"{node.name}:{port.name}", "device": port.device, "mtu": port.mtu}
                | (dataclasses.asdict(port.shaping) if port.shaping else {})
                for node in state.design.nodes
                for port in node.ports
            ],
        }


def _node_facts(node: Node) -> Mapping[str, Any]:
    hashing = {"multipath_hash_policy": HASH_POLICY, "multipath_hash_seed": node.hash_seed}
    return {"name": node.name, "kind": node.kind, "namespace": node.namespace} | (
        hashing if node.kind == ROUTER else {}
    )


def find_place(
    topology: Topology, lab_id: str | None, *, labs: Labs | None = None, me: Party | None = None
) -> LabPlace | None:
    """The lab of a topology that is up and belongs to who uses this process; None if there is none.

    Args:
        topology: of the run.
        lab_id: the lab that the user names; None: the one brought up from the same file.
        me: None: who uses this process.

    Raises:
        InputError: no such lab.
        PlanError: the named lab belongs to another topology, several labs to this one, or it belongs to somebody else.
        HostError: one of its namespaces is gone, or the user is not root.
    """
    labs, me = labs or Labs(), me or Party.me()
    if lab_id is not None:
        state = labs.get(lab_id)
        if state.digest != topology.digest:
            problem = f"lab {lab_id} was brought up from {state.topology} as it was then, not from {topology.source}"
            raise PlanError(f"{problem}: `charkha lab down {lab_id}`, then `charkha lab up {topology.source}`")
        if not state.belongs_to.is_same(me) and not me.is_root:
            raise _refusal(state, me)
        return _place(state)
    found = labs.of_digest(topology.digest)
    own = [state for state in found if state.belongs_to.is_same(me)]
    if len(own) > 1:
        raise PlanError(f"several labs come from {topology.source}; choose one with --lab: {', '.join(_ids(own))}")
    if found and not own:
        raise _refusal(found[0], me)
    return _place(own[0]) if own else None


def _refusal(state: LabState, me: Party) -> PlanError:
    """Nobody plays in the lab of somebody else."""
    own = f"charkha lab up {state.topology} --id ID"
    if me.service is not None:
        remedy = f"bring up one for this service with `{own} --service {me.service}`"
    else:
        remedy = f"bring up your own with `{own}`"
        if state.belongs_to.service is not None:
            remedy += ", or submit the run to the service"
        if me.is_root:
            remedy += f", or, as root, name it with --lab {state.lab_id}"
    return PlanError(f"lab {state.lab_id} belongs to {state.belongs_to}: {remedy}")


def require_addresses(topology: Topology, ranks: Sequence[int], *, labs: Labs | None = None) -> None:
    """Refuse ranks whose addresses this host does not have, before their agents do.

    Raises:
        HostError: this host does not have an address.
    """
    known: set[str] = set()
    for rank in ranks:
        address = topology.address_of(rank)
        if address in known or _is_here(address):
            known.add(address)
            continue
        others = [one for one in (labs or Labs()).store.states() if one.name == topology.name]
        stale = f"; lab {others[0].lab_id} comes from a different version of the file" if others else ""
        raise HostError(
            f"{address} of host {topology.host_of(rank).name} is not an address of this host{stale}:"
            f" `charkha lab up {topology.source}` brings up a lab with it"
        )


def _place(state: LabState) -> LabPlace:
    require_root()
    require_namespaces(state)
    return LabPlace(state)


def _ids(states: Sequence[LabState]) -> Iterator[str]:
    return (state.lab_id for state in states)


def _is_here(address: str) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError as error:
        return error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
    return True
