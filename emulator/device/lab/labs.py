"""Brings labs up, takes them down, finds them, and tells whether the cores of this host can carry one."""

from __future__ import annotations

import datetime
import os
import platform
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from emulator.device.lab.between import DEFAULT_ID, PortPair, given_back, joined, own_network
from emulator.device.lab.commands import existing, remove_namespaces, require_root
from emulator.device.lab.design import make_design
from emulator.device.lab.links import await_carriers, bring_up, ports_down
from emulator.device.lab.model import OVS, Design, Node
from emulator.device.lab.recipe import TOOLS as OVS_TOOLS
from emulator.device.lab.recipe import cables, node_batches, ovs_batches, shaping_batch, version_batch
from emulator.device.lab.state import RAISING, REMOVING, UP, LabState, LabStore, Owner, Party, default_id
from emulator.device.lab.status import device_counters, enlarge_buffers
from emulator.errors import HostError, InputError, PlanError
from emulator.host.tools import attempt, require_tools, run
from emulator.planner.network.header_overhead import DEFAULT_MTU, roce_overhead, roce_path_mtu
from emulator.plugins import PluginKind, load
from emulator.shipped import TOPOLOGIES
from emulator.topology.model import Topology
from emulator.topology.network import End, Network
from emulator.units import BITS_PER_BYTE

PACKETS_PER_CORE = 120_000
"""Full RoCE packets per second that a core sends, forwards and receives if every host has a core to itself."""
SHARED_PACKETS_PER_CORE = 60_000
"""The same if hosts share cores: the processes of the hosts then compete for them."""


@dataclass(frozen=True, slots=True)
class Load:
    """Load of a lab whose hosts all send at line rate: packets per second, and the number of hosts."""

    packets_per_s: float
    hosts: int


def offered_load(network: Network) -> Load:
    """Load with all ports of hosts at line rate; ports without a rate count as idle."""
    mtu_of = {end: link.mtu or DEFAULT_MTU for link in network.links for end in link.ends}
    ports = [(End(host, port.name), port) for host, ports in network.interfaces.items() for port in ports]
    packets = sum((port.rate_bps or 0) / (BITS_PER_BYTE * _packet_bytes(mtu_of[end])) for end, port in ports)
    return Load(packets, len(network.interfaces))


def judge(network: Network, *, cores: int | None = None) -> str | None:
    """Why this host cannot carry a network's rates at once; None if it can.

    Args:
        network: of the topology.
        cores: number of cores; None: those that this process may use.
    """
    available = cores or len(os.sched_getaffinity(0))
    load = offered_load(network)
    most = available * (PACKETS_PER_CORE if load.hosts <= available else SHARED_PACKETS_PER_CORE)
    if load.packets_per_s <= most:
        return None
    return (
        f"{load.hosts} hosts at line rate send {load.packets_per_s:,.0f} packets/s,"
        f" {available} cores can handle about {most:,}: lower the rates to {most / load.packets_per_s:.0%}"
        " or use a larger MTU"
    )


def _packet_bytes(mtu: int) -> int:
    """Bytes on the wire of a full RoCE packet that is a whole message."""
    return roce_overhead(mtu, message_bytes=roce_path_mtu(mtu)).wire_bytes


TOOLS = ("ip", "tc", "bridge", "ethtool", "sysctl", "setpriv", "taskset")
_READINGS = 20
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}")


def lab_id_of(name: str, requested: str | None) -> str:
    """The id of a lab: as requested, or derived from the name of the topology.

    Raises:
        PlanError: that cannot be part of a namespace's name.
    """
    lab_id = requested if requested is not None else default_id(name)
    if not _ID.fullmatch(lab_id):
        raise PlanError(
            f"--id {lab_id!r}: 1 to 32 letters, digits, dots, dashes or underscores, a letter or digit first"
        )
    return lab_id


class Labs:
    """The labs of this host.

    Args:
        store: where their states are.
    """

    def __init__(self, store: LabStore | None = None) -> None:
        self.store = store or LabStore()

    def up(
        self, topology: Topology, *, lab_id: str, limited: str | None = None, party: Party | None = None
    ) -> LabState:
        """Bring up the lab of a topology. If that fails, everything made so far is removed.

        Args:
            topology: from a file; valid for any number of ranks.
            lab_id: its id.
            limited: why this host cannot carry all its rates at once.
            party: who may play in it; None: who uses this process.

        Raises:
            PlanError: the topology cannot be a lab, or a lab of that id is up.
            HostError: the host lacks a right, a tool or a kernel module.
        """
        require_root()
        require_tools(TOOLS)
        design = make_design(topology, lab_id)
        if any(node.kind == OVS for node in design.nodes):
            require_tools(OVS_TOOLS)
        self.make_way(lab_id)
        state = LabState(
            design=design,
            topology=str(Path(topology.source or "").resolve()),
            digest=topology.digest or "",
            name=topology.name,
            created=_now(),
            owner=Owner.me(),
            limited=limited,
            versions=_versions(design),
            belongs_to=party or Party.me(),
        )
        return self._raise(state, self._realise)

    def up_between(self, pair: PortPair, *, lab_id: str) -> LabState:
        """Bring up a lab between two real ports. If that fails, they are given back.

        Raises:
            PlanError: a lab of that id is up.
            HostError: the host lacks a right, a tool or a kernel module.
        """
        state = self._raise(self.state_between(pair, lab_id), self._join)
        (node,) = state.design.nodes
        state = replace(state, between=replace(pair, before=_counters_at_rest(node)))
        self.store.write(state)
        return state

    def state_between(self, pair: PortPair, lab_id: str) -> LabState:
        """What a lab between two real ports is before anything of it is made."""
        design = pair.design(lab_id)
        return LabState(
            design,
            "",
            "",
            DEFAULT_ID,
            _now(),
            Owner.me(),
            versions=_versions(design),
            belongs_to=Party.me(),
            between=pair,
        )

    def standing_between(self, names: Sequence[str], lab_id: str, *, rate_bps: int | None) -> LabState | None:
        """The lab of that id, if it is up between these ports with this rate.

        Raises:
            InputError: its state cannot be read.
        """
        state = self.store.read(lab_id)
        if state is None or state.phase != UP or state.between is None:
            return None
        return state if (set(names), rate_bps) == (set(state.between.names), state.between.rate_bps) else None

    def standing(self, topology: Topology, lab_id: str, *, party: Party) -> LabState | None:
        """The lab of that id, if it is up, came from the same file, and belongs to the party.

        Raises:
            PlanError: it belongs to somebody else.
            InputError: its state cannot be read.
        """
        state = self.store.read(lab_id)
        if state is None or state.phase != UP or state.digest != topology.digest:
            return None
        if not state.belongs_to.is_same(party):
            raise PlanError(f"lab {lab_id} is up and belongs to {state.belongs_to}: give yours another name with --id")
        return state

    def mend(self, state: LabState) -> list[End]:
        """Bring all ports of a lab up, with their addresses and routes; returns those that were down.

        Raises:
            HostError: the user is not root, a namespace is gone, or a port does not come up.
        """
        require_root()
        require_namespaces(state)
        down = ports_down(state.design)
        bring_up(state.design)
        if state.design.routing is not None:
            load(PluginKind.HOOKS, "await_routes")(state.design, self.store.folder(state.lab_id))
        return down

    def down(self, lab_id: str) -> bool:
        """Remove everything of a lab, and end what runs inside it; False if there was none.

        Raises:
            HostError: the user is not root, or something of it stays.
            InputError: its state cannot be read.
        """
        require_root()
        state = self.store.read(lab_id)
        if state is None:
            was_there = self.store.folder(lab_id).is_dir()
            self.store.forget(lab_id)
            return was_there
        if state.between is not None and state.between.network != own_network():
            raise PlanError(f"lab {lab_id} was brought up in another network namespace: take it down there")
        self.store.write(replace(state, phase=REMOVING))
        if state.between is not None:
            _give_back(state.between, state.design.nodes[0].namespace)
        left = remove_namespaces([node.namespace for node in state.design.nodes])
        if left:
            raise HostError(f"namespaces of lab {lab_id} cannot be removed: try `ip netns delete {left[0]}`")
        self.store.forget(lab_id)
        return True

    def get(self, lab_id: str) -> LabState:
        """The lab of that id, which is up.

        Raises:
            InputError: there is none, or it is incomplete.
        """
        state = self.store.read(lab_id)
        if state is None:
            known = ", ".join(self.store.ids()) or "none"
            raise InputError(f"there is no lab {lab_id!r} (labs: {known}); `charkha lab up FILE` brings one up")
        if state.phase != UP:
            raise InputError(f"lab {lab_id} is incomplete ({state.phase}): `charkha lab down {lab_id}` removes it")
        return state

    def only(self, lab_id: str | None) -> LabState:
        """The lab of that id, or the only one there is.

        Raises:
            InputError: no such lab, or it must be named.
        """
        ids = self.store.ids()
        if lab_id is None and len(ids) > 1:
            raise InputError(f"there are several labs; choose one with --lab: {', '.join(ids)}")
        if lab_id is None and not ids:
            raise InputError("no lab is up; `charkha lab up FILE` brings one up")
        return self.get(lab_id if lab_id is not None else ids[0])

    def meant(self, word: str | None) -> list[str]:
        """Ids of the labs that are meant, complete or not; empty if there is none.

        Args:
            word: id of a lab, or the topology file that it was brought up from; None: all labs.

        Raises:
            InputError: a state cannot be read.
        """
        ids = self.store.ids()
        if word is None or word in ids:
            return ids if word is None else [word]
        source = str(TOPOLOGIES.find(word).resolve())
        return [state.lab_id for state in self.store.states() if state.topology == source]

    def to_remove(self, word: str | None, *, several: bool, none: bool, me: Party | None = None) -> list[str]:
        """Ids of the labs that `lab down` means; `word` as in `meant`.

        Args:
            word: a lab, or a topology file; None: the only lab.
            several: more than one lab may be meant.
            none: no lab may be meant.
            me: None: who uses this process.

        Raises:
            InputError: several or no labs are meant, and that is not allowed; or one of somebody else, not by its id.
        """
        ids = self.meant(word)
        if len(ids) > 1 and not several:
            raise InputError(f"there are several labs; choose one or give --all: {', '.join(ids)}")
        others = [] if several or word in ids else self._of_others(ids, me or Party.me())
        if others:
            state = others[0]
            problem = f"lab {state.lab_id} belongs to {state.belongs_to}"
            raise InputError(f"{problem}: `charkha lab down {state.lab_id}` removes it all the same")
        if not ids and not none:
            which = "no lab is up" if word is None else f"there is no lab {word!r}"
            raise InputError(
                f"{which} (labs: {', '.join(self.store.ids()) or 'none'}); with --if-exists this is no error"
            )
        return ids

    def of_digest(self, digest: str | None) -> list[LabState]:
        """Labs that are up and were brought up from a file with this content.

        Raises:
            InputError: a state cannot be read.
        """
        return [state for state in self.store.states() if state.digest == digest and state.phase == UP]

    def _of_others(self, ids: Sequence[str], me: Party) -> list[LabState]:
        """Those of these labs that do not belong to somebody."""
        return [state for state in map(self.store.read, ids) if state is not None and not state.belongs_to.is_same(me)]

    # Bringing up.

    def make_way(self, lab_id: str) -> None:
        """Remove what a killed `up` or `down` left under this id.

        Raises:
            PlanError: the lab is up, or another process is bringing it up.
        """
        if not self.store.folder(lab_id).is_dir():
            return
        state = self.store.read(lab_id)
        if state is not None and state.phase == UP:
            problem = f"lab {lab_id} is already up: run `charkha lab down {lab_id}`, or give a different name with --id"
            raise PlanError(problem)
        if state is not None and state.phase == RAISING and state.owner.is_alive:
            raise PlanError(f"process {state.owner.pid} is bringing up lab {lab_id}: give a different name with --id")
        self.down(lab_id)

    def _raise(self, state: LabState, realise: Callable[[Design], None]) -> LabState:
        lab_id = state.lab_id
        self._refuse_taken(state.design)
        try:
            self.store.claim(lab_id)
        except FileExistsError:
            raise PlanError(f"another process is bringing up lab {lab_id}: give a different name with --id") from None
        self.store.write(state)
        try:
            realise(state.design)
        except BaseException:
            self.down(lab_id)
            raise
        state = replace(state, phase=UP)
        self.store.write(state)
        return state

    def _refuse_taken(self, design: Design) -> None:
        """Refuse names of namespaces that exist: they are not this lab's to remove."""
        taken = existing(node.namespace for node in design.nodes)
        if taken:
            raise PlanError(
                f"namespace {taken[0]} exists but belongs to no lab: give the lab a different name with --id"
            )

    def _join(self, design: Design) -> None:
        for batch in joined(design.nodes[0]):
            run(batch)
        await_carriers(design.nodes)

    def _realise(self, design: Design) -> None:
        run(cables(design))
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda node: self._realise_node(node, design), design.nodes))
        await_carriers(design.nodes)
        if design.routing is not None:
            load(PluginKind.HOOKS, "start_routing")(design, self.store.folder(design.lab_id))

    def _realise_node(self, node: Node, design: Design) -> None:
        for batch in node_batches(node, design):
            run(batch)
        if node.kind == OVS:
            folder = self.store.folder(design.lab_id) / node.namespace
            folder.mkdir()
            for batch in ovs_batches(node, folder):
                run(batch)
            queues = (port.shaping.limit_bytes for port in node.ports if port.shaping)
            enlarge_buffers(node.namespace, queue_bytes=max(queues, default=0))
        run(shaping_batch(node))


def require_namespaces(state: LabState) -> None:
    """Refuse a lab that lost a namespace.

    Raises:
        HostError: with the first one.
    """
    for node in state.design.nodes:
        if not existing([node.namespace]):
            problem = f"namespace {node.namespace} of lab {state.lab_id} is gone"
            raise HostError(f"{problem}: `charkha lab down {state.lab_id}`, then bring it up again")


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).astimezone().isoformat(timespec="milliseconds")


def _give_back(pair: PortPair, namespace: str) -> None:
    for batch in given_back(pair, namespace):
        attempt(batch)
    kept = [name for name in device_counters(namespace) if name in pair.names]
    if kept:
        raise HostError(f"{kept[0]} cannot be moved out of {namespace}: is there another {kept[0]} here?")


def _counters_at_rest(node: Node) -> Mapping[str, Mapping[str, int]]:
    """Counters with no frame between the readings of the two ports, which would count at one of them for good.

    Between ports that are never idle for as long as two readings take, the last reading serves.
    """
    counters: Mapping[str, Mapping[str, int]] = {}
    for _ in range(_READINGS):
        known = device_counters(node.namespace)
        again = {port.name: known.get(port.device, {}) for port in node.ports}
        if counters == again:
            break
        counters = again
    return counters


def _versions(design: Design) -> dict[str, str]:
    """Versions of the kernel, and of what is used of Open vSwitch and FRR."""
    found = {"kernel": platform.release()}
    if any(node.kind == OVS for node in design.nodes):
        found["openvswitch"] = run(version_batch()).splitlines()[0].split()[-1]
    if design.routing is not None:
        found["frr"] = load(PluginKind.HOOKS, "routing_version")()
    return found
