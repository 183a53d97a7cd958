"""What the controller is given of a settled run, and what its errors mean to a user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from emulator.controller.assignment import domains_of, networks_beside
from emulator.controller.recording.topology_description import describe_path
from emulator.controller.run_plan import RunPlan, SessionPlan
from emulator.errors import AgentLost, EmulatorError, RunTimeout, TransferFailed
from emulator.experiment.settle.flows import assign_flows
from emulator.experiment.settle.settled import Settled
from emulator.planner.network.port_shares import PortShare, port_shares
from emulator.topology.model import Topology


def session_plan(settled: Sequence[Settled], *, session_id: str) -> SessionPlan:
    """What the session carries out.

    Args:
        settled: its jobs; the first one has the flows.
        session_id: of the session.
    """
    first = settled[0]
    networks: dict[str, list[str]] = {}
    for one in settled:
        for name in one.assignment.remote:
            beside = networks_beside(one.topology, one.assignment.ranks_of[name])
            networks.setdefault(name, []).extend([*beside, *(_peers_of(one, name) if one is first else ())])
    return SessionPlan(
        session_id=session_id,
        jobs=[run_plan(one) for one in settled],
        silence_timeout_s=first.resolved.timeout_s,
        local=frozenset(name for one in settled for name in one.assignment.local),
        networks={name: list(dict.fromkeys(found)) for name, found in networks.items()},
        flows=assign_flows(first.flows, first.assignment, first.topology),
        flow_addresses=_flow_addresses(first),
        listening=first.listening,
        join_timeout_s=first.resolved.join_timeout_s,
        exec_prefixes=first.exec_prefixes,
    )


def run_plan(settled: Settled) -> RunPlan:
    """What is played of a job."""
    resolved, workload, topology = settled.resolved, settled.workload, settled.topology
    endpoints = range(topology.endpoints)
    return RunPlan(
        run_id=settled.identity.run_id,
        workload=workload,
        node_ids=[
            trace.node_id[program.order]
            for trace, program in zip(settled.job.loaded.traces, workload.programs, strict=True)
        ],
        choice=settled.choice,
        hosts=[topology.address_of(endpoint) for endpoint in endpoints],
        ranks_of=settled.assignment.ranks_of,
        iterations=range(-resolved.warmup, 1 if settled.until_others else resolved.iterations),
        transport=resolved.transport.name,
        message_bytes=resolved.message_bytes,
        credits=resolved.credits,
        seed=resolved.seed,
        silence_timeout_s=resolved.timeout_s,
        transport_options=resolved.options,
        port_shares=_port_shares(settled),
        interfaces=[topology.interface_of(endpoint).name for endpoint in endpoints],
        domains={name: domains_of(topology, ranks) for name, ranks in settled.assignment.ranks_of.items()},
        record_steps=resolved.record_steps,
        offset_ns=settled.offset_ns,
        is_continuous=settled.experiment.job.pace == "continuous",
        until_others=settled.until_others,
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


def _port_shares(settled: Settled) -> Mapping[int, PortShare]:
    if settled.resolved.roce is None or not settled.resolved.transport.is_paced:
        return {}
    return port_shares(settled.topology, settled.assignment.ranks_of, asked_bps=settled.resolved.roce.rate_cap_bps)
