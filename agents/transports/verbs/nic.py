"""What the transport needs of a NIC: queue pairs that exchange their facts, then WRITE with immediate data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Protocol

import msgspec
from msgspec import Meta

if TYPE_CHECKING:
    from agents.nic.channel import QueuePairOwner
    from emulator.control.parameter import Parameter
    from emulator.roce.connection.messages import Message


_Word24 = Annotated[int, Meta(ge=0, lt=1 << 24)]


class VerbsQpRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One end of a queue pair, as the other end must know it.

    Attributes:
        qpn, psn: its number, and the PSN of its first packet.
        rkey, address: of the ring that the other end writes to.
        slots, slot_bytes: of that ring.
        path_mtu: payload of a full packet, bytes.
    """

    qpn: _Word24
    psn: _Word24
    rkey: Annotated[int, Meta(ge=0, lt=1 << 32)]
    address: Annotated[int, Meta(ge=0)]
    slots: Annotated[int, Meta(ge=1, le=1 << 16)]
    slot_bytes: Annotated[int, Meta(ge=1, le=1 << 30)]
    path_mtu: Annotated[int, Meta(ge=256, le=4096)]


class Qp(Protocol):
    """A queue pair, and its ring."""

    @property
    def record(self) -> VerbsQpRecord:
        """What the peer must know."""
        ...

    def connect(self, peer: VerbsQpRecord, host: str) -> None:
        """Set the other end: afterwards it receives and may send.

        Raises:
            HostError: the device refuses.
        """
        ...

    def post(self, messages: Sequence[Message]) -> None:
        """Send WRITEs with immediate data."""
        ...

    def close(self) -> None:
        """Stop at once; idempotent."""
        ...


class Nic(Protocol):
    """The NIC of an address. It calls the owners of its queue pairs from the event loop."""

    def create(self, owner: QueuePairOwner) -> Qp:
        """Create a queue pair.

        Raises:
            HostError: a limit of the device or of this host is reached.
        """
        ...

    def poll(self) -> None:
        """Deliver what has come and has not been delivered."""
        ...

    def facts(self) -> Mapping[str, Parameter]:
        """Facts for the manifest: what it is, where completions are observed, counters of the device."""
        ...

    def close(self) -> None:
        """Stop at once; idempotent."""
        ...


class ReceiveRing(msgspec.Struct, frozen=True):
    """The size of the ring that every peer gets."""

    slots: int
    slot_bytes: int

    @property
    def bytes(self) -> int:
        """All of it."""
        return self.slots * self.slot_bytes
