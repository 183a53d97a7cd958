"""The registry of transports: what other rooms need to know about each without loading it.

To add a transport: describe it here, implement it in `agents/transports/<name>/`, and document it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from emulator.errors import PlanError
from emulator.roce.constants import DEFAULT_MESSAGE_BYTES, UDP_PORT
from emulator.roce.options import RoceOptions
from emulator.transports.verbs_options import VerbsOptions


@dataclass(frozen=True, slots=True)
class TransportFacts:
    """What the controller and the planner know about a transport.

    Attributes:
        name: on the command line, in topologies and run specs.
        title: name in reports.
        message_bytes: default maximum payload of a message.
        options: type of its options; None: message_bytes is its only one.
        is_rocev2: its packets are those of RoCEv2, whoever makes them.
        is_paced: it enforces a rate cap per port, and needs to know which ranks share a port.
        needs_device: it does not run on every host, so a host is not calibrated for it.
        listens_at: port of all its ends; None: the system chooses them.
        is_routed_by_flow: the UDP source ports of its flows are known in advance, so a plan can follow ECMP.
    """

    name: str
    title: str
    message_bytes: int
    options: type[RoceOptions] | type[VerbsOptions] | None = None
    is_rocev2: bool = False
    is_paced: bool = False
    listens_at: int | None = None
    is_routed_by_flow: bool = False
    needs_device: bool = False


ROCE = TransportFacts(
    "roce",
    "RoCEv2 over UDP",
    message_bytes=DEFAULT_MESSAGE_BYTES,
    options=RoceOptions,
    is_rocev2=True,
    is_paced=True,
    listens_at=UDP_PORT,
    is_routed_by_flow=True,
)
ZMQ = TransportFacts("zmq", "ZeroMQ over TCP", message_bytes=1 << 20)
VERBS = TransportFacts(
    "verbs",
    "RoCEv2 of RDMA devices",
    message_bytes=DEFAULT_MESSAGE_BYTES,
    options=VerbsOptions,
    is_rocev2=True,
    needs_device=True,
)

REGISTRY: Mapping[str, TransportFacts] = {one.name: one for one in (ROCE, ZMQ, VERBS)}
"""By name; the first is the default."""
TRANSPORTS = tuple(REGISTRY)
LISTED = f"{', '.join(TRANSPORTS[:-1])} or {TRANSPORTS[-1]}"
EVERYWHERE = tuple(one.name for one in REGISTRY.values() if not one.needs_device)
"""Transports that run on every host."""
PACED = tuple(one.name for one in REGISTRY.values() if one.is_paced)
DEFAULT_TRANSPORT = TRANSPORTS[0]


def transport_named(name: str) -> TransportFacts:
    """Facts about a transport.

    Raises:
        PlanError: there is no such transport.
    """
    if name not in REGISTRY:
        raise PlanError(f"there is no transport {name!r}; choose from {', '.join(REGISTRY)}")
    return REGISTRY[name]
