"""What the controller is given of a settled run, the monitor of its device, and what its errors mean to a user."""

from __future__ import annotations

from collections.abc import Sequence

from emulator.controller.assignment import networks_beside
from emulator.controller.recording.topology_description import describe_path
from emulator.controller.run_plan import SessionPlan
from emulator.device.counters.sources import GnmiCounters, HostInterfaceCounters, interfaces_here
from emulator.device.counters.watch import DutWatch
from emulator.errors import AgentLost, EmulatorError, RunTimeout, TransferFailed
from emulator.experiment.settle.defaults import Resolved
from emulator.experiment.settle.events import require_lab, schedule_of
from emulator.experiment.settle.flows import assign_flows
from emulator.experiment.settle.settled import Settled
from emulator.experiment.settle.testbed import Testbed
from emulator.experiment.spec.event_spec import Event
from emulator.experiment.spec.spec import Device
from emulator.topology.model import Topology


def session_plan(settled: Sequence[Settled], *, session_id: str) -> SessionPlan:
    """What the session carries out.

    Args:
        settled: its jobs; the first one has the flows.
        session_id: of the session.
    """
    first = settled[0]
    networks: dict[str, list[str]] = {}
    alternates: dict[str, list[str]] = {}
    for one in settled:
        for name in one.assignment.remote:
            beside = networks_beside(one.topology, one.assignment.ranks_of[name])
            networks.setdefault(name, []).extend([*beside, *(_peers_of(one, name) if one is first else ())])
            seconds = networks_beside(one.topology, one.assignment.ranks_of[name], alternate=True)
            alternates.setdefault(name, []).extend(seconds)
    return SessionPlan(
        session_id=session_id,
        jobs=[one.plan for one in settled],
        networks={name: list(dict.fromkeys(found)) for name, found in networks.items()},
        alternate_networks={name: list(dict.fromkeys(found)) for name, found in alternates.items()},
        flows=assign_flows(first.flows, first.assignment, first.topology),
        flow_addresses=_flow_addresses(first),
        listening=first.listening,
        join_timeout_s=first.resolved.join_timeout_s,
        exec_prefixes=first.exec_prefixes,
    )


def explained(error: AgentLost | TransferFailed | RunTimeout, topology: Topology) -> EmulatorError:
    """The error with the path between the two ranks that it names, and with storage endpoints by name."""
    if isinstance(error, AgentLost):
        ranks = [one for one in error.ranks if one < topology.ranks]
        storage = [topology.label_of(one) for one in error.ranks if one >= topology.ranks]
        return AgentLost(error.agent, ranks=ranks, reason=error.reason, storage=storage)
    between = error.between
    if between is None or max(between) >= topology.endpoints:
        return error
    path = describe_path(topology, *between)
    if isinstance(error, TransferFailed):
        return TransferFailed(error.reason, agent=error.agent, between=between, path=path)
    return RunTimeout(
        error.waiting_on,
        seconds=error.seconds,
        between=between,
        silent_s=error.silent_s,
        path=path,
        silent=topology.label_of(between[1]),
    )


def _peers_of(settled: Settled, agent: str) -> list[str]:
    """Addresses of the peers of an agent's flows, on the same link unless there is a router."""
    if any(switch.kind == "router" for switch in settled.topology.network.switches):
        return []
    flows = assign_flows(settled.flows, settled.assignment, settled.topology).get(agent, ())
    numbers = {flow.number for flow in flows}
    return [flow.peer_address for flow in settled.flows if flow.task.number in numbers]


def _flow_addresses(settled: Settled) -> list[str]:
    """Of both ends of every flow, and where peers agree on queue pairs."""
    ends = [address for flow in settled.flows for address in (flow.task.host, flow.peer_address)]
    peers = [host.peer for host in settled.topology.hosts if settled.flows and host.peer is not None]
    return ends + [address for peer in peers for address in (peer.address, peer.exchange)]


def watch_dut(
    device: Device, resolved: Resolved, testbed: Testbed, *, events: Sequence[Event] = (), iterations: int | None = None
) -> DutWatch:
    """The monitor of the device under test; enter it around the run.

    Args:
        device: of the run spec, with its profile.
        resolved: settings of the first job.
        testbed: its topology and lab.
        events: of the session.
        iterations: measured ones of the first job; None: nobody knows.

    Raises:
        InputError: a profile does not exist, is not valid, or does not fit the lab, or an event does not.
        PlanError: a profile or events without a lab.
    """
    topology, lab = testbed.topology, testbed.lab
    schedule = schedule_of(device, events, iterations=iterations)
    if lab is None:
        require_lab(device, events, topology)
    own = interfaces_here(topology) if lab is None else []
    return DutWatch(
        [
            *(GnmiCounters(target) for target in (topology.dut.gnmi if topology.dut else ())),
            *([HostInterfaceCounters(own)] if own else []),
        ],
        topology=topology,
        lab=lab.state if lab is not None else None,
        schedule=schedule,
        frame_bytes=resolved.full_frame_bytes,
        period_s=resolved.counters_every_s,
    )
