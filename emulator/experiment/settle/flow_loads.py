"""What the flows of a run spec send: payload by direction."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from emulator.experiment.settle.flow_places import PlannedFlow, find_host
from emulator.experiment.settle.resolve import resolve
from emulator.experiment.settle.settled import planned_flows
from emulator.experiment.settle.testbed import topology_without_host
from emulator.experiment.spec.spec import Experiment
from emulator.flows.perftest.parameters import PeerTest
from emulator.flows.perftest.task import PeerTask
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
    return flow_loads(planned_flows(experiment, topology, resolve(experiment, topology)), topology)


def flow_loads(flows: Sequence[PlannedFlow], topology: Topology) -> list[FlowLoad]:
    """Every direction in which flows send payload."""
    return [load for flow in flows for load in _directions(flow, topology)]


def _directions(flow: PlannedFlow, topology: Topology) -> Iterator[FlowLoad]:
    here = End(flow.host, flow.interface)
    if flow.task.kind == "background":
        if flow.parameter:  # the sender's end, which stands for both
            host, interface = find_host(topology, flow.row["peer"], flow.task.title)
            yield _load(flow, here, End(host.name, interface.name), None)
        return
    test, there = decode(json.loads(flow.task.document), PeerTask).test, _peer_port(flow, topology)
    is_outwards = (flow.row["role"] == "client") is (test.verb.operation != "read")
    is_both = test.is_bidirectional or (test.verb.is_latency and test.verb.operation != "read")
    for sender, receiver in ((here, there), (there, here)) if is_outwards else ((there, here), (here, there)):
        yield _load(flow, sender, receiver, test)
        if not is_both:
            return


def _load(flow: PlannedFlow, sender: End, receiver: End, test: PeerTest | None) -> FlowLoad:
    return FlowLoad(
        number=flow.task.number,
        kind=flow.task.kind,
        about=flow.about,
        sender=sender,
        receiver=receiver,
        payload_bytes=_payload_bytes(test),
    )


def _peer_port(flow: PlannedFlow, topology: Topology) -> End:
    (peer,) = (host for host in topology.hosts if host.name == flow.row["peer"])
    named = [port.name for port in peer.interfaces if flow.peer_address in port.addresses]
    return End(flow.row["peer"], (named or [peer.interfaces[0].name])[0])


def _payload_bytes(test: PeerTest | None) -> int | None:
    return test.size_bytes * test.iterations * test.queue_pairs if test is not None and test.iterations else None
