"""The interface between a player and a network: transfers with a tag, done when acknowledged.

Every transport guarantees (tests/integration/transport_conformance.py checks all of them):
- A transfer of any size from 0 bytes up arrives once, complete, or the endpoint fails with `failed`.
- `acknowledged` for a transfer comes after the peer's transport has all its bytes,
  whether or not a receive is posted there.
- Transfers between two ranks arrive, and are acknowledged, in the order they were posted. A transfer of 0 bytes is a
  control message: it may overtake payload (never another control message), so that it does not queue behind gigabytes.
- Memory is bounded: a transport cuts a transfer into messages of at most `message_bytes` and keeps few in flight.
- A transport sends only to addresses in its directory, and nothing before `connect`.

Posting is cheap and may be deferred: `flush` ends a batch. A player posts all the sends of a step, then flushes once.
Events come on the same thread, never from inside `post` or `flush`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from emulator.control.conversation import Address as Address
from emulator.control.observations import FlowCounters as FlowCounters

if TYPE_CHECKING:
    from agents.nic.port import Bucket
    from emulator.control.observations import Migration, Timeline
    from emulator.control.parameter import Parameter
    from emulator.host.core_wait import CoreWait
    from emulator.roce.connection.messages import FirstSent


@dataclass(frozen=True, slots=True)
class RankPort:
    """The port that a rank uses, as an agent sees it.

    Attributes:
        number: ranks with the same number share the port.
        line_rate_bps: bit/s; 0 if not specified.
        cap_bps: rate limit of all of this agent's ranks at the port, headers of every layer included; 0: no cap.
        limit: of the machine's owner, shared by everything that leaves through the interface; None: there is none.
    """

    number: int = 0
    line_rate_bps: int = 0
    cap_bps: int = 0
    limit: Bucket | None = None


class Silence(NamedTuple):
    """Rank `peer` owes rank `rank` an acknowledgement, and has sent it none since `since_ns` on the monotonic clock."""

    rank: int
    peer: int
    since_ns: int


class EndpointEvents(Protocol):
    """What an endpoint reports to its player; `now` is nanoseconds on the transport's clock."""

    def arrived(self, peer: int, tag: int, size: int, now: int, count: int = 1) -> None:
        """The last byte of a transfer from rank `peer` has arrived; `count`: equal transfers that came at once."""
        ...

    def acknowledged(self, peer: int, tag: int, now: int) -> None:
        """The peer's transport has the whole transfer posted to rank `peer` with `tag`."""
        ...

    def failed(self, peer: int, reason: str) -> None:
        """Transfers to or from `peer` cannot be completed; nothing more is reported for that peer."""
        ...


class Endpoint(Protocol):
    """The endpoint of a rank on the network."""

    @property
    def rank(self) -> int:
        """The rank this endpoint belongs to."""
        ...

    @property
    def address(self) -> Address:
        """Where it listens, with the port that the system chose."""
        ...

    def connect(self, directory: Mapping[int, Address], events: EndpointEvents) -> None:
        """Set where the other ranks listen and who receives events; must come before the first post."""
        ...

    def post(self, peer: int, tag: int, size: int, sent: FirstSent | None = None) -> None:
        """Queue a transfer of `size` bytes to rank `peer`. `tag` has 64 bits and need not be unique.

        Args:
            sent: learns when it begins to leave, if the transport has time stamps.
        """
        ...

    def flush(self) -> None:
        """End of a batch: hand everything posted to the network."""
        ...

    @property
    def stamp_ns(self) -> int:
        """When the kernel received what is being reported, on the transport's clock; 0: not known."""
        ...

    @property
    def received_ns(self) -> int:
        """When the kernel received what is being reported; 0: not known. `stamp_ns` is that where it is asked for."""
        ...

    @property
    def stalled_ns(self) -> int:
        """For how long its port had nothing left to send although something was in line, ns."""
        ...

    @property
    def lead_bytes(self) -> int:
        """Payload that its port got while it still had some to send, less that which it had to wait for."""
        ...

    def usual_ns(self, since_ns: int, until_ns: int) -> int:
        """How long what its port received between two times takes at the port's usual pace, ns; 0: not known."""
        ...

    @property
    def clock_steps(self) -> int:
        """How often the clock of time stamps was set: what was stamped shortly before is not to be trusted."""
        ...

    def collect(self) -> None:
        """Tell those who asked when their transfers began to leave, as far as it is known."""
        ...

    @property
    def acknowledged_bytes(self) -> int:
        """Payload that receivers have acknowledged, in bytes."""
        ...

    def counters(self) -> Sequence[FlowCounters]:
        """A snapshot of every outgoing flow, and of incoming flows if the receiver counts more than the sender."""
        ...

    def eventful(self) -> Sequence[FlowCounters]:
        """Those of `counters` that may have events, for transports that count any; asked for after every iteration."""
        ...

    def close(self) -> None:
        """Stop at once, dropping what is queued; idempotent."""
        ...


class Transport(Protocol):
    """Makes endpoints for the ranks of one agent; an async context manager that closes all of them."""

    @property
    def name(self) -> str:
        """The name on the command line."""
        ...

    def use_ports(self, ports: Mapping[int, RankPort], core_wait: CoreWait | None = None) -> None:
        """Set the port of each rank, before any endpoint is opened; transports without pacing ignore it.

        Args:
            core_wait: to be told what the ports have to send.
        """
        return

    def use_alternates(self, alternates: Mapping[int, str]) -> None:
        """Set the second address of ranks, before any endpoint is opened; transports with one path ignore it."""
        return

    def facts(self) -> Mapping[str, Parameter]:
        """Facts for the manifest in addition to the flows: buffers, offloads, drops by reason."""
        return {}

    def tidy(self) -> None:
        """An iteration is over, and the next one has not begun: do what would hold traffic up."""
        return

    def timeline(self) -> Timeline | None:
        """What flows carried by time until now; None if that is not recorded."""
        return None

    def silence(self) -> Silence | None:
        """The longest silence at present; None if no acknowledgement is owed, or the transport does not know."""
        return None

    def migrations(self) -> Sequence[Migration]:
        """Whenever traffic moved to another path, in order of time."""
        return ()

    async def open(self, rank: int, host: str) -> Endpoint:
        """Bind an endpoint at numeric IP address `host`, port chosen by the system.

        Raises:
            HostError: the address is not on this host, or a limit is reached (named).
        """
        ...

    async def __aenter__(self) -> Transport: ...

    async def __aexit__(self, *exc_info: object) -> None: ...
