"""Where a run is played: loopback addresses, a lab, or interfaces of this host and others; and who may join."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from emulator.control.authentication import token_of_environment
from emulator.control.certificates.roles import Role
from emulator.control.wire.credentials import read_token, require_protection, tls_files
from emulator.controller.roster.gathering import gather_agents
from emulator.controller.roster.listen_address import ListenAddress
from emulator.controller.watchdog import JOIN_TIMEOUT_S
from emulator.device.lab.egress import AddressPair, address_pairs, require_egress
from emulator.device.lab.links import await_carriers, ports_down
from emulator.device.lab.playing import LabPlace, find_place, require_addresses
from emulator.device.lab.state import LabState, LabStore
from emulator.device.profile.applying import undo_leftovers
from emulator.errors import HostError, InputError, PlanError
from emulator.experiment.spec.spec import Agents, Experiment
from emulator.host.clock import clock_id
from emulator.roce.constants import UDP_PORT
from emulator.topology.file_format import JoiningHosts
from emulator.topology.joining import AgentPort, JoinedAgent
from emulator.topology.load import joining_hosts, load_topology
from emulator.topology.model import LOOPBACK_BLOCKS, Topology, default_loopback

Notify = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Testbed:
    """A topology with a place for every rank, and the lab that implements it; None: this host."""

    topology: Topology
    lab: LabPlace | None = None

    __test__ = False  # for pytest: this is not a test class


@contextlib.contextmanager
def enter_testbed(experiment: Experiment, *, ranks: int, notify: Notify = lambda _: None) -> Iterator[Testbed]:
    """Find the topology and the lab of a run, and reserve its loopback addresses; wait for agents that are its hosts.

    A run whose traffic would leave through an interface that the topology does not name is refused. Agents on other
    machines check that themselves.

    Raises:
        TopologyError: the topology file is not valid.
        InputError: the lab does not exist, or is named without a topology.
        PlanError: the lab belongs to another topology, several belong to this one, the ranks do not fit, or traffic
            would leave elsewhere.
        HostError: the topology needs a lab and none is up, a port of it is down, or the user is not root.
        RunError: agents that are to be the hosts have not come.
    """
    network = experiment.network
    if network.topology is None:
        if network.lab is not None:
            raise InputError("--lab needs --topology, the file from which the lab was brought up")
        with reserved_block() as block:
            yield Testbed(default_loopback(ranks, block=block))
        return
    wanted = joining_hosts(Path(network.topology))
    if wanted is not None:
        joined = _gather(experiment, wanted, notify)
        with reserved_block() as block:
            yield Testbed(_load(experiment, network.topology, ranks=ranks, joined=joined, block=block))
        return
    topology = _load(experiment, network.topology, ranks=ranks)
    yield Testbed(topology, _find_lab(experiment, topology))


def topology_without_host(experiment: Experiment, *, ranks: int) -> Topology:
    """The topology of a plan, without a lab or reserved addresses.

    Raises:
        TopologyError: the topology file is not valid.
        PlanError: the ranks do not fit.
    """
    network = experiment.network
    if network.topology is None:
        return default_loopback(ranks)
    return _load(experiment, network.topology, ranks=ranks)


def _gather(experiment: Experiment, wanted: JoiningHosts, notify: Notify) -> list[JoinedAgent]:
    """The agents that are the hosts of a run."""
    address = listening(experiment.agents)
    if address is None:
        raise PlanError("the topology's hosts come from agents that connect: give --listen HOST:PORT")
    gathering = gather_agents(
        address, count=wanted.count, timeout_s=experiment.agents.join_timeout_s or JOIN_TIMEOUT_S, notify=notify
    )
    own = clock_id()
    return [
        JoinedAgent(
            hello.agent,
            hello.clock_id == own,
            [AgentPort(port.name, port.addresses, port.rate_bps, port.mtu) for port in hello.ports],
        )
        for hello in asyncio.run(gathering)
    ]


def _load(
    experiment: Experiment, path: str, *, ranks: int, joined: Sequence[JoinedAgent] | None = None, block: int = 0
) -> Topology:
    job = experiment.job
    return load_topology(
        Path(path),
        ranks=ranks,
        allow_networks=experiment.network.allow_networks,
        hosts=job.host_names,
        host_share=job.host_share,
        address_share=job.address_share,
        joined=joined,
        block=block,
    )


def _used(experiment: Experiment, topology: Topology, ranks: Sequence[int]) -> list[AddressPair]:
    """Addresses between which a job may send: of pairs of ranks only their own, which may be all that is cabled."""
    found = list(address_pairs(topology, ranks))
    if experiment.job.pairs is None:
        return found
    partners = {topology.address_of(rank ^ 1) for rank in ranks}
    return [one for one in found if one.destination in partners]


def _find_lab(experiment: Experiment, topology: Topology) -> LabPlace | None:
    ranks = _local_ranks(experiment, topology)
    requested = experiment.network.lab
    lab = find_place(topology, requested) if ranks or requested is not None else None
    if lab is None:
        require_addresses(topology, ranks)
        if topology.network.is_drawn:
            require_egress([pair for pair in address_pairs(topology, ranks) if not pair.is_loopback], devices={})
        return None
    _require_links(lab.state)
    for host, namespace in lab.namespaces.items():
        own = [rank for rank in ranks if topology.host_of(rank).name == host]
        require_egress(
            _used(experiment, topology, own),
            devices=lab.devices,
            namespace=namespace,
            without_route=f"`{lab.state.up_command}` gives the lab its routes back",
        )
    return lab


def _require_links(state: LabState) -> None:
    """Undo what a killed run left in a lab, and refuse one with a port that somebody took down."""
    had_leftovers = undo_leftovers(state.design, LabStore().folder(state.lab_id))
    down = ports_down(state.design)
    if down:
        ports = f"port{'s' if len(down) > 1 else ''} {', '.join(map(str, down))}"
        verb = "are" if len(down) > 1 else "is"
        problem = f"{ports} of lab {state.lab_id} {verb} down"
        raise HostError(f"{problem}: `{state.up_command}` brings the lab's ports up again")
    if had_leftovers:
        await_carriers(state.design.nodes)


def _local_ranks(experiment: Experiment, topology: Topology) -> Sequence[int]:
    """Ranks whose agents this command starts."""
    if experiment.agents.by_hand:
        return []
    return [rank for rank in range(topology.endpoints) if topology.host_of(rank).name not in topology.agents]


@contextlib.contextmanager
def reserved_block() -> Iterator[int]:
    """Reserve a block of loopback addresses: RoCEv2 has a single port, so every run needs its own addresses.

    An abstract Unix socket of the block's name is the reservation. Like loopback, such names belong to the network
    namespace, and they go with the process. The addresses are tried too, because other programs may listen there.
    """
    begin = os.getpid()
    for block in range(begin, begin + LOOPBACK_BLOCKS):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as name:
            try:
                name.bind(f"\0charkha/loopback/{block % LOOPBACK_BLOCKS}")
                _try_address(default_loopback(1, block=block).address_of(0))
            except OSError:
                continue
            yield block
            return
    yield 0  # all are taken: binding reports it


def _try_address(host: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind((host, UDP_PORT))


def listening(agents: Agents) -> ListenAddress | None:
    """Where agents connect; None if all are local.

    Raises:
        InputError: the token or the identity cannot be used, or control would leave this machine unprotected.
        PlanError: TLS or token files without an address, or agents by hand that have nowhere to connect.
    """
    token_of_environment()  # agents of this host do not inherit it either
    files = {
        "token-file": agents.token_file,
        "tls-cert": agents.tls_cert,
        "tls-key": agents.tls_key,
        "tls-ca": agents.tls_ca,
        "identity": agents.identity,
    }
    if agents.listen is None:
        if agents.by_hand:
            raise PlanError("agents started by hand need an address: give --listen HOST:PORT or unix:PATH")
        for name, file in files.items():
            if file is not None:
                raise PlanError(f"--{name} is for --listen")
        return None
    token_file, *tls = (None if file is None else Path(file) for file in files.values())
    address = ListenAddress(agents.listen, read_token(token_file), tls_files(*tls))
    if agents.identity is not None:
        from emulator.control.certificates.identity import check_identity

        check_identity(Path(agents.identity), Role.CONTROLLER)
    require_protection(agents.listen, address.tls, insecure=agents.insecure, option="--listen")
    return address
