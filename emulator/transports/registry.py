"""The transports that exist, and what the rest of Charkha must know of each without loading it.

To add one: describe it here, put its implementation into `agents/transports/<name>/`, and document it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from emulator.errors import PlanError
from emulator.roce.constants import DEFAULT_MESSAGE_BYTES
from emulator.roce.options import RoceOptions


@dataclass(frozen=True, slots=True)
class TransportFacts:
    """A transport as seen from the controller.

    Attributes:
        name: on the command line, in topologies and run specs.
        title: as reports name it.
        message_bytes: default payload of a message, at most.
        options: the type of its options; None: it has none besides message_bytes.
        is_paced: it keeps a rate cap per port, and is told which ranks share one.
        is_routed_by_flow: its UDP flows have source ports that are known in advance, so a plan can follow ECMP.
    """

    name: str
    title: str
    message_bytes: int
    options: type[RoceOptions] | None = None
    is_paced: bool = False
    is_routed_by_flow: bool = False


ROCE = TransportFacts(
    "roce",
    "RoCEv2 over UDP",
    message_bytes=DEFAULT_MESSAGE_BYTES,
    options=RoceOptions,
    is_paced=True,
    is_routed_by_flow=True,
)
ZMQ = TransportFacts("zmq", "ZeroMQ over TCP", message_bytes=1 << 20)

REGISTRY: Mapping[str, TransportFacts] = {one.name: one for one in (ROCE, ZMQ)}
"""By name; the first is the default."""
TRANSPORTS = tuple(REGISTRY)
DEFAULT_TRANSPORT = TRANSPORTS[0]


def transport_named(name: str) -> TransportFacts:
    """The facts of a transport.

    Raises:
        PlanError: there is no such transport.
    """
    if name not in REGISTRY:
        raise PlanError(f"there is no transport {name!r}; choose from {', '.join(REGISTRY)}")
    return REGISTRY[name]
