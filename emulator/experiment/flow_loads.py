"""What the flows of a run spec send: payload by direction."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from emulator.experiment.flows import PlannedFlow
from emulator.experiment.resolve import resolve
from emulator.experiment.settled import planned_flows
from emulator.experiment.spec import Experiment
from emulator.experiment.testbed import topology_without_host
from emulator.peer.parameters import PeerTest
from emulator.peer.task import PeerTask
from emulator.planner.network.flow_loads import FlowLoad
from emulator.schema import decode
from emulator.topology.model import Topology
from emulator.topology.network import End


def check_flows(experiment: Experiment, *, ranks: int) -> list[FlowLoad]:
    """What the flows of a run spec send; settings that a run would refuse are refused here.

    Raises:
        TopologyError: the topology file is not valid.
        PlanError: the ranks do not fit, a setting is not one of the transport, or a flow is not possible.
    """
    topology = topology_without_host(experiment, ranks=ranks)
    return flow_loads(planned_flows(experiment, experiment.flows, topology, resolve(experiment, topology)), topology)


def flow_loads(flows: Sequence[PlannedFlow], topology: Topology) -> list[FlowLoad]:
    """Every direction in which flows send payload."""
    return [load for flow in flows for load in _directions(flow, topology)]


def _directions(flow: PlannedFlow, topology: Topology) -> Iterator[FlowLoad]:
    # What is known of flows of other kinds is that this end sends.
    test = decode(json.loads(flow.task.document), PeerTask).test if flow.task.kind == "perftest" else None
    here, there = End(flow.host, flow.interface), _peer_port(flow, topology)
    is_outwards, is_both = True, False
    if test is not None:
        is_outwards = (flow.role == "client") is (test.verb.operation != "read")
        is_both = test.is_bidirectional or (test.verb.is_latency and test.verb.operation != "read")
    for sender, receiver in ((here, there), (there, here)) if is_outwards else ((there, here), (here, there)):
        yield FlowLoad(
            number=flow.task.number,
            kind=flow.task.kind,
            about=flow.about,
            sender=sender,
            receiver=receiver,
            payload_bytes=_payload_bytes(test),
        )
        if not is_both:
            return


def _peer_port(flow: PlannedFlow, topology: Topology) -> End:
    (peer,) = (host for host in topology.hosts if host.name == flow.peer)
    named = [port.name for port in peer.interfaces if flow.peer_address in port.addresses]
    return End(flow.peer, (named or [peer.interfaces[0].name])[0])


def _payload_bytes(test: PeerTest | None) -> int | None:
    return test.size_bytes * test.iterations * test.queue_pairs if test is not None and test.iterations else None
